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

    /// Tools that load these files have parsers of their own. Templates of charts are parsed when they are rendered.
    #[test]
    fn parsers_read_what_other_tools_read() {
        let script = r#"
import json, pathlib, sys, tomllib, yaml
skill = pathlib.Path("SKILL.md").read_text().split("---\n")[1]
assert sorted(yaml.safe_load(skill)) == ["description", "name"], skill
parse = {".json": json.loads, ".toml": tomllib.loads, ".yaml": lambda text: list(yaml.safe_load_all(text))}
parse[".yml"] = parse[".yaml"]
for path in map(pathlib.Path, sys.stdin.read().split()):
    if path.suffix in parse and "templates" not in path.parts:
        try:
            parse[path.suffix](path.read_text())
        except Exception as error:
            sys.exit(f"{path}: {error}")
"#;
        let tree = Tree::read().unwrap();
        let listed: String = tree.iter().map(|(path, _)| format!("{path}\n")).collect();
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script]).current_dir(crate::tree::root().unwrap());
        let mut python =
            python.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut python.stdin.take().unwrap(), listed.as_bytes()).unwrap();
        let parsed = python.wait_with_output().unwrap();
        assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    }
}
