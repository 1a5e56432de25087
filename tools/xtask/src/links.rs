//! Rule for pages: the targets of links exist, whether files, folders or headings.

use std::collections::BTreeMap;

use crate::{finding::Finding, tree::Tree};

/// Checks the links of every page, except those to other hosts.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (index, line) in prose(text) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let is_elsewhere = link.contains("://") || link.starts_with("mailto:");
                if let Some(problem) = (!is_elsewhere).then(|| problem(tree, path, link)).flatten() {
                    findings.push(Finding::of_line(path, index, format!("the link {link} {problem}")));
                }
            }
        }
    }
    findings
}

/// The problem of a `link` of the page at `path`, if any.
fn problem(tree: &Tree, path: &str, link: &str) -> Option<&'static str> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let to = if target.is_empty() { path.to_owned() } else { resolve(folder, target) };
    if !tree.has(&to) {
        return Some("leads nowhere");
    }
    let page = tree.get(&to).filter(|_| to.ends_with(".md") && !anchor.is_empty())?;
    (!anchors(page).any(|one| one == anchor)).then_some("names a heading that is not there")
}

/// Resolves `target` relative to `folder`, without `.` and `..`.
pub(crate) fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines of a page outside of code blocks, with their indices.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Link targets in a page: its headings as GitHub and mdBook name them, and HTML anchors.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let mut seen = BTreeMap::new();
    let headings = prose(page).filter(|(_, line)| line.starts_with('#')).map(move |(_, line)| {
        let name = slug(line.trim_start_matches('#').trim());
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
    });
    let named = page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    headings.chain(named)
}

/// The anchor of a heading: keeps letters, digits, `-` and `_`, and replaces blanks by `-`. For a link, only
/// its text counts.
fn slug(heading: &str) -> String {
    let mut words = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        words.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    words.push_str(rest);
    let kept = words.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(text: &str, count: usize) {
        let page =
            "# The `run` form: [verify](x.md)\n## Twice\n## Twice\n<a id=\"here\"></a>\n```sh\n# code\n```\n";
        let files = [("docs/cli.md", text), ("README.md", page), ("docs/img/a.svg", ""), ("x.md", "")];
        let found = check(&Tree::of(&files)).iter().filter(|one| one.path == "docs/cli.md").count();
        assert_eq!(found, count, "{text}");
    }

    #[test]
    fn links_lead_to_files() {
        expect("[a](../README.md) [b](img/) [c](https://example.org/x#y) [d](mailto:a@b.c)", 0);
        expect("[a](README.md)", 1);
        expect("```text\n[a](README.md)\n```\n", 0);
    }

    #[test]
    fn links_lead_to_headings() {
        expect("[a](../README.md#the-run-form-verify) [b](../README.md#twice-1) [c](../README.md#here)", 0);
        expect("# Own\n[a](#own)", 0);
        expect("[a](../README.md#code) [b](../README.md#twice-2) [c](#own)", 3);
    }
}
