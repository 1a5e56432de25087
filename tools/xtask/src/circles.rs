//! Rule for imports within a crate: an import cycle of more than three files has no place to begin reading.

use std::collections::{BTreeMap, BTreeSet};

use crate::{finding::Finding, imports::Imports, tree::Tree};

/// Maximum files of an import cycle: for example a type, its parts and its constructor.
const FILES_MAX: usize = 3;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (path, text) in tree.ending(".rs") {
        if let Some((folder, file)) = path.split_once("/src/") {
            crates.entry(folder).or_default().insert(file, text);
        }
    }
    crates.iter().flat_map(|(folder, files)| check_crate(folder, files)).collect()
}

fn check_crate(folder: &str, files: &BTreeMap<&str, &str>) -> Vec<Finding> {
    let imports = Imports::of(files);
    let large = circles(imports.edges()).into_iter().filter(|circle| circle.len() > FILES_MAX);
    let finding = |circle: Vec<&str>| {
        let reported = describe(imports.edges(), &circle);
        let text = format!("{} files know each other in a circle: {reported}", circle.len());
        Finding::of_file(&format!("{folder}/src/{}", circle[0]), text)
    };
    large.map(finding).collect()
}

/// Describes the imports of each file in a cycle.
fn describe(edges: &BTreeMap<&str, BTreeSet<&str>>, circle: &[&str]) -> String {
    let taken =
        |file: &&str| edges[file].iter().copied().filter(|other| circle.contains(other)).collect::<Vec<_>>();
    let lines = circle.iter().map(|file| format!("{file} from {}", taken(file).join(", ")));
    lines.collect::<Vec<_>>().join("; ")
}

/// Strongly connected components of a graph with more than one file.
fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|&from| (from, reached(edges, from))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (&file, ahead) in &reach {
        if !ahead.contains(file) || found.iter().any(|circle| circle.contains(&file)) {
            continue;
        }
        let back = |other: &&str| reach.get(other).is_some_and(|from| from.contains(file));
        found.push(ahead.iter().copied().filter(back).collect());
    }
    found
}

fn reached<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&str> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = pending.pop() {
        if reached.insert(file) {
            pending.extend(edges.get(file).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in which file `n` uses file `n + 1`, and the last one the first.
    fn ring(files: usize) -> Vec<(String, String)> {
        let root = (0..files).map(|file| format!("mod f{file};\n")).collect();
        let file = |n: usize| (format!("a/src/f{n}.rs"), format!("use crate::f{}::X;\n", (n + 1) % files));
        (0..files).map(file).chain([("a/src/lib.rs".to_owned(), root)]).collect()
    }

    fn found(files: &[(String, String)]) -> usize {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&Tree::of(&files)).len()
    }

    #[test]
    fn a_circle_of_three_is_a_family_and_one_of_four_a_maze() {
        assert_eq!([3, 4].map(|files| found(&ring(files))), [0, 1]);
        let mut line = ring(6);
        line[5].1.clear();
        assert_eq!(found(&line), 0);
    }
}
