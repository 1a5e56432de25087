//! Cached native code of `antares run` and `antares verify`: baseline code at once and the full compile in
//! the background, both available to the next run. No change of the folder causes an error.

use std::{
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    command::{self, caching, json},
    elf::exits,
};

/// Longest time for a background compile.
const PATIENCE: Duration = Duration::from_secs(120);

/// A script that exits with 3, the result of a function whose address is a computed sum.
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
    command::start(&mut caching(cache, &[&["run", "-", "--json"], args].concat()), elf)
}

/// The report of a run, which exits with 3.
#[track_caller]
fn answer(child: Child) -> Value {
    let (status, stdout, _) = command::end(child);
    let value = json(&stdout);
    assert_eq!(status, Some(1));
    assert_eq!((&value["exit_code"], &value["cache"]), (&3.into(), &"none".into()), "{value}");
    value
}

#[track_caller]
fn run(cache: &Path, elf: &[u8], args: &[&str]) -> Value {
    answer(start(cache, elf, args))
}

/// Runs until the full tier's code is available.
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
    // Cached like any other.
    assert_eq!(run(cache.path(), &exits(3), &["--full"])["compile_ms"], 0);
}

#[test]
fn what_runs_find_out_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(run(cache.path(), &hidden(), &["--no-cache"])["native_cycles"], 0);
    let runs: Vec<Value> = (0..3).map(|_| run(cache.path(), &hidden(), &[])).collect();
    let cycles = (&runs[0]["native_cycles"], &runs[2]["interpreted_cycles"]);
    assert_eq!(cycles, (&0.into(), &0.into()), "{runs:?}");
    let restarts = (&runs[0]["restarted"], &runs[2]["restarted"]);
    assert_eq!(restarts, (&"unknown_target".into(), &Value::Null), "{runs:?}");
    assert!(runs.iter().all(|run| run["cycles"] == runs[0]["cycles"]));
    let script = cache.path().join("script");
    fs::write(&script, hidden()).unwrap();
    let words = ["explain", "--stage", "program", "--hinted", "script"];
    assert!(command::ends_with(0, &mut caching(cache.path(), &words)).0.contains("hint: 0x101b8 was "));
}

#[test]
fn it_can_be_turned_off() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(run(cache.path(), &exits(3), &["--no-cache"])["code_tier"], "baseline");
    fs::write(cache.path().join("script"), exits(0)).unwrap();
    command::ends_with(0, caching(cache.path(), &["run", "script"]).env("ANTARES_CACHE", "off"));
    assert!(!cache.path().join("antares").exists());
}
