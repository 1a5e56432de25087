//! A rule about long-lived state of the services: each map, queue and descriptor has a row that names its
//! owner, so that nobody shares one among tenants by accident.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::{budgets::without_tests, finding::Finding, tree::Tree};

/// By file and `Struct.field` or name of a static: its owner, a colon, and the reason.
const TABLE: &str = "docs/state.toml";

const FOLDERS: [&str; 5] =
    ["runner-svc/src/", "compiler-svc/src/", "cache/src/", "crates/service/", "crates/runtime/pool/src/"];

/// Types of long-lived state.
const KINDS: [&str; 16] = [
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
    "Cache",
    "DashMap",
    "HashMap",
    "HashSet",
    "LruCache",
    "Meter",
    "OwnedFd",
    "Recent",
    "Semaphore",
    "TenantCache",
    "TenantCounters",
    "UnboundedSender",
    "VecDeque",
];

/// Possible owners; `call` owns state that ends with the call.
const OWNERS: [&str; 4] = ["tenant", "server", "caller", "call"];

/// Compares the table with the code.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rows = tree.get(TABLE).map_or_else(|| Ok(BTreeMap::new()), toml::from_str);
    let rows: BTreeMap<String, BTreeMap<String, String>> = match rows {
        Ok(rows) => rows,
        Err(error) => return vec![Finding::of_file(TABLE, error.to_string())],
    };
    let (mut findings, mut known) = (Vec::new(), BTreeSet::new());
    for (path, text) in tree.ending(".rs").filter(|(path, _)| is_checked(path)) {
        for (name, line) in long_lived(text) {
            let row = rows.get(path).and_then(|rows| rows.get(&name));
            let owner = row.and_then(|row| row.split_once(": ")).map(|(owner, _)| owner);
            if owner.is_none_or(|owner| !OWNERS.contains(&owner)) {
                let text = format!("{TABLE} does not say whose `{name}` is: {}", OWNERS.join(", "));
                findings.push(Finding::of_line(path, line - 1, text));
            }
            known.insert((path, name));
        }
    }
    let stale = rows.iter().flat_map(|(path, rows)| rows.keys().map(move |name| (path, name)));
    let stale = stale.filter(|(path, name)| !known.contains(&(path.as_str(), (*name).clone())));
    let gone = |(path, name)| Finding::of_file(TABLE, format!("{path} has no `{name}`"));
    findings.extend(stale.map(gone));
    findings
}

fn is_checked(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        && path.contains("/src/")
        && !path.contains("/tests")
}

/// Fields and statics of such types, with their lines from 1.
fn long_lived(text: &str) -> BTreeMap<String, usize> {
    let is_code = without_tests(text);
    let mut kept = LongLived::default();
    if let Ok(file) = syn::parse_file(text) {
        kept.visit_file(&file);
    }
    kept.found.retain(|_, line| is_code(*line));
    kept.found
}

#[derive(Default)]
struct LongLived {
    owner: String,
    /// Empty outside of fields and statics.
    name: String,
    found: BTreeMap<String, usize>,
}

impl<'ast> Visit<'ast> for LongLived {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.owner = item.ident.to_string();
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        let name = field.ident.as_ref().map_or_else(|| "0".to_owned(), ToString::to_string);
        self.name = format!("{}.{name}", self.owner);
        visit::visit_field(self, field);
        self.name.clear();
    }

    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.name = item.ident.to_string();
        self.visit_type(&item.ty);
        self.name.clear();
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if !self.name.is_empty() && KINDS.iter().any(|kind| segment.ident == kind) {
            self.found.insert(self.name.clone(), segment.ident.span().start().line);
        }
        visit::visit_path_segment(self, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_an_owner() {
        let code = "//! X.\nstatic A: Mutex<Vec<HashMap<u8, u8>>> = x();\nstruct B {\n    c: Arc<Semaphore>,\n    d: u8,\n}\n\
                    fn f() { let x: HashMap<u8, u8>; }\n#[cfg(test)]\nmod tests {\n    struct T { a: HashSet<u8> }\n}\n";
        let found = |path: &str, table: &str| check(&Tree::of(&[(path, code), (TABLE, table)])).len();
        let path = "runner-svc/src/x.rs";
        let rows = |rows: &str| format!("[\"{path}\"]\n{rows}");
        assert_eq!(found(path, ""), 2);
        assert_eq!(found(path, &rows("A = \"tenant: x\"\n\"B.c\" = \"server: x\"\n")), 0);
        assert_eq!(found(path, &rows("A = \"nobody: x\"\n\"B.c\" = \"tenant\"\n")), 2);
        assert_eq!(found(path, &rows("A = \"call: x\"\n\"B.c\" = \"call: x\"\n\"B.d\" = \"call: x\"\n")), 1);
        assert_eq!(found("cli/src/x.rs", ""), 0);
    }
}
