//! Each stage of a script's compilation, text to text: assembly to image, program, IR, LLVM IR, host
//! assembly, outcome.
//!
//! A case is an assembly file under `cases/`: directives in comments at its head (`# version: 2`, `# isa:
//! imc+b`, `# args: 1 2`, `# show: program ir outcome`), code, and the expected output of each stage in
//! comments at its end. `BLESS=1 cargo test -p antares-tests --test filetests` rewrites the expectations.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod case;
mod engine;
mod passes;
mod show;
mod tampered;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use antares_abi::CodeTier;
use antares_tests::crates::files_below;
use case::Case;

fn cases() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("filetests/cases");
    files_below(&folder).unwrap()
}

/// The case of a file.
#[track_caller]
fn read(path: &Path) -> Case {
    let text = fs::read_to_string(path).unwrap();
    Case::parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()))
}

fn is_blessing() -> bool {
    env::var_os("BLESS").is_some_and(|value| value == "1")
}

#[test]
fn every_case_shows_what_is_expected() {
    let paths = cases();
    assert!(paths.len() >= 12, "only {} cases were found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let (text, case) = (fs::read_to_string(&path).unwrap(), read(&path));
        let shown = case.shown().unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        let fresh = case.with_expectations(&shown);
        if is_blessing() {
            fs::write(&path, fresh).unwrap();
        } else if fresh != text {
            wrong.push(format!("{}:\n{}", path.display(), first_difference(&text, &fresh)));
        }
    }
    assert!(wrong.is_empty(), "{}\nBLESS=1 writes what is shown now", wrong.join("\n"));
}

#[test]
fn the_ir_of_every_case_reads_back_as_it_was() {
    for path in cases() {
        let case = read(&path);
        for tier in [CodeTier::Baseline, CodeTier::Full] {
            let module = case.module(tier).unwrap();
            let text = module.to_string();
            let read =
                antares_ir_text::module(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(
                read.to_string() == text,
                "{}:\n{}",
                path.display(),
                first_difference(&text, &read.to_string())
            );
            assert!(read == module, "{}: not everything is in the text", path.display());
        }
    }
}

fn first_difference(expected: &str, shown: &str) -> String {
    let mut lines = expected.lines().zip(shown.lines()).enumerate();
    let found = lines.find(|(_, (left, right))| left != right);
    found.map_or_else(
        || "  one is longer".to_owned(),
        |(at, (left, right))| format!("  line {}\n  expected {left}\n  shown    {right}", at + 1),
    )
}
