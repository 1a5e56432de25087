//! Rules for ARCHITECTURE.md: each verb in its tables is a function of the file or folder in the same row,
//! and its code map has every crate.

use std::collections::BTreeSet;

use crate::{finding::Finding, links::resolve, tree::Tree};

const PAGE: &str = "ARCHITECTURE.md";
/// Files of both walks, from a caller's socket to the guest and back, at most.
const WALK_MAX: usize = 45;

/// Columns of the table that is being read.
#[derive(Clone, Copy)]
struct Columns {
    place: usize,
    verb: usize,
    /// Whether rows are files and not folders.
    is_walk: bool,
}

/// Looks for each function.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let (mut findings, mut columns, mut files) = (Vec::new(), None, BTreeSet::new());
    for (index, line) in tree.get(PAGE).unwrap_or_default().lines().enumerate() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            columns = None;
        } else if let Some(Columns { place, verb, is_walk }) = columns {
            let (place, verbs) = (cells.get(place).map_or("", |cell| target(cell)), cells.get(verb));
            if is_walk && !place.starts_with("--") {
                files.insert(place);
            }
            let verbs = verbs.into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
            for verb in verbs.filter(|verb| !has_function(tree, place, verb)) {
                findings.push(Finding::of_line(PAGE, index, format!("{place} has no function `{verb}`")));
            }
        } else {
            columns = columns_of(&cells);
        }
    }
    findings.extend(unmapped(tree));
    if files.len() > WALK_MAX {
        let problem = format!("the walks have {} files; at most {WALK_MAX}", files.len());
        findings.push(Finding::of_file(PAGE, problem));
    }
    findings
}

fn columns_of(cells: &[&str]) -> Option<Columns> {
    let at = |name: &str| cells.iter().position(|cell| *cell == name);
    let (verb, file) = (at("verb")?, at("file"));
    Some(Columns { place: file.or_else(|| at("folder"))?, verb, is_walk: file.is_some() })
}

/// Crates missing from the code map, a block of text.
fn unmapped(tree: &Tree) -> impl Iterator<Item = Finding> {
    let page = tree.get(PAGE).unwrap_or_default();
    let map: Vec<&str> = page.split("```").skip(1).step_by(2).flat_map(str::split_whitespace).collect();
    let crates = tree.ending("/Cargo.toml").filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let crates = crates.filter(|path| path.starts_with("crates/"));
    let name = |path: &str| format!("{}/", path.rsplit('/').next().unwrap_or(path));
    let missing: Vec<_> = crates.filter(|path| !map.contains(&name(path).as_str())).collect();
    missing.into_iter().map(|path| Finding::of_file(PAGE, format!("the code map has no {path}")))
}

/// The target of a cell's first link, or its text.
fn target(cell: &str) -> &str {
    cell.split_once("](").and_then(|(_, rest)| rest.split(')').next()).unwrap_or(cell)
}

/// Whether a Rust file at or below `place` declares the function `name`, which may have its type as prefix.
fn has_function(tree: &Tree, place: &str, name: &str) -> bool {
    let place = resolve("", place);
    let name = name.rsplit("::").next().unwrap_or(name);
    let declares = |text: &str| ["(", "<"].iter().any(|next| text.contains(&format!("fn {name}{next}")));
    tree.ending(".rs").any(|(path, text)| {
        let rest = path.strip_prefix(&place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && declares(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(page: &str, count: usize) {
        let code = "pub(crate) async fn run<T>() {}\nfn of() {}\n";
        let files =
            [(PAGE, page), ("crates/runtime/vm/src/a.rs", code), ("crates/vmx/src/b.rs", "fn other() {}\n")];
        assert_eq!(check(&Tree::of(&files)).len(), count, "{page}");
    }

    #[test]
    fn verbs_are_functions_of_their_place() {
        let folders = "| step | folder | verb |\n|---|---|---|\n";
        expect(
            &format!("{folders}| a | [crates/runtime/vm](crates/runtime/vm), in b | `run`, `Mock::of` |\n"),
            0,
        );
        expect(&format!("{folders}| a | crates/runtime/vm | `other` |\n"), 1);
        expect(
            "| file | verb |\n|---|---|\n| [a](crates/runtime/vm/src/a.rs) | `of` |\n| [a](crates/runtime/vm/src/a.rs) | `off` |\n",
            1,
        );
        expect("| folder | gives |\n|---|---|\n| crates/runtime/vm | `nothing` |\n", 0);
    }

    #[test]
    fn the_code_map_has_every_crate() {
        let count = |page| check(&Tree::of(&[(PAGE, page), ("crates/runtime/vm/Cargo.toml", "")])).len();
        assert_eq!(count("```text\ncrates/\n  ir/ vm/      what\n```\n"), 0);
        assert_eq!(count("vm/\n```text\ncrates/\n  vmx/      what\n```\n"), 1);
    }

    #[test]
    fn the_walks_are_short() {
        let count = |files: usize| {
            let path = |number| format!("crates/runtime/vm/src/a{number}.rs");
            let rows: String = (0..files).map(|number| format!("| {} | `of` |\n", path(number))).collect();
            let page = format!("| file | verb |\n|---|---|\n{rows}{rows}");
            let names: Vec<String> = (0..files).map(path).collect();
            let mut tree = vec![(PAGE, page.as_str())];
            tree.extend(names.iter().map(|name| (name.as_str(), "fn of() {}\n")));
            check(&Tree::of(&tree)).len()
        };
        assert_eq!(count(WALK_MAX), 0);
        assert_eq!(count(WALK_MAX + 1), 1);
    }
}
