//! Rules for every text: no machine-specific paths, no unfinished work, and existing commands in the docs.

use crate::{finding::Finding, tree::Tree};

/// Forbidden words, with the reason. Each is split in two, so that this file does not match.
const FORBIDDEN: [(&str, &str, &str); 13] = [
    ("/ro", "ot/", "a path of one machine"),
    ("/ho", "me/", "a path of one machine"),
    ("/wo", "rk/", "a path of one machine"),
    ("/Us", "ers/", "a path of one machine"),
    ("crates", ".io", "the host of a package registry"),
    ("py", "pi.org", "the host of a package registry"),
    ("pythonhosted", ".org", "the host of a package registry"),
    ("npm", "js.", "the host of a package registry"),
    ("proxy.", "golang", "the host of a package registry"),
    ("deb.", "debian", "the host of a package registry"),
    ("TO", "DO", "something left undone: do it, or write an issue"),
    ("FIX", "ME", "something left undone: do it, or write an issue"),
    ("unimplemented", "!(", "something left undone: do it, or write an issue"),
];

/// Names of generated files, which are not checked.
const GENERATED: [&str; 1] = ["Cargo.lock"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .iter()
        .filter(|(path, _)| !GENERATED.contains(&path.rsplit('/').next().unwrap_or(path)))
        .flat_map(|(path, text)| check_words(path, text))
        .collect();
    for (path, text) in tree.ending(".md") {
        findings.extend(check_commands(tree, path, text));
    }
    findings
}

fn check_words(path: &str, text: &str) -> Vec<Finding> {
    let words = FORBIDDEN.map(|(start, end, why)| (format!("{start}{end}"), why));
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (word, why) in words.iter().filter(|(word, _)| line.contains(word)) {
            findings.push(Finding::of_line(path, index, format!("`{word}`: {why}")));
        }
    }
    findings
}

/// Checks that each `make TARGET` and `scripts/FILE` in the docs exists.
fn check_commands(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let makefile = tree.get("Makefile").unwrap_or_default();
    let has_target = |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    let (mut findings, mut is_code) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.starts_with("```");
        // A line of prose may begin with `make` too.
        let is_command = line.trim_start().starts_with("make ") && (is_code || line.starts_with("    "));
        let commands = line.split('`').skip(1).step_by(2).chain(is_command.then_some(line));
        for words in commands.map(|command| command.split_whitespace().collect::<Vec<_>>()) {
            if let ["make", target, ..] = words[..]
                && !has_target(target)
            {
                let problem = format!("`make {target}` is not in the Makefile");
                findings.push(Finding::of_line(path, index, problem));
            }
            for script in words.iter().filter(|word| word.starts_with("scripts/")) {
                if !tree.has(script) {
                    findings.push(Finding::of_line(path, index, format!("{script} does not exist")));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_one_machine() {
        let home = format!("cd {}{}me\n", "/ho", "me/");
        assert_eq!(check(&Tree::of(&[("a.sh", &home)])).len(), 1);
        assert_eq!(check(&Tree::of(&[("Cargo.lock", &home)])).len(), 0);
        let undone = format!("fine\n// {}{}: later\n", "TO", "DO");
        assert_eq!(check(&Tree::of(&[("a.rs", &undone)]))[0].line, Some(2));
    }

    #[test]
    fn commands_in_the_docs_exist() {
        let makefile = ("Makefile", "demo: ## Show it\n\ttrue\n");
        let with = |readme| check(&Tree::of(&[makefile, ("README.md", readme), ("scripts/demo.sh", "")]));
        assert!(with("Type `make demo` or:\n\n    make demo\n").is_empty());
        assert!(with("They\nmake it work. Run `scripts/demo.sh now`.\n").is_empty());
        assert_eq!(with("```sh\nmake coffee\n```\n").len(), 1);
        assert_eq!(with("Type `make coffee`.\n").len(), 1);
        assert_eq!(with("See `scripts/tea.sh`.\n").len(), 1);
    }
}
