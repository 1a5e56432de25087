//! Rule for type names: public types of two crates have different names, so that a search finds only one.

use std::collections::BTreeMap;

use crate::{finding::Finding, sources::COMPILER_FOLDERS, tree::Tree};

/// Folders that are not compared: types of the wire format, crates that nothing depends on, and the facade
/// for embedders, who use no other crate of ours.
const NOT_COMPARED: [&str; 6] =
    ["proto/", "tests/", "tools/bench/", "fuzz/", "tools/xtask/", "crates/embed/"];

/// Finds public types with the same name in two crates. Exempts the compiler's crates, whose forms correspond
/// (`program::Block`, `ir::Block`), and types in public modules, which the module name distinguishes
/// (`job::GroupReport`).
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some((folder, file)) = path.split_once("/src/") else { continue };
        if NOT_COMPARED.iter().any(|apart| path.starts_with(apart))
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

/// Whether `file` belongs to a public module of its crate.
fn is_in_module(tree: &Tree, folder: &str, file: &str) -> bool {
    let module = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
    let root = tree.get(&format!("{folder}/src/lib.rs")).unwrap_or_default();
    root.lines().any(|line| line == format!("pub mod {module};"))
}

/// The public type that `line` declares, if any; `pub(crate)` types do not count.
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
