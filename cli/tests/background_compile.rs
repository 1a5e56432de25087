//! The first run of a script with a long compile does not wait for it if the interpreter finishes sooner; the
//! second run does.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    command::{caching, ends_with, folder as folder_of, json},
    elf,
};

/// Longer than the interpreter needs.
const MINUTE: &str = "60000";
/// The pool gives a worker this long to start.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A folder with the script `large`, 160 KB of code: without an argument it counts for longer than a script may
/// take that needs no native code, else it executes all of it.
fn folder() -> TempDir {
    // ld t0, 0(sp); bnez t0, code; lui t1, 2 << 12; addi t1, t1, -1; bnez t1, -4.
    let mut code = vec![0x0001_3283, 0x0002_9e63, 0x0200_0337, 0xfff3_0313, 0xfe03_1ee3];
    // addi a0, zero, 0; addi a7, zero, 93; ecall.
    let end = [0x0000_0513, 0x05d0_0893, 0x73_u32];
    code.extend(end);
    // add a0, a0, a1; xor a1, a1, a0; slli a1, a1, 3; beq a0, a1, next; addi a0, a0, 3.
    let part = [0x00b5_0533, 0x00a5_c5b3, 0x0035_9593, 0x00b5_0463, 0x0035_0513];
    code.extend(part.into_iter().cycle().take(5 * 8000).chain(end));
    folder_of(&[("large", elf::of(&code))])
}

/// The report of a run, and standard error.
#[track_caller]
fn antares_run(folder: &Path, script: &str, words: &[&str], head_start: &str) -> (Value, String) {
    let words = [&["run", script, "--json"], words].concat();
    let mut command = caching(folder, &words);
    let (stdout, stderr) = ends_with(0, command.env("ANTARES_HEAD_START_MS", head_start));
    (json(&stdout), stderr)
}

/// The report of a run of `large`, and whether it ran in native code; else in the interpreter, with the
/// reason on standard error.
#[track_caller]
fn run(folder: &Path, words: &[&str], head_start: &str) -> (Value, bool) {
    let (report, stderr) = antares_run(folder, "large", words, head_start);
    let is_native = report["native_cycles"] == report["cycles"];
    assert_eq!(is_native, report["interpreted_cycles"] == 0, "{report}");
    assert_eq!(is_native, !stderr.contains("(compiling)"), "{report}{stderr}");
    assert_eq!(is_native, !report["code_tier"].is_null(), "{report}");
    (report, is_native)
}

#[test]
fn the_first_run_does_not_wait_and_the_second_does() {
    let folder = folder();
    let (first, is_native) = run(folder.path(), &[], MINUTE);
    assert!(!is_native, "{first}");
    let (second, is_native) = run(folder.path(), &[], "0");
    assert!(is_native, "{second}");
    assert_eq!((&first["cycles"], &first["exit_code"]), (&second["cycles"], &second["exit_code"]));
}

#[test]
fn an_answer_does_not_wait_for_workers_that_start() {
    let workers = tempfile::tempdir().unwrap();
    for name in ["antares-run-worker", "antares-compile-worker"] {
        let path = workers.path().join(name);
        // Never ready; ends with its parent.
        fs::write(&path, "#!/bin/sh\nexec cat 2>/dev/null\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let folder = folder();
    let started = Instant::now();
    let mut command = caching(folder.path(), &["run", "large", "--json"]);
    command.env("ANTARES_HEAD_START_MS", "1").env("ANTARES_WORKER_DIR", workers.path());
    let (stdout, _) = ends_with(0, &mut command);
    assert_eq!(json(&stdout)["native_cycles"], 0, "{stdout}");
    assert!(started.elapsed() < READY_WITHIN, "{:?}", started.elapsed());
}

/// Twice, to show that nothing is recorded for the next run.
#[test]
fn a_run_that_has_begun_goes_on_where_the_compile_is_refused() {
    // bnez a0, +28; lui t1, 2 << 16; addi t1, t1, -1; bnez t1, -4: takes longer than the compiler's refusal;
    // addi a0, zero, 0; addi a7, zero, 93; ecall.
    let mut code =
        vec![0x0005_1e63, 0x2000_0337, 0xfff3_0313, 0xfe03_1ee3, 0x0000_0513, 0x05d0_0893, 0x73_u32];
    // beq a0, a1, +4: one block each.
    code.extend(std::iter::repeat_n(0x00b5_0263, 450_000));
    let folder = folder_of(&[("refused", elf::of(&code))]);
    for _ in 0..2 {
        let (report, stderr) = antares_run(folder.path(), "refused", &[], "1");
        assert_eq!(report["interpreted_cycles"], report["cycles"], "{report}");
        assert!(stderr.contains("interpreter alone") && !stderr.contains("(compiling)"), "{stderr}");
    }
}

#[test]
fn who_keeps_nothing_or_wants_full_code_waits() {
    let folder = folder();
    for words in [["--no-cache"], ["--full"]] {
        let (report, is_native) = run(folder.path(), &words, "0");
        assert!(is_native, "{report}");
    }
}
