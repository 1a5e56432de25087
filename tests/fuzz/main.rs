//! The fuzz targets on stable Rust: every file of their corpora, and random mutations of it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod libraries;

use std::{fs, panic, path::Path};

use antares_tests::{
    fuzzing::{TARGETS, mutated},
    generate::Random,
};

/// Mutations of each file.
const MUTATIONS: u32 = 2000;

/// Runs one target over its corpus; a panic names the input.
fn check(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus");
    let mut random = Random::new(1);
    for file in files {
        let seed = fs::read(&file).unwrap();
        let mutations = (0..MUTATIONS).map(|_| mutated(&seed, &mut random));
        for input in std::iter::once(seed.clone()).chain(mutations) {
            if panic::catch_unwind(|| (target.run)(&input)).is_err() {
                panic!("{name} on a mutation of {}: {}", file.display(), shown(&input));
            }
        }
    }
}

/// The input, as program-readable text.
fn shown(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn programs() {
    check("program");
}

#[test]
fn code() {
    check("lifter");
}

#[test]
fn transactions() {
    check("transaction");
}

#[test]
fn messages() {
    check("messages");
}
