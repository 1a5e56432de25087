//! A rule about names: the field's words, not words of our own. Names of tests are sentences, and are free.

use crate::{finding::Finding, manifests::RULES, tree::Tree};

/// Words after which a name follows.
const KEYWORDS: [&str; 8] = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"];

/// Checks the names of functions, types, constants and modules.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let is_test =
        |path: &str| path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    tree.ending(".rs")
        .filter(|(path, _)| !is_test(path))
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let (mut findings, mut is_test) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#[") {
            is_test |= line.contains("test");
            continue;
        }
        if let Some(name) = declared(line)
            && !std::mem::take(&mut is_test)
        {
            for (word, better) in words(name).iter().filter_map(|word| RULES.words.get_key_value(word)) {
                let problem = format!("`{name}`: `{word}` is a word of our own; the field's: {better}");
                findings.push(Finding::of_line(path, index, problem));
            }
        }
    }
    findings
}

/// The name that a line of code declares.
fn declared(line: &str) -> Option<&str> {
    let code = line.split("//").next()?;
    let mut words = code.split_whitespace();
    while let Some(word) = words.next() {
        if KEYWORDS.contains(&word) {
            let name = words.next()?;
            return name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
        }
        if !["pub", "pub(crate)", "pub(super)", "async", "unsafe", "extern", "\"C\""].contains(&word) {
            return None;
        }
    }
    None
}

/// The words of a name in snake, camel or capital letters. `look_up` is one word.
fn words(name: &str) -> Vec<String> {
    let spaced: String = name
        .char_indices()
        .flat_map(|(at, letter)| {
            let starts = letter.is_uppercase() && name[..at].ends_with(char::is_lowercase);
            [starts.then_some('_'), letter.to_lowercase().next()].into_iter().flatten()
        })
        .collect();
    spaced.replace("look_up", "lookup").split('_').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_words_of_the_field() {
        let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        let wrong =
            "pub(crate) fn tell_all() {}|enum Door {|const LOOK_EVERY: u8 = 1;|mod note;|type JailKind = u8;";
        for text in wrong.split('|') {
            assert_eq!(count("a/src/b.rs", text), 1, "{text}");
            assert_eq!(count("a/tests/b.rs", text), 0, "{text}");
        }
        let right = "#[test]\nfn whoever_asks_is_told() {}|// fn tell() {}|let told = 1;|fn look_up() {}|fn notebook() {}";
        for text in right.split('|') {
            assert_eq!(count("a/src/b.rs", text), 0, "{text}");
        }
    }
}
