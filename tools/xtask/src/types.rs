//! A rule about names of types: what two crates make public has two names, so that a reader of one finds the
//! other only where it is.

use std::collections::BTreeMap;

use crate::{finding::Finding, sources::COMPILER_FOLDERS, tree::Tree};

/// Folders that are not compared: the wire's own names, what nothing else is made of, and the face for
/// programs of others, whose readers know no other crate of ours.
const APART: [&str; 6] = ["proto/", "tests/", "tools/bench/", "fuzz/", "tools/xtask/", "crates/embed/"];

/// Finds types that are public under the same name in two crates. In the compiler's crates forms of one thing
/// follow each other (`program::Block`, `ir::Block`), and what is in a public module is told apart by that
/// (`job::GroupReport`).
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some((folder, file)) = path.split_once("/src/") else { continue };
        if APART.iter().any(|apart| path.starts_with(apart))
            || is_compiler(folder)
            || is_in_module(tree, folder, file)
        {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let Some(name) = public_type(line) else { continue };
            let owner = *known.entry(name).or_insert(folder);
            if owner != folder {
                let text = format!("{owner} has a public type `{name}` too: one of them needs another name");
                findings.push(Finding::of_line(path, index, text));
            }
        }
    }
    findings
}

fn is_compiler(folder: &str) -> bool {
    folder.strip_prefix("crates/engine/").is_some_and(|name| COMPILER_FOLDERS.contains(&name))
}

/// Whether `file` is part of a module that its crate makes public.
fn is_in_module(tree: &Tree, folder: &str, file: &str) -> bool {
    let module = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
    let root = tree.get(&format!("{folder}/src/lib.rs")).unwrap_or_default();
    root.lines().any(|line| line == format!("pub mod {module};"))
}

/// The type that `line` makes public, if it does: one that only its crate sees has to say so.
fn public_type(line: &str) -> Option<&str> {
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    let rest = line.strip_prefix("pub ")?;
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|character: char| !character.is_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(files: &[(&str, &str)], count: usize) {
        let findings = check(&Tree::of(files));
        assert_eq!(findings.len(), count, "{findings:?}");
    }

    #[test]
    fn two_crates_have_two_names() {
        let run = ("crates/runtime/vm/src/run.rs", "//! X.\npub struct Outcome<T>(T);\n");
        expect(&[run, ("crates/transaction/verifier/src/run.rs", "//! X.\npub enum Outcome {}\n")], 1);
        expect(&[run, ("crates/transaction/verifier/src/run.rs", "//! X.\npub(crate) enum Outcome {}\n")], 0);
        expect(&[run, ("crates/runtime/vm/src/other.rs", "//! X.\npub trait Outcome {}\n")], 0);
        expect(&[run, ("crates/transaction/verifier/src/run.rs", "//! X.\npub enum Outcomes {}\n")], 0);
    }

    #[test]
    fn a_module_that_others_see_tells_names_apart() {
        let [run, report] = ["crates/runtime/vm/src/run.rs", "crates/runtime/pool/src/job/report.rs"];
        let text = "//! X.\npub struct Report;\n";
        expect(
            &[(run, text), (report, text), ("crates/runtime/pool/src/lib.rs", "//! X.\npub mod job;\n")],
            0,
        );
        expect(&[(run, text), (report, text), ("crates/runtime/pool/src/lib.rs", "//! X.\nmod job;\n")], 1);
    }

    #[test]
    fn the_compilers_forms_of_one_thing_share_its_name() {
        let text = "//! X.\npub struct Block;\n";
        expect(&[("crates/engine/ir/src/lib.rs", text), ("crates/engine/program/src/block.rs", text)], 0);
    }
}
