//! First steps of script authors: a script as a lock, unknown system calls, exceeded limits, ELFs full of
//! debug data. Runs the real command with real workers, like contract.rs.

use std::{fs, path::Path};

use antares_guests::debugger_examples;

use crate::{
    command::{antares, command, end, folder, json, start, transaction, usage},
    elf,
};

/// `li a7, number; ecall; li a7, 93; ecall`, for numbers below 4096.
fn calls(number: u32) -> Vec<u8> {
    let load = if number < 2048 {
        vec![number << 20 | 17 << 7 | 0x13]
    } else {
        // lui a7, 1; addi a7, a7, number - 4096.
        vec![1 << 12 | 17 << 7 | 0x37, (number.wrapping_sub(4096) & 0xfff) << 20 | 17 << 15 | 17 << 7 | 0x13]
    };
    elf::of(&[load.as_slice(), &[0x73, 0x05d0_0893, 0x73]].concat())
}

/// Loads the script and exits with its byte at `at`. In molecule, the arguments come last.
fn gives_byte_of_script(at: u32) -> Vec<u8> {
    let at = at << 20;
    elf::of(&[
        // addi sp, sp, -512; li t0, 256; sd t0, 0(sp); addi a0, sp, 8; mv a1, sp; li a2, 0.
        0xe001_0113,
        0x1000_0293,
        0x0051_3023,
        0x0081_0513,
        0x0001_0593,
        0x0000_0613,
        // li a7, 2052 (lui, addi); ecall.
        0x0000_18b7,
        0x8048_8893,
        0x0000_0073,
        // lbu a0, 8 + at(sp); li a7, 93; ecall.
        at | 2 << 15 | 4 << 12 | 10 << 7 | 0x03,
        0x05d0_0893,
        0x0000_0073,
    ])
}

#[test]
fn a_script_runs_as_the_lock_of_a_transaction() {
    // After 16 bytes of header, 32 of code hash, 1 of hash type and 4 of length, arguments start at 53.
    let folder = folder(&[("script", gives_byte_of_script(8 + 53 + 1))]);
    fs::write(folder.path().join("args"), [0, 0x25]).unwrap();
    let run = |more: &[&str]| {
        let words = [&["run", "script", "--as-lock", "--json"], more].concat();
        let (status, stdout, stderr) = antares(folder.path(), &words);
        assert!(stdout.ends_with("}\n"), "{stderr}");
        (status, json(&stdout)["groups"][0]["exit_code"].as_i64())
    };
    for tier in ["auto", "native", "interpreter"] {
        assert_eq!(run(&["--args", "0x0017", "--tier", tier]), (Some(1), Some(0x17)));
    }
    assert_eq!(run(&["--args", "@args", "--witness", "0x01", "--data", "0x02"]), (Some(1), Some(0x25)));
    assert_eq!(run(&["--args", "0xff00"]), (Some(0), Some(0)));
    let stderr = usage(folder.path(), &["run", "script", "--as-lock", "--args", "17"]);
    assert!(stderr.contains("must be 0x"), "{stderr}");
    let stderr = usage(folder.path(), &["run", "script", "--args", "0x17"]);
    assert!(stderr.contains("--as-lock"), "{stderr}");
    let words = ["run", "script", "--as-lock", "--args", "0xff00", "--expect-cycles", "1"];
    let (status, _, stderr) = antares(folder.path(), &words);
    assert!(status == Some(1) && stderr.contains("1 were expected"), "{stderr}");
}

#[test]
fn cycles_of_a_lock_are_those_of_the_published_program() {
    let fib = debugger_examples().unwrap().join("fib");
    let (status, stdout, _) = antares(Path::new("."), &["run", fib.to_str().unwrap(), "--as-lock", "--json"]);
    assert_eq!((status, json(&stdout)["cycles"].as_u64()), (Some(0), Some(3364)));
}

#[test]
fn system_calls_that_nobody_serves_are_named() {
    let folder = folder(&[("load", calls(2052)), ("write", calls(64)), ("none", calls(1000))]);
    for (script, expected) in [
        ("load", "2052 is load_script, which needs a transaction: antares run --as-lock SCRIPT"),
        ("write", "64 is write of ckb-debugger, which is not on the chain: antares debugger --bin SCRIPT"),
        ("none", "1000 is no system call of CKB"),
    ] {
        let (status, stdout, _) = antares(folder.path(), &["run", script]);
        assert!(status == Some(1) && stdout.contains(expected), "{stdout}");
        let (_, stdout, _) = antares(folder.path(), &["run", script, "--json"]);
        assert_eq!(json(&stdout)["error"], "InvalidEcall");
    }
    let (status, stdout, _) = antares(folder.path(), &["run", "--as-lock", "write"]);
    assert!(status == Some(1) && stdout.contains("64 is write of ckb-debugger"), "{stdout}");
}

#[test]
fn the_limit_that_was_passed_is_named() {
    let folder = folder(&[("endless", elf::of(&[0x6f]))]);
    let (status, stdout, _) = antares(folder.path(), &["run", "endless", "--max-cycles", "70k"]);
    let reason = "cycle limit exceeded: the limit is 70,000 cycles\n";
    assert!(status == Some(1) && stdout.starts_with(reason), "{stdout}");
    let (_, stdout, _) = antares(folder.path(), &["run", "endless", "--max-cycles", "70k", "--json"]);
    assert_eq!(json(&stdout)["error_detail"], "the limit is 70,000 cycles");
    let (_, stdout, _) = antares(folder.path(), &["run", "--as-lock", "endless", "--max-cycles", "70k"]);
    assert!(stdout.contains("expect cycles <= 70000"), "{stdout}");
}

#[test]
fn what_is_not_loaded_counts_toward_no_limit() {
    let mut elf = elf::of(&[0x0000_0513, 0x05d0_0893, 0x73]);
    let (small, size) = (elf.clone(), 23 << 20);
    elf.resize(size, b'x');
    let folder = folder(&[("big", elf), ("small", small)]);
    let cycles = |words: &[&str]| {
        let (status, stdout, stderr) = antares(folder.path(), words);
        assert_eq!(status, Some(0), "{stderr}");
        (json(&stdout)["cycles"].as_u64(), stderr)
    };
    for lock in [&["run", "--json"][..], &["run", "--json", "--as-lock"]] {
        let (expected, stderr) = cycles(&[lock, &["small"]].concat());
        assert!(!stderr.contains("left out"), "{stderr}");
        let (found, stderr) = cycles(&[lock, &["big"]].concat());
        assert_eq!(found, expected);
        assert!(stderr.contains(&format!("big has {size} bytes, 132 to load")), "{stderr}");
    }
    let (status, stdout, stderr) = antares(folder.path(), &["profile", "big"]);
    assert!(status == Some(0) && stdout.starts_with("502 cycles; exit 0\n"), "{stdout}{stderr}");
    // A file of a template, in a cell.
    fs::write(folder.path().join("tx.json"), transaction("data1")).unwrap();
    fs::copy(folder.path().join("big"), folder.path().join("lock")).unwrap();
    let (status, stdout, stderr) = antares(folder.path(), &["verify", "--tx", "tx.json"]);
    assert!(stdout.contains("lock input.0") && stdout.contains("exit 0"), "{status:?} {stdout}{stderr}");
}

#[test]
fn a_transaction_is_profiled_as_one() {
    let transaction = debugger_examples().unwrap().join("mock_tx.json");
    let transaction = transaction.to_str().unwrap();
    let (status, stdout, stderr) = antares(Path::new("."), &["profile", transaction]);
    let (_, expected, _) = antares(Path::new("."), &["profile", "--tx", transaction]);
    assert_eq!((status, &stdout), (Some(0), &expected), "{stderr}");
    let json = fs::read(transaction).unwrap();
    let (status, _, stderr) = end(start(&mut command(Path::new("."), &["profile", "-"]), &json));
    assert!(status == Some(2) && stderr.contains("--tx -"), "{stderr}");
}

#[test]
fn profiles_differences_and_insights_have_json() {
    let (fib, log) =
        (debugger_examples().unwrap().join("fib"), debugger_examples().unwrap().join("print_log"));
    let (fib, log) = (fib.to_str().unwrap(), log.to_str().unwrap());
    let ask = |words: &[&str]| {
        let (status, stdout, stderr) = antares(Path::new("."), words);
        assert_eq!((status, stdout.lines().count()), (Some(0), 1), "{stderr}");
        json(&stdout)
    };
    let profile = ask(&["profile", fib, "--json", "--top", "2"]);
    assert_eq!((&profile["cycles"], &profile["outcome"]), (&1361.into(), &"1361 cycles; exit 0".into()));
    assert_eq!(profile["functions"].as_array().map(Vec::len), Some(2));
    assert_eq!(profile["functions"][0]["name"], "fib");
    assert_eq!(profile["functions"][0]["self_cycles"], 809);
    let diff = ask(&["profile", "diff", fib, log, "--json"]);
    assert_eq!((&diff["before_cycles"], diff["after_cycles"].as_u64() > Some(1361)), (&1361.into(), true));
    assert!(diff["functions"].as_array().unwrap().iter().any(|function| function["name"] == "fib"));
    let insights = ask(&["insights", log, "--json"]);
    assert!(insights["findings"].is_array() && insights["cycles"].as_u64() > Some(30_000));
}

#[test]
fn reports_have_colour_where_it_is_wanted() {
    let fib = debugger_examples().unwrap().join("fib");
    let fib = fib.to_str().unwrap();
    let first = |words: &[&str]| antares(Path::new("."), words).1.lines().next().unwrap().to_owned();
    assert_eq!(first(&["run", fib]), "exit 0");
    assert_eq!(first(&["run", fib, "--color", "always"]), "\u{1b}[32mexit 0\u{1b}[0m");
    assert_eq!(first(&["--color", "never", "run", fib]), "exit 0");
    assert!(!first(&["run", fib, "--color", "always", "--json"]).contains('\u{1b}'));
    let (status, help, _) = antares(Path::new("."), &["help"]);
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text} in {help}"));
    assert_eq!(status, Some(0));
    assert!(at("For authors of scripts:") < at("\n  run ") && at("\n  run ") < at("\n  serve "));
    assert!(at("\n  debugger ") < at("With a server:"));
}
