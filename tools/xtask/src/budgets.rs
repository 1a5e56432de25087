//! Budgets: lines of code and of tests by floor, words of docs. `budgets.toml` next to this crate defines
//! them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use syn::{Attribute, spanned::Spanned as _, visit::Visit};

use crate::{finding::Finding, tree::Tree};

const TABLE: &str = "tools/xtask/budgets.toml";

/// Folders that contain only tests.
const TEST_FOLDERS: [&str; 3] = ["tests", "benches", "examples"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Budgets {
    /// Lines of code by path prefix, without tests and comments.
    code: BTreeMap<String, usize>,
    test_lines: usize,
    /// Words of all pages.
    words: usize,
    /// Later increases, each with its benefit for users.
    #[serde(default)]
    raise: Vec<Raise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raise {
    /// A key of `code`, `test_lines` or `words`.
    budget: String,
    by: usize,
    gives: String,
}

impl Budgets {
    fn limit(&self, name: &str, base: usize) -> usize {
        base + self.raise.iter().filter(|raise| raise.budget == name).map(|raise| raise.by).sum::<usize>()
    }
}

/// A budget, and how much of it is used.
struct Use<'b> {
    name: &'b str,
    have: usize,
    limit: usize,
}

/// Compares the tree with the table.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.get(TABLE) else { return Vec::new() };
    let budgets: Budgets = match toml::from_str(text) {
        Ok(budgets) => budgets,
        Err(error) => return vec![Finding::of_file(TABLE, error.to_string())],
    };
    let (floors, rest) = uses(tree, &budgets);
    let over = floors.into_iter().chain(rest).filter(|used| used.have > used.limit);
    let over = over.map(|Use { name, have, limit }| {
        Finding::of_file(TABLE, format!("{name}: {have}, the budget is {limit}"))
    });
    let empty = budgets.raise.iter().filter(|raise| raise.gives.split_whitespace().count() < 4);
    let empty = empty.map(|raise| {
        Finding::of_file(TABLE, format!("a raise of {}: `gives` names what a user gets", raise.budget))
    });
    let homeless = tree.ending(".rs").filter(|(path, _)| floor_of(path, &budgets).is_none());
    let homeless = homeless.map(|(path, _)| Finding::of_file(path, format!("no floor in {TABLE} has it")));
    over.chain(empty).chain(homeless).collect()
}

/// Prints the lines of each floor, and the words of all pages.
pub(crate) fn print(tree: &Tree) -> anyhow::Result<()> {
    let budgets: Budgets = toml::from_str(tree.get(TABLE).unwrap_or_default())?;
    let (floors, rest) = uses(tree, &budgets);
    let print = |Use { name, have, limit }: &Use<'_>| eprintln!("{name:<24}{have:>8} of {limit}");
    floors.iter().for_each(print);
    eprintln!("{:<24}{:>8}", "all code", floors.iter().map(|floor| floor.have).sum::<usize>());
    rest.iter().for_each(print);
    Ok(())
}

/// The budgets of the floors, and the others.
fn uses<'b>(tree: &Tree, budgets: &'b Budgets) -> (Vec<Use<'b>>, [Use<'b>; 2]) {
    let (code, tests) = count(tree, budgets);
    let of = |name: &'b str, base, have| Use { name, have, limit: budgets.limit(name, base) };
    let floors = budgets.code.iter().map(|(floor, base)| of(floor, *base, code[floor.as_str()]));
    let words = tree.ending(".md").map(|(_, text)| text.split_whitespace().count()).sum();
    let rest = [of("test_lines", budgets.test_lines, tests), of("words", budgets.words, words)];
    (floors.collect(), rest)
}

/// Counts the lines of code of each floor, and the lines of test code of all floors.
fn count<'b>(tree: &Tree, budgets: &'b Budgets) -> (BTreeMap<&'b str, usize>, usize) {
    let mut code: BTreeMap<&str, usize> = budgets.code.keys().map(|floor| (floor.as_str(), 0)).collect();
    let mut tests = 0;
    for (path, text) in tree.ending(".rs") {
        let Some(floor) = floor_of(path, budgets) else { continue };
        let lines = Lines::of(text);
        let is_test = path.split('/').any(|part| TEST_FOLDERS.contains(&part) || part == "tests.rs");
        *code.entry(floor).or_default() += if is_test { 0 } else { lines.code };
        tests += lines.tests + if is_test { lines.code } else { 0 };
    }
    (code, tests)
}

fn floor_of<'b>(path: &str, budgets: &'b Budgets) -> Option<&'b str> {
    let floors = budgets.code.keys().map(String::as_str);
    floors.filter(|floor| path.starts_with(&format!("{floor}/"))).max_by_key(|floor| floor.len())
}

/// Lines that are neither blank nor comments.
#[derive(Debug, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
}

impl Lines {
    fn of(text: &str) -> Self {
        let is_code = without_tests(text);
        let lines = (1..).zip(text.lines().map(str::trim_start));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"));
        let (code, tests): (Vec<_>, Vec<_>) = lines.partition(|(number, _)| is_code(*number));
        Self { code: code.len(), tests: tests.len() }
    }
}

/// Whether a line (from 1) is outside of tests.
pub(crate) fn without_tests(text: &str) -> impl Fn(usize) -> bool + use<> {
    let mut tests = Tests(BTreeSet::new());
    if let Ok(file) = syn::parse_file(text) {
        tests.visit_file(&file);
    }
    move |line| !tests.0.contains(&line)
}

/// Lines of items with `cfg(test)`.
struct Tests(BTreeSet<usize>);

impl Tests {
    fn record(&mut self, attributes: &[Attribute], span: proc_macro2::Span) {
        let is_test = |attribute: &Attribute| {
            let meta = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("cfg"));
            meta.is_some_and(|list| list.tokens.to_string().contains("test"))
        };
        if attributes.iter().any(is_test) {
            self.0.extend(span.start().line..=span.end().line);
        }
    }
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => &Vec::new(),
        };
        self.record(attributes, item.span());
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.record(&item.attrs, item.span());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_no_code() {
        let text = "//! Head.\n\n/// Doc.\nfn a() {\n    // why\n    b(\"x\n    y\");\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(Lines::of(text), Lines { code: 4, tests: 4 });
    }

    #[test]
    fn what_is_over_its_budget_is_found() {
        let table = "test_lines = 0\nwords = 2\n[code]\na = 1\n";
        let found = |files: &[(&str, &str)], table: &str| {
            check(&Tree::of(&[files, &[(TABLE, table)]].concat())).len()
        };
        assert_eq!(found(&[("a/src/x.rs", "fn a() {}\n"), ("b.md", "two words")], table), 0);
        assert_eq!(found(&[("a/src/x.rs", "fn a() {}\nfn b() {}\n")], table), 1);
        assert_eq!(found(&[("b.md", "now three words")], table), 1);
        assert_eq!(found(&[("c/src/x.rs", "")], table), 1);
        let raised = format!("{table}[[raise]]\nbudget = \"a\"\nby = 1\ngives = ");
        let two = [("a/src/x.rs", "fn a() {}\nfn b() {}\n")];
        assert_eq!(found(&two, &format!("{raised}\"a command that verifies blocks\"\n")), 0);
        assert_eq!(found(&two, &format!("{raised}\"\"\n")), 1);
    }
}
