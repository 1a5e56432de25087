//! A rule about comments: they are no wider than the code.

use crate::{finding::Finding, tree::Tree};

/// Columns of a comment line, at most: those of rustfmt, which leaves comments alone.
const COLUMNS_MAX: usize = 110;

/// Sources whose lines are in the debug information of scripts that tests know byte by byte.
const FIXED: [&str; 1] = ["tests/guests/"];

/// Checks every Rust file. Tables and what is fenced as code may be wider: they cannot be wrapped.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.ending(".rs").filter(|(path, _)| !FIXED.iter().any(|fixed| path.starts_with(fixed)));
    files.flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let (mut findings, mut is_fenced) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !is_fenced && !comment.starts_with('|') {
            findings.push(Finding::of_line(
                path,
                index,
                format!("a comment of {columns} columns: wrap it at 110"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_comments_are_found_and_tables_are_not() {
        let wide = "word ".repeat(25);
        let found = |text: &str| check(&Tree::of(&[("a.rs", text)])).len();
        assert_eq!(found(&format!("//! {wide}\n    // {wide}\nlet x = \"{wide}\";\n")), 2);
        assert_eq!(found(&format!("/// | {wide} |\n/// ```text\n/// {wide}\n/// ```\n/// {wide}\n")), 1);
        assert_eq!(check(&Tree::of(&[("tests/guests/x/a.rs", &format!("// {wide}\n"))])).len(), 0);
    }
}
