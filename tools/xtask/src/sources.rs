//! Rules for Rust files: first lines, lengths, names, locations of `unsafe`, locations of gRPC codes.

use crate::{
    finding::{Finding, Weight},
    tree::Tree,
};

/// Maximum lines of a file without a warning.
const LINES_WARN: usize = 500;
const LINES_MAX: usize = 800;

/// Folders and files that may contain `unsafe`. The workspace denies it everywhere else.
const UNSAFE_FOLDERS: [&str; 9] = [
    "crates/engine/codegen/",
    "crates/runtime/vm/",
    "crates/transaction/verifier/src/zeroed.rs",
    "crates/runtime/sandbox/",
    "crates/runtime/pool/",
    "crates/runtime/run-worker/",
    // Guests: the entry point and allocator macros of ckb-std expand to `unsafe`.
    "examples/scripts/rust/",
    "tests/guests/rust/",
    // The words themselves.
    "tools/xtask/src/sources.rs",
];

/// File names that do not describe the content.
const EMPTY_NAMES: [&str; 9] =
    ["mod", "util", "utils", "common", "helper", "helpers", "misc", "manager", "shared"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs").flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        let problem = "the first line must be `//! ` and say what the file is for";
        findings.push(Finding::of_line(path, 0, problem));
    }
    findings.extend(check_length(path, text));
    findings.extend(check_name(path));
    findings.extend(check_unsafe(path, text));
    findings.extend(check_codes(path, text));
    findings
}

fn check_length(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines <= LINES_WARN {
        return None;
    }
    let weight = if lines > LINES_MAX { Weight::Failure } else { Weight::Warning };
    let text =
        format!("{lines} lines; the budget is {LINES_WARN}, the limit {LINES_MAX}: give a part its own file");
    Some(Finding { weight, ..Finding::of_file(path, text) })
}

fn check_name(path: &str) -> Option<Finding> {
    let name = path.rsplit('/').next()?.strip_suffix(".rs")?;
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    let empty = [name, folder].into_iter().find(|word| EMPTY_NAMES.contains(word))?;
    Some(Finding::of_file(path, format!("`{empty}` says nothing: name it after what it holds")))
}

/// Checks that nothing else contains `unsafe`, or allows it against the lint of the workspace.
fn check_unsafe(path: &str, text: &str) -> Vec<Finding> {
    if UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe(", "allow(unsafe_code"];
    code_lines(text)
        .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        .map(|(index, _)| {
            Finding::of_line(path, index, "no unsafe here; the crates that may have it are few")
        })
        .collect()
}

/// Checks that gRPC codes are chosen in one file of each crate, which serves as its table of errors.
fn check_codes(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with("/status.rs") || path.split('/').any(|part| part == "tests" || part == "xtask") {
        return Vec::new();
    }
    let names_code = |line: &str| {
        let imported = line.trim_start().starts_with("use tonic::")
            && line.split(|character: char| !character.is_alphanumeric()).any(|word| word == "Code");
        imported || line.contains("tonic::Code")
    };
    code_lines(text)
        .filter(|(_, line)| names_code(line))
        .map(|(index, _)| Finding::of_line(path, index, "gRPC codes belong into status.rs"))
        .collect()
}

/// Lines that are not comments, with their indices.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, text: &str, count: usize) {
        let findings = check(&Tree::of(&[(path, text)]));
        assert_eq!(findings.len(), count, "{findings:?}");
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        expect("cli/src/run.rs", "//! Runs.\n", 0);
        expect("cli/src/run.rs", "use x;\n//! Runs.\n", 1);
    }

    #[test]
    fn length_has_a_budget_and_a_limit() {
        let lines = |count: usize| format!("//! Long.\n{}", "\n".repeat(count - 1));
        expect("cli/src/run.rs", &lines(LINES_WARN), 0);
        let warned = check(&Tree::of(&[("a.rs", &lines(LINES_WARN + 1))]));
        assert_eq!(warned[0].weight, Weight::Warning);
        let failed = check(&Tree::of(&[("a.rs", &lines(LINES_MAX + 1))]));
        assert_eq!(failed[0].weight, Weight::Failure);
    }

    #[test]
    fn names_say_something() {
        expect("cli/src/utils.rs", "//! Odds and ends.\n", 1);
        expect("cli/src/run/mod.rs", "//! Runs.\n", 1);
        expect("cli/src/helpers/one.rs", "//! One.\n", 1);
        expect("cli/src/model.rs", "//! The model.\n", 0);
    }

    #[test]
    fn unsafe_stays_where_it_is_allowed() {
        let block = "//! X.\nfn f() { unsafe { g() } }\n";
        expect("crates/runtime/vm/src/memory.rs", block, 0);
        expect("cli/tests/run.rs", block, 1);
        expect("cli/tests/run.rs", "//! X.\n// an unsafe { block } in words\n", 0);
        expect("cli/src/main.rs", block, 1);
        expect("cli/src/main.rs", "//! X.\n#![allow(unsafe_code)]\n", 1);
    }

    #[test]
    fn codes_stay_in_status() {
        expect("runner-svc/src/app.rs", "//! X.\nuse tonic::{Code, Status};\n", 1);
        expect("runner-svc/src/app.rs", "//! X.\nlet code = tonic::Code::Ok;\n", 1);
        expect("runner-svc/src/status.rs", "//! X.\nuse tonic::{Code, Status};\n", 0);
        expect("runner-svc/src/app.rs", "//! X.\nuse tonic::{codec::CompressionEncoding, Status};\n", 0);
        expect("tests/scenarios/cold.rs", "//! X.\nuse tonic::Code;\n", 0);
    }
}
