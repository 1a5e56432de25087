//! Rule for the book: every page is in its table of contents, once.

use crate::{finding::Finding, tree::Tree};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks that the table has each page.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.get(SUMMARY) else {
        return Vec::new();
    };
    let links: Vec<_> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let mut findings = Vec::new();
    for (path, _) in tree.ending(".md").filter(|(path, _)| *path != SUMMARY) {
        let from_docs = path.strip_prefix("docs/").map_or_else(|| format!("../{path}"), str::to_owned);
        let count = links.iter().filter(|link| **link == from_docs).count();
        if count != 1 {
            let text = format!("{path} stands there {count} times; each page has one place in the book");
            findings.push(Finding::of_file(SUMMARY, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_one_place() {
        let with = |summary| {
            let files = [(SUMMARY, summary), ("README.md", ""), ("docs/cli.md", "")];
            check(&Tree::of(&files)).len()
        };
        assert_eq!(with("[A](../README.md)\n* [B](cli.md)\n"), 0);
        assert_eq!(with("[A](../README.md)\n"), 1);
        assert_eq!(with("[A](../README.md)\n* [B](cli.md)\n* [C](cli.md)\n"), 1);
    }

    /// Tools that load the page parse its front matter as YAML.
    #[test]
    fn a_parser_reads_the_front_matter_of_the_skill() {
        let page = std::fs::read_to_string(crate::tree::root().unwrap().join("SKILL.md")).unwrap();
        let front = page.split("---\n").nth(1).unwrap();
        let script = "import sys, yaml; print(sorted(yaml.safe_load(sys.argv[1])))";
        let parsed = std::process::Command::new("python3").args(["-c", script, front]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), "['description', 'name']", "{parsed:?}");
    }
}
