//! Rules for Cargo.toml: allowed dependencies between crates, and versions only in the workspace's table.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use toml::{Table, Value};

use crate::{finding::Finding, tree::Tree};

/// A folder of crates, and the lower floors that its crates may depend on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Floor {
    name: String,
    crates: Vec<String>,
    below: Vec<String>,
}

/// Crates that only `users` may depend on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restricted {
    crates: Vec<String>,
    users: Vec<String>,
}

/// The tables of `rules.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    see_everything: Vec<String>,
    outside: Vec<String>,
    floor: Vec<Floor>,
    restricted: Vec<Restricted>,
    /// Words that are in no name, each with the field's.
    pub(crate) words: BTreeMap<String, String>,
}

/// The parsed tables. A test reads them, so they are well-formed.
pub(crate) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    toml::from_str(include_str!("../rules.toml")).unwrap_or_else(|error| panic!("rules.toml: {error}"))
});

/// Tables of a manifest with restricted dependencies. Tests may depend on any of our crates.
const DEPENDENCIES: [&str; 2] = ["dependencies", "build-dependencies"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let members =
        tree.ending("/Cargo.toml").filter_map(|(path, text)| Some((path, text.parse::<Table>().ok()?)));
    members.flat_map(|(path, manifest)| check_member(path, &manifest)).collect()
}

fn check_member(path: &str, manifest: &Table) -> Vec<Finding> {
    // A workspace root without a package.
    if manifest.get("package").is_none() && manifest.get("workspace").is_some() {
        return Vec::new();
    }
    let Some(name) = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str)
    else {
        return vec![Finding::of_file(path, "no package name")];
    };
    let mut findings = Vec::new();
    for table in DEPENDENCIES {
        for dependency in names(manifest, table) {
            findings.extend(check_arrow(path, name, dependency));
        }
    }
    // A separate workspace has no shared table of versions.
    if manifest.get("workspace").is_none() {
        findings.extend(check_versions(path, manifest));
    }
    findings
}

fn names<'a>(manifest: &'a Table, table: &str) -> impl Iterator<Item = &'a str> {
    manifest
        .get(table)
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys().map(String::as_str))
}

/// Checks that `name` may depend on `dependency`.
fn check_arrow(path: &str, name: &str, dependency: &str) -> Option<Finding> {
    let has = |list: &[String], item: &str| list.iter().any(|one| one == item);
    if has(&RULES.see_everything, name) {
        return None;
    }
    if dependency.starts_with("antares-") {
        let Some(floor) = RULES.floor.iter().find(|floor| has(&floor.crates, name)) else {
            // Examples and tools outside of the floors have the dependencies of users.
            return (!has(&RULES.outside, name))
                .then(|| Finding::of_file(path, format!("{name} is on no floor of tools/xtask/rules.toml")));
        };
        let is_below = |below: &&Floor| has(&below.crates, dependency) && has(&floor.below, &below.name);
        if !has(&floor.crates, dependency) && !RULES.floor.iter().any(|below| is_below(&below)) {
            let problem = format!(
                "{name} must not depend on {dependency}; the floor {} may on {:?}",
                floor.name, floor.below
            );
            return Some(Finding::of_file(path, problem));
        }
    }
    let Restricted { users, .. } = RULES.restricted.iter().find(|rule| has(&rule.crates, dependency))?;
    (!has(users, name)).then(|| {
        Finding::of_file(path, format!("{name} must not depend on {dependency}; only {users:?} may"))
    })
}

/// Checks that versions, paths and URLs of dependencies are only in the root's table.
fn check_versions(path: &str, manifest: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in ["dependencies", "build-dependencies", "dev-dependencies"] {
        for (name, value) in manifest.get(table).and_then(Value::as_table).into_iter().flatten() {
            // A crate that enables its own feature for tests depends on itself by path.
            let is_itself = value.get("path").and_then(Value::as_str) == Some(".");
            if !is_itself && value.get("workspace").and_then(Value::as_bool) != Some(true) {
                let problem = format!("{name}: write {name}.workspace = true; versions stand in the root");
                findings.push(Finding::of_file(path, problem));
            }
        }
    }
    for key in ["version", "edition", "rust-version", "license"] {
        let value = manifest.get("package").and_then(|package| package.get(key));
        if value.is_none_or(|value| !value.is_table()) {
            findings.push(Finding::of_file(path, format!("package.{key}: write {key}.workspace = true")));
        }
    }
    if manifest.get("lints").and_then(|lints| lints.get("workspace")).is_none() {
        findings.push(Finding::of_file(path, "no [lints] workspace = true"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace = true\n[lints]\nworkspace = true\n";

    #[track_caller]
    fn findings(name: &str, rest: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{name}\"\n{HEAD}{rest}");
        check(&Tree::of(&[("x/Cargo.toml", &manifest)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_point_one_way() {
        assert!(findings("antares-lift", "[dependencies]\nantares-program.workspace = true\n").is_empty());
        let wrong = findings("antares-program", "[dependencies]\nantares-lift.workspace = true\n");
        assert!(wrong[0].contains("antares-program must not depend on antares-lift"), "{wrong:?}");
        assert_eq!(findings("antares-runner-svc", "[dependencies]\nantares-vm.workspace = true\n").len(), 1);
        assert_eq!(findings("antares-cache", "[dependencies]\nantares-pool.workspace = true\n").len(), 1);
        assert_eq!(findings("antares-new", "[build-dependencies]\nantares-abi.workspace = true\n").len(), 1);
        assert!(findings("antares-tests", "[dependencies]\nantares-vm.workspace = true\n").is_empty());
        assert!(findings("antares-pool", "[dev-dependencies]\nantares-tests.workspace = true\n").is_empty());
    }

    #[test]
    fn heavy_crates_stay_where_they_belong() {
        assert!(findings("antares-codegen", "[dependencies]\ninkwell.workspace = true\n").is_empty());
        assert_eq!(findings("antares-compiler", "[dependencies]\ninkwell.workspace = true\n").len(), 1);
        assert_eq!(findings("antares-pool", "[dependencies]\ntokio.workspace = true\n").len(), 1);
        assert_eq!(findings("antares-cache", "[dependencies]\nanyhow.workspace = true\n").len(), 1);
    }

    #[test]
    fn versions_stand_in_the_root() {
        assert_eq!(findings("xtask", "[dependencies]\ntoml = \"1\"\n").len(), 1);
        assert_eq!(findings("xtask", "[dev-dependencies]\ntoml = { path = \"..\" }\n").len(), 1);
        assert!(findings("antares-fuzz-targets", "[dependencies]\ntoml = \"1\"\n[workspace]\n").is_empty());
        let bare = "[package]\nname = \"xtask\"\nversion = \"0.1.0\"\n";
        assert_eq!(check(&Tree::of(&[("x/Cargo.toml", bare)])).len(), 5);
    }

    #[test]
    fn floors_depend_on_lower_ones_alone() {
        for (level, floor) in RULES.floor.iter().enumerate() {
            let is_lower = |name: &String| RULES.floor[..level].iter().any(|lower| lower.name == *name);
            assert!(floor.below.iter().all(is_lower), "{}", floor.name);
        }
    }
}
