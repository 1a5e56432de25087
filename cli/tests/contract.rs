//! The contract of docs/cli.md: forms, JSON keys, exit statuses. Runs the real command with real workers
//! (`cargo build --workspace` builds them; `make test` does so first).

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use crate::{
    command::{command, end, json, start},
    elf::{self, exits},
};

const KEYS: &str = "debug_lines_left_out debug_bytes_left_out outcome exit_code error error_detail cycles load_cycles \
    native_cycles interpreted_cycles restarted restarted_detail compile_ms run_us artifact cache code_tier debug";

/// `addi rd, x0, value` for a value of 12 bits.
const fn li(rd: u32, value: u32) -> u32 {
    (value & 0xfff) << 20 | rd << 7 | 0x13
}

const A0: u32 = 10;
const A7: u32 = 17;
const ECALL: u32 = 0x73;
/// `jal x0, 0`: an endless loop.
const LOOP: u32 = 0x6f;

/// Exit status, standard output and standard error of `antares` with a script on its standard input.
#[track_caller]
fn text(args: &[&str], stdin: &[u8]) -> (i32, String, String) {
    let (status, stdout, stderr) = end(start(&mut command(Path::new("."), args), stdin));
    (status.unwrap(), stdout, stderr)
}

/// Exit status and the JSON object of `antares run - --json ARGS`.
#[track_caller]
fn run(args: &[&str], elf: &[u8]) -> (i32, Value) {
    let (status, stdout, stderr) = text(&[&["run", "-", "--json"], args].concat(), elf);
    let value = json(&stdout);
    let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, KEYS.split_whitespace().collect());
    assert_eq!(stdout.lines().count(), 1, "one object on one line");
    // Notes come from the command; workers print nothing.
    assert!(stderr.lines().all(|line| line.starts_with("antares: ")), "{stderr}");
    (status, value)
}

/// Asserts that a script has the same verdict in every tier.
#[track_caller]
fn in_every_tier(args: &[&str], elf: &[u8], status: i32, expected: &[(&str, Value)]) {
    for tier in ["auto", "native", "interpreter"] {
        let (found, value) = run(&[&["--tier", tier], args].concat(), elf);
        assert_eq!(found, status, "{tier}: {value}");
        for (key, expected) in expected {
            assert_eq!(value[key], *expected, "{tier}: {key} in {value}");
        }
    }
}

#[test]
fn wrong_words_end_with_2() {
    for (words, reason) in [
        (&["run"][..], ""),
        (&["no-such-command"], ""),
        (&["run", "-", "--vm-version", "3"], ""),
        (&["run", "-", "--isa", "rv64"], ""),
        (&["run", "-", "--tier", "fast"], ""),
        (&["run", "-", "--max-cycles", "-1"], ""),
        (&["run", "-", "--deadline-ms", "0"], ""),
        (&["run", "-", "argument-without-dashes"], ""),
        (&["explain", "-"], ""),
        (&["explain", "-", "--stage", "coffee"], ""),
        (&["explain", "--passes", "--after", "lift"], ""),
        (&["compile", "-"], ""),
        (&["run", "/no/such/script"], "cannot read /no/such/script"),
        (&["run", "/"], ""),
        (&["run", "/dev/zero"], "longer than 16777216 bytes"),
    ] {
        let (status, stdout, stderr) = text(words, &exits(0));
        assert_eq!((status, stdout.as_str()), (2, ""), "{words:?}: {stderr}");
        assert!(!stderr.is_empty() && stderr.contains(reason), "{words:?}: {stderr}");
    }
}
#[test]
fn a_script_that_exits_0_ends_with_0() {
    let exited = [
        ("outcome", "exit".into()),
        ("exit_code", 0.into()),
        ("error", Value::Null),
        ("cache", "none".into()),
    ];
    in_every_tier(&[], &exits(0), 0, &exited);
    for version in ["0", "1", "2"] {
        in_every_tier(&["--vm-version", version, "--isa", "imc"], &exits(0), 0, &exited);
    }
}

#[test]
fn exit_codes_are_signed() {
    in_every_tier(
        &[],
        &exits((-7_i8).cast_unsigned()),
        1,
        &[("outcome", "exit".into()), ("exit_code", (-7).into())],
    );
}

#[test]
fn tiers_do_what_their_names_say() {
    let (_, native) = run(&["--tier", "native"], &exits(0));
    assert_eq!((&native["native_cycles"], &native["interpreted_cycles"]), (&native["cycles"], &0.into()));
    let (_, interpreted) = run(&["--tier", "interpreter"], &exits(0));
    assert_eq!(interpreted["interpreted_cycles"], interpreted["cycles"]);
    assert_eq!((&interpreted["native_cycles"], &interpreted["compile_ms"]), (&0.into(), &0.into()));
    assert_eq!(native["cycles"], interpreted["cycles"]);
    assert_eq!(native["artifact"], interpreted["artifact"]);
    // The file, and argc and the end of argv on the stack.
    let loaded = exits(0).len() + 8 + 8;
    assert_eq!(native["load_cycles"], loaded.div_ceil(4));
}

#[test]
fn a_short_script_needs_no_worker() {
    for tier in ["auto", "interpreter"] {
        let mut command = command(Path::new("."), &["run", "-", "--json", "--tier", tier]);
        // A worker would fail to start.
        command.env("ANTARES_HEAD_START_MS", "60000").env("ANTARES_ALLOW_DEGRADED", "moat");
        let (status, stdout, stderr) = end(start(&mut command, &exits(0)));
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
        assert_eq!(json(&stdout)["interpreted_cycles"], json(&stdout)["cycles"]);
    }
}

#[test]
fn what_leaves_native_code_in_every_run_is_said() {
    // lui a0, 0x100; amoadd.w a1, zero, (a0).
    let atomic = elf::of(&[0x10_0537, 0x0005_25af, li(A7, 93), li(A0, 0), ECALL]);
    let isa = ["--vm-version", "2", "--isa", "imc+a"];
    // lui a7, 1; addi a7, a7, -2044: 2052.
    let call = elf::of(&[0x18b7, 0x8048_8893, ECALL]);
    let cases = [
        (&atomic, &isa[..], (0, "unsupported"), "atomics"),
        (&call, &[], (1, "ecall"), "a run by itself does not serve"),
    ];
    for (elf, args, (expected, reason), words) in cases {
        let native = [&["--tier", "native"], args].concat();
        let (status, value) = run(&native, elf);
        assert_eq!((status, &value["restarted"]), (expected, &reason.into()), "{value}");
        let detail = value["restarted_detail"].as_str().expect("a reason in words");
        assert!(detail.contains(words), "{detail}");
        let (_, stdout, _) = text(&[&["run", "-"], native.as_slice()].concat(), elf);
        assert!(stdout.contains(detail), "{stdout}");
        let (_, value) = run(&[&["--tier", "interpreter"], args].concat(), elf);
        assert_eq!((&value["restarted"], &value["restarted_detail"]), (&Value::Null, &Value::Null));
    }
    let (_, shown, _) = text(&[&["explain", "-", "--stage", "program"], &isa[..]].concat(), &atomic);
    assert!(shown.contains("atomics: 1, at each of which native code is left"), "{shown}");
}

#[test]
fn limits_are_outcomes() {
    let endless = elf::of(&[LOOP]);
    in_every_tier(&["--max-cycles", "100000"], &endless, 1, &[("outcome", "cycles_exceeded".into())]);
    let forever = u64::MAX.to_string();
    let args = ["--max-cycles", forever.as_str(), "--deadline-ms", "300"];
    in_every_tier(&args, &endless, 1, &[("outcome", "deadline_exceeded".into()), ("exit_code", Value::Null)]);
    // The head start ends at the deadline too.
    let mut late =
        command(Path::new("."), &["run", "-", "--json", "--deadline-ms", "5", "--max-cycles", "2G"]);
    let (_, stdout, _) = end(start(late.env("ANTARES_HEAD_START_MS", "60000"), &endless));
    assert_eq!(json(&stdout)["outcome"], "deadline_exceeded", "{stdout}");
}

#[test]
fn arguments_reach_the_script() {
    // The guest exits with argc, at the top of its stack: ld a0, 0(sp).
    let argc = elf::of(&[0x0001_3503, li(A7, 93), ECALL]);
    in_every_tier(&["--", "one", "--json", "three"], &argc, 1, &[("exit_code", 3.into())]);
}

#[test]
fn a_malformed_script_is_the_vms_error() {
    let whole = exits(0);
    let (status, value) = run(&["--tier", "interpreter"], &whole[..80]);
    assert_eq!((status, &value["outcome"], &value["cycles"]), (1, &"error".into(), &0.into()));
    in_every_tier(&[], &whole[..80], 1, &[("outcome", "error".into()), ("error", value["error"].clone())]);
}

#[test]
fn compile_writes_a_shared_object() {
    let folder = tempfile::tempdir().unwrap();
    let elf = folder.path().join("verify");
    std::fs::write(&elf, exits(0)).unwrap();
    let output = folder.path().join("out.so");
    let names = [elf.to_str().unwrap(), output.to_str().unwrap()];
    let (status, stdout, stderr) = text(&["compile", names[0], "-o", names[1]], b"");
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("artifact"), "{stdout}");
    let library = std::fs::read(&output).unwrap();
    assert_eq!(library[..4], *b"\x7fELF");
    let words = ["compile", "-", "-o", "-"];
    let again = start(&mut command(folder.path(), &words), &exits(0)).wait_with_output().unwrap();
    assert!(again.status.success() && again.stdout == library, "the same script gives the same bytes");
    let (status, _, stderr) = text(&["compile", "-", "-o", "/no/such/folder/out.so"], &exits(0));
    assert_eq!(status, 2, "{stderr}");
    let (status, _, stderr) = text(&["compile", "-", "-o", names[1]], b"no script at all");
    assert_eq!(status, 1, "{stderr}");
    assert_eq!(std::fs::read(&output).unwrap(), library, "a failure leaves the file alone");
}

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    if !cfg!(feature = "server") {
        return;
    }
    let (status, stdout, stderr) = text(&["run", "-", "--json", "--server", "http://127.0.0.1:1"], &exits(0));
    assert_eq!((status, stdout.as_str()), (3, ""));
    assert!(stderr.contains("cannot reach http://127.0.0.1:1"), "{stderr}");
}

#[test]
fn the_version_says_what_it_was_built_from() {
    let (_, long, _) = text(&["--version"], b"");
    for part in ["antares 0.", "\ncommit ", "\nengine ", "\nLLVM "] {
        assert!(long.contains(part), "{part:?} is not in {long}");
    }
    let (_, short, _) = text(&["-V"], b"");
    assert_eq!(short.lines().count(), 1, "{short}");
}

#[test]
fn cycles_that_are_expected_are_exact() {
    let script = exits(0);
    let (_, value) = run(&["--tier", "interpreter"], &script);
    let cycles = value["cycles"].as_u64().expect("cycles");
    for (expected, status) in [(cycles, 0), (cycles - 1, 1), (cycles + 1, 1)] {
        let expected = expected.to_string();
        for tier in ["interpreter", "native"] {
            let args = ["run", "-", "--json", "--tier", tier, "--expect-cycles", expected.as_str()];
            let (ended, stdout, stderr) = text(&args, &script);
            assert_eq!(ended, status, "{stderr}");
            assert!(stdout.contains("\"outcome\":\"exit\""), "{stdout}");
            assert_eq!(stderr.contains("were expected"), status == 1, "{stderr}");
        }
    }
}
