//! The fuzz targets on stable Rust: every file of their corpora, and random mutations of it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod libraries;

use std::{fs, panic, path::Path, thread};

use antares_tests::{
    crates::files_below,
    fuzzing::{TARGETS, Target, mutated},
    generate::Random,
};

/// Mutations of each file.
const MUTATIONS: u32 = 2000;

/// Runs one target over its corpus; a panic names the input.
fn check(target: Target) {
    let Target { name, run } = target;
    let files =
        files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name)).unwrap();
    assert!(!files.is_empty(), "no corpus of {name}");
    let mut random = Random::new(1);
    for file in files {
        let seed = fs::read(&file).unwrap();
        let mutations = (0..MUTATIONS).map(|_| mutated(&seed, &mut random));
        for input in std::iter::once(seed.clone()).chain(mutations) {
            if panic::catch_unwind(|| run(&input)).is_err() {
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
fn targets_find_nothing_in_mutations_of_their_corpora() {
    thread::scope(|scope| TARGETS.into_iter().for_each(|target| drop(scope.spawn(move || check(target)))));
}
