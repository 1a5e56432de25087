//! Imports between the files of a crate, as found in their text: paths with `crate::`, `super::` and names of
//! their modules.

use std::collections::{BTreeMap, BTreeSet};

use syn::UseTree;

/// Import graph of a crate's files.
pub(crate) struct Imports<'a> {
    edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Imports<'a> {
    /// Reads the files of one crate: paths below `src`, with their contents. Ignores test code.
    pub(crate) fn of(files: &BTreeMap<&'a str, &'a str>) -> Self {
        let modules: BTreeMap<Vec<&str>, &'a str> =
            files.keys().map(|&file| (module_of(file), file)).collect();
        let texts: BTreeMap<&str, String> =
            files.iter().map(|(&file, text)| (file, without_tests(text))).collect();
        let mut edges = BTreeMap::new();
        for &file in files.keys() {
            let of = Names { modules: &modules, texts: &texts };
            let taken = paths(&texts[file], is_root(file))
                .into_iter()
                .filter_map(|path| of.resolve(&module_of(file), &path, 0));
            edges.insert(file, taken.filter(|&other| other != file).collect());
        }
        Self { edges }
    }

    /// The imports of each file.
    pub(crate) fn edges(&self) -> &BTreeMap<&'a str, BTreeSet<&'a str>> {
        &self.edges
    }
}

struct Names<'t, 'a> {
    modules: &'t BTreeMap<Vec<&'t str>, &'a str>,
    texts: &'t BTreeMap<&'a str, String>,
}

impl<'a> Names<'_, 'a> {
    /// The file that declares what `path` names from `module`; resolves re-exports.
    fn resolve(&self, module: &[&str], path: &str, depth: usize) -> Option<&'a str> {
        let mut parts: Vec<&str> = path.split("::").collect();
        let mut at: Vec<&str> = match parts[0] {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            first => {
                let mut child = module.to_vec();
                child.push(first);
                return self.modules.contains_key(&child).then(|| self.walk(child, &parts[1..], depth))?;
            }
        };
        parts.remove(0);
        while parts.first() == Some(&"super") {
            at.pop()?;
            parts.remove(0);
        }
        self.walk(at, &parts, depth)
    }

    fn walk<'p>(&self, mut at: Vec<&'p str>, parts: &[&'p str], depth: usize) -> Option<&'a str> {
        let mut rest = parts;
        while let [first, behind @ ..] = rest {
            at.push(first);
            if !self.modules.contains_key(&at) {
                at.pop();
                break;
            }
            rest = behind;
        }
        let file = *self.modules.get(&at)?;
        // For a re-export by `pub use` in a crate root, the import is the file with the declaration. In any
        // other file, the re-exporting file itself is the import.
        let handed_on = rest.first().filter(|_| depth < 4 && is_root(file)).and_then(|name| {
            let uses = self.texts.get(file)?.split(';').filter_map(|item| item.trim().rsplit_once("use "));
            let named = uses.flat_map(|(_, tree)| leaves(tree));
            let path = named.into_iter().find(|path| path.rsplit("::").next() == Some(name))?;
            self.resolve(&at, &path, depth + 1)
        });
        handed_on.or(Some(file))
    }
}

fn is_root(file: &str) -> bool {
    matches!(file, "lib.rs" | "main.rs")
}

fn module_of(file: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(parts.last(), Some(&"lib" | &"main" | &"mod")) {
        parts.pop();
    }
    parts
}

/// The text without comments and the test module at its end.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// All paths in a text: the leaves of its `use` trees, and paths in its code that begin with `crate` or
/// `super`.
fn paths(text: &str, is_root: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        // A `pub use` in a root is only a re-export; in any other file it is a dependency.
        let line = rest[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_import = line.is_empty() || !is_root && matches!(line, "pub" | "pub(crate)" | "pub(super)");
        let tree = rest[at + 4..].split(';').next().unwrap_or_default();
        if is_import {
            found.extend(leaves(tree));
        }
        rest = &rest[at + 4..];
    }
    for start in ["crate::", "super::"] {
        found.extend(text.match_indices(start).filter_map(|(at, _)| {
            let is_path = |c: &char| c.is_alphanumeric() || *c == '_' || *c == ':';
            let path: String = text[at..].chars().take_while(is_path).collect();
            // The prefix of a `use` tree ends with a colon; its leaves are collected above.
            (!path.ends_with(':')).then_some(path)
        }));
    }
    found
}

/// The paths in a `use` tree: `a::{b, c::d as e}` yields `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    syn::parse_str(tree).map_or_else(|_| Vec::new(), |tree| leaves_below("", &tree))
}

fn leaves_below(head: &str, tree: &UseTree) -> Vec<String> {
    let leaf = |name: &syn::Ident| vec![format!("{head}{name}").trim_end_matches("::self").to_owned()];
    match tree {
        UseTree::Path(path) => leaves_below(&format!("{head}{}::", path.ident), &path.tree),
        UseTree::Name(name) => leaf(&name.ident),
        UseTree::Rename(renamed) => leaf(&renamed.ident),
        UseTree::Group(group) => group.items.iter().flat_map(|item| leaves_below(head, item)).collect(),
        UseTree::Glob(_) => vec![format!("{head}*")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_uses_has_leaves() {
        let found = leaves("crate::{a::{self, B}, c as d, e::F}");
        assert_eq!(found, ["crate::a", "crate::a::B", "crate::c", "crate::e::F"]);
    }

    #[test]
    fn names_lead_to_where_they_are_declared() {
        let files = BTreeMap::from([
            ("lib.rs", "mod a;\nmod b;\npub use a::{Thing, other};\n"),
            ("a.rs", "mod inner;\nuse inner::Deep;\npub struct Thing;\n"),
            ("a/inner.rs", "use super::Thing;\n"),
            ("b.rs", "fn f(t: crate::Thing) {}\n#[cfg(test)]\nmod tests { use crate::c::X; }\n"),
            ("c.rs", "use crate::a::inner::Deep; // use crate::b::Y;\n"),
            ("d.rs", "mod low;\npub(crate) use low::Low;\n"),
            ("d/low.rs", "pub struct Low;\n"),
        ]);
        let imports = Imports::of(&files);
        let edges = imports.edges();
        assert_eq!(edges["b.rs"], BTreeSet::from(["a.rs"]));
        assert_eq!(edges["a.rs"], BTreeSet::from(["a/inner.rs"]));
        assert_eq!(edges["a/inner.rs"], BTreeSet::from(["a.rs"]));
        assert_eq!(edges["c.rs"], BTreeSet::from(["a/inner.rs"]));
        assert_eq!(edges["d.rs"], BTreeSet::from(["d/low.rs"]));
    }
}
