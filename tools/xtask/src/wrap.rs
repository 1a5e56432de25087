//! A rule about the pages' lines, and what makes them so: prose is wrapped at 110 columns.

use std::fs;

use anyhow::Context as _;

use crate::{finding::Finding, sentences::item, tree::Tree};

/// Columns of a line of prose, at most; a word that is longer has a line of its own.
const COLUMNS: usize = 110;

/// Tells whether pages are wrapped otherwise.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut others = tree.ending(".md").filter(|(_, text)| wrapped(text) != *text).map(|(path, _)| path);
    let Some(first) = others.next() else { return Vec::new() };
    let count = others.count();
    let text = format!("is not wrapped at {COLUMNS} columns, nor are {count} others: cargo xtask wrap");
    vec![Finding::of_file(first, text)]
}

/// Wraps every page of the checkout.
pub(crate) fn run() -> anyhow::Result<()> {
    let tree = Tree::read().context("cannot read the tree")?;
    let root = crate::tree::root()?;
    for (path, text) in tree.ending(".md") {
        let wrapped = wrapped(text);
        if wrapped != text {
            fs::write(root.join(path), wrapped).with_context(|| format!("cannot write {path}"))?;
            eprintln!("{path}");
        }
    }
    Ok(())
}

/// A paragraph, or the first one of an item of a list.
struct Paragraph<'a> {
    /// Blanks before it, and the item's mark.
    head: &'a str,
    lines: Vec<&'a str>,
}

/// The YAML that a page may begin with, and the rest.
fn split_front_matter(page: &str) -> (&str, &str) {
    let rest = page.strip_prefix("---\n").unwrap_or_default();
    let end = rest.find("\n---\n").map_or(0, |at| "---\n".len() + at + "\n---\n".len());
    page.split_at(end)
}

/// `page` with each paragraph wrapped; front matter, code, tables, headings, HTML and quotes are as they are.
fn wrapped(page: &str) -> String {
    let (front, page) = split_front_matter(page);
    let (mut out, mut open, mut is_code): (String, Option<Paragraph<'_>>, bool) =
        (front.to_owned(), None, false);
    for line in page.lines() {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let is_fence = words.starts_with("```");
        let is_kept = is_fence
            || is_code
            || !words.contains(char::is_alphanumeric)
            || ["|", "#", "<", ">"].iter().any(|mark| words.starts_with(mark))
            || (open.is_none() && indent.len() >= 4);
        let item = item(words).filter(|_| !is_kept);
        if is_kept || item.is_some() {
            out.extend(open.take().map(wrap));
        }
        if is_kept {
            out.extend([line, "\n"]);
        } else if let Some(paragraph) = &mut open {
            paragraph.lines.push(words);
        } else {
            let rest = item.unwrap_or(words);
            open = Some(Paragraph { head: &line[..line.len() - rest.len()], lines: vec![rest] });
        }
        is_code ^= is_fence;
    }
    out.extend(open.map(wrap));
    out
}

fn wrap(paragraph: Paragraph<'_>) -> String {
    let margin = " ".repeat(paragraph.head.len());
    let (mut text, mut line) = (String::new(), paragraph.head.to_owned());
    let mut is_first = true;
    for word in words(&paragraph.lines.join("\n")) {
        let columns = line.chars().count() + 1 + word.chars().count();
        if !is_first && columns > COLUMNS && !is_mark(&word) {
            text.extend([line.as_str(), "\n"]);
            line = margin.clone() + &word;
        } else {
            line.extend([if is_first { "" } else { " " }, &word]);
        }
        is_first = false;
    }
    text + &line + "\n"
}

/// Whether a line that begins with `word` would be something else than prose.
fn is_mark(word: &str) -> bool {
    let number = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
    ["*", "-", "+"].contains(&word)
        || ["#", "|", "<", ">", "```"].iter().any(|mark| word.starts_with(mark))
        || (number == "." && word.len() > 1)
}

/// The words of `text`. Code between backquotes and where a link leads are not cut.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut is_code, mut is_target) = (false, false);
    for letter in text.chars() {
        is_target = (is_target && letter != ')') || (letter == '(' && word.ends_with(']') && !is_code);
        is_code ^= letter == '`';
        match letter {
            ' ' | '\n' if is_code || is_target => word.push(' '),
            ' ' | '\n' => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
            letter => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(page: &str, wanted: &str) {
        assert_eq!(wrapped(page), wanted);
        assert_eq!(wrapped(wanted), wanted, "what is wrapped stays");
    }

    #[test]
    fn paragraphs_and_items_are_joined_and_cut() {
        expect("one\ntwo\n\n* three\n  four\n* five\n", "one two\n\n* three four\n* five\n");
        let long = format!("1. {}\n", "word ".repeat(30).trim());
        let cut = format!("1. {}\n   {}\n", "word ".repeat(21).trim(), "word ".repeat(9).trim());
        expect(&long, &cut);
    }

    #[test]
    fn code_and_targets_are_not_cut() {
        let before = "word ".repeat(20);
        expect(
            &format!("{before}`antares run  SCRIPT`\n"),
            &format!("{}\n`antares run  SCRIPT`\n", before.trim()),
        );
        expect(&format!("{before}[a](b.md 'c d')\n"), &format!("{}\n[a](b.md 'c d')\n", before.trim()));
        expect("`a\nb` c\n", "`a b` c\n");
    }

    #[test]
    fn no_line_becomes_something_else() {
        let before = "word ".repeat(22);
        expect(&format!("{before}1. Then\n"), &format!("{}1.\nThen\n", before));
        expect(&format!("{before}+ 2\n"), &format!("{before}+\n2\n"));
    }

    #[test]
    fn all_else_is_as_it_is() {
        let page = format!(
            "# {0}\n\n```text\n{0}\nb\n```\n| {0} |\n<p>\n---\n\n    {0}\n\n> a\n> b\n",
            "word ".repeat(40).trim()
        );
        expect(&page, &page);
    }

    #[test]
    fn front_matter_is_as_it_is() {
        let page = format!("---\nname: a\ndescription: {}\n---\n\n# A\n", "word ".repeat(40).trim());
        expect(&page, &page);
        expect("---\n\none\ntwo\n", "---\n\none two\n");
    }

    /// Whoever loads the page has a YAML parser read its front matter.
    #[test]
    fn a_parser_reads_the_front_matter_of_the_skill() {
        let page = fs::read_to_string(crate::tree::root().unwrap().join("SKILL.md")).unwrap();
        let (front, _) = split_front_matter(&page);
        let script = "import sys, yaml; print(*sorted(yaml.safe_load(sys.argv[1].strip('-\\n'))))";
        let parsed = std::process::Command::new("python3").args(["-c", script, front]).output().unwrap();
        let keys = String::from_utf8(parsed.stdout).unwrap();
        assert_eq!(keys, "description name\n", "{}", String::from_utf8_lossy(&parsed.stderr));
    }
}
