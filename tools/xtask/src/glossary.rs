//! A rule about our own words: those that a stranger would not guess, and that code still uses, stand in the
//! glossary.

use crate::{finding::Finding, tree::Tree};

/// The page.
const PAGE: &str = "docs/glossary.md";

/// Our words, and by what code shows that it uses them.
const WORDS: [(&str, &[&str]); 17] = [
    ("flight", &["flights"]),
    ("hurry", &["hurry"]),
    ("lend", &["lend"]),
    ("lent", &["lent"]),
    ("apart", &["apart"]),
    ("salt", &["salt"]),
    ("patience", &["patience"]),
    ("recheck", &["recheck"]),
    ("meanwhile", &["meanwhile"]),
    ("beside", &["beside"]),
    ("behind", &["behind"]),
    ("fence", &["fence"]),
    ("leave", &["LeaveReason"]),
    ("learnt", &["learnt"]),
    ("mistake", &["mistakes"]),
    ("outrun", &["outrun"]),
    ("holder", &["holder"]),
];

/// Looks for each word in code, and then in the glossary.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.get(PAGE).unwrap_or_default();
    let missing = WORDS.iter().filter(|(word, signs)| is_used(tree, signs) && !explains(page, word));
    missing.map(|(word, _)| Finding::of_file(PAGE, format!("`{word}` is used and not explained"))).collect()
}

fn is_used(tree: &Tree, signs: &[&str]) -> bool {
    let code =
        tree.ending(".rs").filter(|(path, _)| path.contains("/src/") && !path.starts_with("tools/xtask/"));
    code.into_iter().any(|(_, text)| signs.iter().any(|sign| has_word(text, sign)))
}

/// Whether `text` has `word` with nothing of a name around it.
fn has_word(text: &str, word: &str) -> bool {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name))
}

/// Whether a row of the page begins with `word`, alone or among others.
fn explains(page: &str, word: &str) -> bool {
    let heads = page.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next());
    heads.flat_map(|head| head.split(", ")).any(|head| head == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(code: &str, page: &str, count: usize) {
        let findings = check(&Tree::of(&[("crates/runtime/pool/src/lib.rs", code), (PAGE, page)]));
        assert_eq!(findings.len(), count, "{findings:?}");
    }

    #[test]
    fn words_that_code_uses_are_explained() {
        expect("fn lend() {}", "| **lend, lent** | lease |\n", 0);
        expect("fn lend() {}", "To lend is to lease.\n", 1);
        expect("fn lender() {}", "", 0);
        expect("fn borrow() {}", "", 0);
    }
}
