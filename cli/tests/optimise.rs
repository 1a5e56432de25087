//! `antares optimise --asm`: between a compiler and its assembler, and by hand.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use antares_guests as guests;
use serde_json::Value;

/// Both halves of a product, in the order that costs more.
const PAIR: &str = "f:\n\tmul\ta2,a0,a1\n\tmulhu\ta3,a0,a1\n\tsd\ta2,0(a4)\n\tsd\ta3,8(a4)\n\tret\n";

fn antares(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.env("ANTARES_CACHE", "off").env("XDG_CACHE_HOME", folder).current_dir(folder).args(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that does not read is no failure of ours.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn assembly_goes_through_pipes_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let piped = antares(folder.path(), &["optimise", "--asm", "-", "-o", "-"], PAIR);
    let (out, told) = (String::from_utf8(piped.stdout).unwrap(), String::from_utf8(piped.stderr).unwrap());
    assert!(piped.status.success(), "{told}");
    assert!(out.find("mulhu").unwrap() < out.find("mul\t").unwrap(), "{out}");
    assert_eq!(told, "antares: 1 of 1 windows rewritten and proved, each once through: 5 cycles fewer\n");
    fs::write(folder.path().join("f.s"), PAIR).unwrap();
    let words = ["optimise", "--asm", "f.s", "-o", "f.s", "--report", "r.json", "--smt-out", "asked"];
    assert!(antares(folder.path(), &words, "").status.success());
    assert_eq!(fs::read_to_string(folder.path().join("f.s")).unwrap(), out);
    let report: Value = serde_json::from_slice(&fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["saved_by_model"], 5);
    assert_eq!((&report["rewrites"][0]["function"], &report["rewrites"][0]["pc"]), (&"f".into(), &2.into()));
    assert_eq!(fs::read_dir(folder.path().join("asked")).unwrap().count(), 2);
    // Nothing is left to save.
    let again = antares(folder.path(), &["optimise", "--asm", "f.s", "-o", "-"], "");
    assert_eq!(String::from_utf8(again.stdout).unwrap(), out);
}

#[test]
fn what_is_no_assembly_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("binary"), [0xff, 0, 1]).unwrap();
    fs::write(folder.path().join("near.s"), format!("g:\n\tbeqz\ta0,.+8\n{PAIR}")).unwrap();
    for (words, said) in [
        (["--asm", "binary", "-o", "out"].as_slice(), "binary is no assembly: it is not text"),
        (&["--asm", "near.s", "-o", "out"], "near.s: line 2 jumps to a place that has no name"),
        (&["--asm", "none.s", "-o", "out"], "none.s"),
        (&["--asm", "near.s", "binary", "-o", "out"], "cannot be used with"),
        (&["-o", "out"], "required"),
    ] {
        let output = antares(folder.path(), &[&["optimise"], words].concat(), "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(said), "{words:?}: {told}");
        assert!(!folder.path().join("out").exists());
    }
}

/// Exit code and cycles of a script.
fn run(folder: &Path, elf: &[u8]) -> (u64, u64) {
    fs::write(folder.join("script"), elf).unwrap();
    let output = antares(folder, &["run", "script", "--json", "--", "2"], "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    (report["exit_code"].as_u64().unwrap(), report["cycles"].as_u64().unwrap())
}

#[test]
fn gcc_builds_a_cheaper_script_through_the_wrapper() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/assembly/cheaper-as.sh");
    let wrapper = folder.path().join("as.sh");
    let (antares, shipped) = (env!("CARGO_BIN_EXE_antares"), shipped.display());
    let text = format!(
        "#!/bin/sh\nexport ANTARES='{antares}' ANTARES_OPTIMISE='--no-cache --vm-version 2'\nexec '{shipped}' \"$@\"\n"
    );
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let guest = guests::guest_named("keccak-imc").unwrap();
    let before = run(folder.path(), &guests::bytes("keccak-imc").unwrap());
    let after = run(folder.path(), &guests::build_wrapped(&guest, &wrapper, folder.path()).unwrap());
    assert_eq!(before.0, after.0);
    assert!(after.1 * 10 < before.1 * 9, "{} cycles instead of {}", after.1, before.1);
}
