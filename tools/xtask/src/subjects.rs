//! Rule for commits: the subjects of recent commits are short enough for every log viewer.

use crate::{
    finding::Finding,
    tree::{Tree, git},
};

/// Maximum characters of a subject.
const LETTERS_MAX: usize = 72;
/// Number of checked commits, as an argument of git.
const COMMITS: &str = "--max-count=20";

/// Checks the history of the checkout. Does nothing without a history or in a shallow clone.
pub(crate) fn check(_: &Tree) -> Vec<Finding> {
    let is_shallow = git(&["rev-parse", "--is-shallow-repository"]);
    if is_shallow.ok().is_none_or(|said| said.trim() != "false") {
        return Vec::new();
    }
    check_log(&git(&["log", COMMITS, "--no-merges", "--format=%h %s"]).unwrap_or_default())
}

fn check_log(log: &str) -> Vec<Finding> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long = commits.filter(|(_, subject)| subject.chars().count() > LETTERS_MAX);
    long.map(|(commit, subject)| {
        let letters = subject.chars().count();
        Finding::of_file(
            &format!("commit {commit}"),
            format!("a subject of {letters} letters; at most {LETTERS_MAX}"),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_short() {
        let log = |letters| format!("abc area: x\ndef {}\n", "y".repeat(letters));
        assert!(check_log(&log(LETTERS_MAX)).is_empty());
        assert_eq!(check_log(&log(LETTERS_MAX + 1)).len(), 1);
    }
}
