//! A rule about prose: sentences of the pages stay short, since a reader who does not know the matter reads
//! them once.

use crate::{finding::Finding, tree::Tree};

/// Words that nine of ten sentences of a page have at most.
const WORDS_P90: usize = 30;
/// Words that every sentence has at most.
const WORDS_MAX: usize = 60;

/// A sentence of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// Index of the line where it begins.
    pub index: usize,
    /// How many words it has; code between backquotes is one.
    pub words: usize,
}

/// Checks every page.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".md").flat_map(|(path, text)| check_page(path, text)).collect()
}

fn check_page(path: &str, text: &str) -> Vec<Finding> {
    let sentences = sentences(text);
    let mut findings = Vec::new();
    for one in sentences.iter().filter(|one| one.words > WORDS_MAX) {
        let text = format!("a sentence of {} words; at most {WORDS_MAX}: one idea to a sentence", one.words);
        findings.push(Finding::of_line(path, one.index, text));
    }
    let p90 = percentile_90(&sentences);
    if p90 > WORDS_P90 {
        let long = sentences.iter().filter(|one| one.words > WORDS_P90).map(|one| one.index + 1);
        let lines: Vec<_> = long.map(|line| line.to_string()).collect();
        let text = format!(
            "one sentence in ten has {p90} words or more; at most {WORDS_P90}: see lines {}",
            lines.join(", ")
        );
        findings.push(Finding::of_file(path, text));
    }
    findings
}

/// The length that nine of ten sentences do not pass.
fn percentile_90(sentences: &[Sentence]) -> usize {
    let mut words: Vec<_> = sentences.iter().map(|one| one.words).collect();
    words.sort_unstable();
    let rank = (words.len() * 9).div_ceil(10);
    rank.checked_sub(1).map_or(0, |index| words[index])
}

/// The sentences of a page, outside of code, tables, headings and HTML. A paragraph or an item of a list ends
/// one.
pub(crate) fn sentences(text: &str) -> Vec<Sentence> {
    let (mut found, mut block, mut is_code) = (Vec::new(), Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let is_fence = line.starts_with("```");
        let begins = is_fence
            || is_code
            || line.is_empty()
            || ["|", "#", "<"].iter().any(|mark| line.starts_with(mark));
        let item = item(line);
        if begins || item.is_some() {
            found.extend(split(&block));
            block.clear();
        }
        if !begins {
            block.push((index, item.unwrap_or(line)));
        }
        is_code ^= is_fence;
    }
    found.extend(split(&block));
    found
}

/// What stands behind the mark of an item of a list.
pub(crate) fn item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let numbered = (number.len() < line.len()).then(|| number.strip_prefix(". ")).flatten();
    numbered.or_else(|| ["* ", "- ", "> "].iter().find_map(|mark| line.strip_prefix(mark)))
}

/// The sentences of one block of lines.
fn split(block: &[(usize, &str)]) -> Vec<Sentence> {
    let (mut found, mut begun): (Vec<Sentence>, Option<Sentence>) = (Vec::new(), None);
    let lines: Vec<_> = block.iter().map(|(_, line)| *line).collect();
    let text = plain(&lines.join("\n"));
    let words = text
        .lines()
        .zip(block)
        .flat_map(|(line, (index, _))| line.split_whitespace().map(|word| (*index, word)));
    for (index, word) in words {
        // A sign between words is none.
        if word.chars().any(char::is_alphanumeric) {
            begun.get_or_insert(Sentence { index, words: 0 }).words += 1;
        }
        if word.trim_end_matches([')', '*', '"']).ends_with(['.', '?', '!']) && !is_short(word) {
            found.extend(begun.take());
        }
    }
    found.extend(begun);
    found
}

/// Whether its point is that of an abbreviation.
fn is_short(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '*', '"']);
    ["e.g.", "i.e.", "vs.", "cf.", "..."].iter().any(|short| word.ends_with(short))
}

/// The text as it is read: code between backquotes is one word, a link is its words. Ends of lines stay.
fn plain(text: &str) -> String {
    let (mut plain, mut is_code) = (String::new(), false);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '`' => {
                is_code = !is_code;
                if is_code {
                    plain.push('x');
                }
            }
            '\n' => plain.push('\n'),
            _ if is_code => {}
            ']' if rest.starts_with('(') => {
                let end = rest.find(')').map_or(rest.len(), |end| end + 1);
                plain.extend(rest[..end].matches('\n'));
                rest = &rest[end..];
            }
            '[' | '!' if letter == '[' || rest.starts_with('[') => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(text: &str, lengths: &[(usize, usize)]) {
        let found: Vec<_> = sentences(text).iter().map(|one| (one.index, one.words)).collect();
        assert_eq!(found, lengths, "{text}");
    }

    fn sentence(words: usize) -> String {
        "word ".repeat(words - 1) + "end.\n"
    }

    #[test]
    fn sentences_end_with_a_point_or_their_block() {
        expect("One two. Three\nfour five! Six", &[(0, 2), (0, 3), (1, 1)]);
        expect("One\n\ntwo\n* three\n  four\n1. five", &[(0, 1), (2, 1), (3, 2), (5, 1)]);
        expect("**One.** Two (three.) Four", &[(0, 1), (0, 2), (0, 1)]);
        expect("Of version 1.2 e.g. this", &[(0, 5)]);
    }

    #[test]
    fn code_is_a_word_and_a_link_is_its_words() {
        expect("Run `a b. c` now", &[(0, 3)]);
        expect("See `a\nb` [the page](x.md#a.b) and ![it](y.svg)", &[(0, 6)]);
    }

    #[test]
    fn code_tables_and_headings_are_no_prose() {
        expect("# Of the\n\n```text\nno prose\n\nno * prose\n```\n| a b |\n\nOne", &[(9, 1)]);
    }

    #[test]
    fn one_sentence_in_ten_may_be_long_and_none_very_long() {
        let page = |long: usize, words| sentence(3).repeat(9) + &sentence(words).repeat(long);
        let count = |text: &str| check(&Tree::of(&[("a.md", text)])).len();
        assert_eq!(count(&page(1, WORDS_MAX)), 0);
        assert_eq!(count(&page(1, WORDS_MAX + 1)), 1);
        assert_eq!(count(&page(2, WORDS_P90)), 0);
        assert_eq!(count(&page(2, WORDS_P90 + 1)), 1);
    }
}
