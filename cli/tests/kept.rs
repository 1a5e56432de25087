//! Native code that `antares run` and `antares verify` keep on this machine: the baseline's at once, the full
//! compile behind it, both there the next time; and nothing that anybody does to the folder is an error.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

#[path = "scripts/elf.rs"]
mod elf;

/// How long the compile behind a command may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A script that exits with `code`: `addi a7, zero, 93`, `addi a0, zero, code`, `ecall`.
fn exits(code: u32) -> Vec<u8> {
    elf::of(&[0x05d0_0893, code << 20 | 0x513, 0x73])
}

/// A script that exits with 3, which a function gives that nothing but a sum leads to.
fn hidden() -> Vec<u8> {
    const BASE: u64 = 0x10000;
    const FAR: u32 = 320;
    let mut elf = exits(0)[..120].to_vec();
    elf[96..112].copy_from_slice(&[(120 + u64::from(FAR) + 8).to_le_bytes(); 2].concat());
    // auipc t0, 0; lw t1, 32(t0); add t0, t0, t1; jalr ra, 0(t0); addi a7, zero, 93; ecall.
    let code = [0x297, 0x0202_a303, 0x0062_82b3, 0x0002_80e7, 0x05d0_0893, 0x73, 0, 0, FAR];
    elf.extend(code.into_iter().flat_map(u32::to_le_bytes));
    elf.resize(120 + FAR as usize, 0);
    // addi a0, zero, 3; ret.
    elf.extend([0x0030_0513, 0x8067_u32].into_iter().flat_map(u32::to_le_bytes));
    assert_eq!(elf[24..32], (BASE + 120).to_le_bytes());
    elf
}

fn start(cache: &Path, elf: &[u8], args: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_antares"))
        .args(["run", "-", "--json"])
        .args(args)
        .env("XDG_CACHE_HOME", cache)
        .env_remove("ANTARES_CACHE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(elf).unwrap();
    child
}

/// What a run tells, which exits with 3.
#[track_caller]
fn answer(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["exit_code"], &value["cache"]), (&3.into(), &"none".into()), "{value}");
    value
}

#[track_caller]
fn run(cache: &Path, elf: &[u8], args: &[&str]) -> Value {
    answer(start(cache, elf, args))
}

/// Runs until the full tier's code is there.
#[track_caller]
fn until_full(cache: &Path, elf: &[u8]) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let value = run(cache, elf, &[]);
        if value["code_tier"] == "full" {
            return value;
        }
        assert_eq!(value["compile_ms"], 0, "the baseline's code is kept: {value}");
        assert!(Instant::now() < end, "no full code: {value}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn files(cache: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(cache.join("antares")).into_iter().flatten().flatten();
    files.map(|file| file.path()).filter(|path| path.extension().is_none()).collect()
}

#[test]
fn the_first_run_has_the_baseline_and_later_ones_the_full_code() {
    let cache = tempfile::tempdir().unwrap();
    let first = run(cache.path(), &exits(3), &[]);
    assert_eq!(first["code_tier"], "baseline", "{first}");
    assert!(first["compile_ms"].as_u64() > Some(0), "{first}");
    let later = until_full(cache.path(), &exits(3));
    assert_eq!((&later["compile_ms"], &later["cycles"]), (&0.into(), &first["cycles"]));
    assert_eq!(files(cache.path()).len(), 2);
}

#[test]
fn full_means_full() {
    let cache = tempfile::tempdir().unwrap();
    for tier in ["auto", "native"] {
        let value = run(cache.path(), &exits(3), &["--tier", tier, "--full", "--no-cache"]);
        assert_eq!(value["code_tier"], "full");
        assert!(value["compile_ms"].as_u64() > Some(0), "{value}");
    }
    assert!(files(cache.path()).is_empty());
    assert_eq!(run(cache.path(), &exits(3), &["--full"])["code_tier"], "full");
    // Kept, like any other.
    assert_eq!(run(cache.path(), &exits(3), &["--full"])["compile_ms"], 0);
}

#[test]
fn damage_is_a_miss() {
    let cache = tempfile::tempdir().unwrap();
    run(cache.path(), &exits(3), &[]);
    until_full(cache.path(), &exits(3));
    for path in files(cache.path()) {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let value = run(cache.path(), &exits(3), &[]);
    assert_eq!(value["code_tier"], "baseline");
    assert!(value["compile_ms"].as_u64() > Some(0), "{value}");
    until_full(cache.path(), &exits(3));
    fs::remove_dir_all(cache.path().join("antares")).unwrap();
    assert_eq!(run(cache.path(), &exits(3), &[])["code_tier"], "baseline");
}

#[test]
fn what_runs_find_out_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(run(cache.path(), &hidden(), &["--no-cache"])["native_cycles"], 0);
    let runs: Vec<Value> = (0..3).map(|_| run(cache.path(), &hidden(), &[])).collect();
    assert_eq!(
        (&runs[0]["native_cycles"], &runs[2]["interpreted_cycles"]),
        (&0.into(), &0.into()),
        "{runs:?}"
    );
    assert_eq!(
        (&runs[0]["restarted"], &runs[2]["restarted"]),
        (&"unknown_target".into(), &Value::Null),
        "{runs:?}"
    );
    assert!(runs.iter().all(|run| run["cycles"] == runs[0]["cycles"]));
    let script = cache.path().join("script");
    fs::write(&script, hidden()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command
        .args(["explain", "--stage", "program", "--hinted"])
        .arg(&script)
        .env("XDG_CACHE_HOME", cache.path());
    let shown = command.env_remove("ANTARES_CACHE").output().unwrap().stdout;
    assert!(String::from_utf8(shown).unwrap().contains("hint: 0x101b8 was "));
}

#[test]
fn it_can_be_turned_off() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(run(cache.path(), &exits(3), &["--no-cache"])["code_tier"], "baseline");
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    let script = cache.path().join("script");
    fs::write(&script, exits(0)).unwrap();
    command.arg("run").arg(&script).env("XDG_CACHE_HOME", cache.path()).env("ANTARES_CACHE", "off");
    assert!(command.output().unwrap().status.success());
    assert!(!cache.path().join("antares").exists());
}
