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

use std::{env, fs, path::PathBuf};

use antares_abi::CodeTier;
use case::Case;

fn cases() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("filetests/cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_case_shows_what_is_expected() {
    let is_blessing = env::var_os("BLESS").is_some_and(|value| value == "1");
    let paths = cases();
    assert!(paths.len() >= 12, "only {} cases were found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let case = Case::parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        let shown = case.shown().unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        let fresh = case.with_expectations(&shown);
        if fresh == text {
            continue;
        }
        if is_blessing {
            fs::write(&path, fresh).unwrap();
        } else {
            wrong.push(format!("{}:\n{}", path.display(), first_difference(&text, &fresh)));
        }
    }
    assert!(wrong.is_empty(), "{}\nBLESS=1 writes what is shown now", wrong.join("\n"));
}

#[test]
fn the_ir_of_every_case_reads_back_as_it_was() {
    for path in cases() {
        let case = Case::parse(&fs::read_to_string(&path).unwrap()).unwrap();
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
