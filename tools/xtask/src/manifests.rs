//! Rules about Cargo.toml: who may depend on whom, and that versions stand in one table.

use toml::{Table, Value};

use crate::{finding::Finding, tree::Tree};

/// Our crates and which of ours each may depend on: arrows point one way. `tests` and `bench` see everything.
/// No crate of a service's process or of the command line reaches `codegen` or `vm`: those live in the
/// workers.
const OURS: &[(&str, &[&str])] = &[
    ("antares-proto", &[]),
    ("antares-abi", &[]),
    ("antares-program", &["antares-abi"]),
    // From `program` the names of registers, blocks and functions, which the IR is written in.
    ("antares-ir", &["antares-abi", "antares-program"]),
    ("antares-lift", &["antares-ir", "antares-program"]),
    // It sees no pass: what it proves owes nothing to them.
    ("antares-proof", &["antares-ir", "antares-program"]),
    // It never sees `lift`: passes are tested on IR alone.
    ("antares-opt", &["antares-ir", "antares-program", "antares-proof"]),
    ("antares-codegen", &["antares-abi", "antares-ir", "antares-program"]),
    ("antares-baseline", &["antares-abi", "antares-ir", "antares-program"]),
    (
        "antares-compiler",
        &[
            "antares-abi",
            "antares-program",
            "antares-ir",
            "antares-lift",
            "antares-opt",
            "antares-proof",
            "antares-codegen",
            "antares-baseline",
        ],
    ),
    ("antares-codecheck", &["antares-abi"]),
    ("antares-evidence", &["antares-abi"]),
    // The data models of profiles and evidence, for what it records.
    ("antares-vm", &["antares-abi", "antares-evidence", "antares-profile"]),
    ("antares-profile", &["antares-abi"]),
    ("antares-profile-view", &["antares-abi", "antares-program", "antares-profile"]),
    ("antares-insights", &["antares-abi", "antares-program", "antares-profile", "antares-profile-view"]),
    (
        "antares-diagnosis",
        &["antares-abi", "antares-evidence", "antares-program", "antares-profile", "antares-profile-view"],
    ),
    ("antares-size", &["antares-abi", "antares-program", "antares-profile-view"]),
    ("antares-transaction", &[]),
    // It knows neither scripts nor workers.
    ("antares-race", &[]),
    // It makes mock transactions and runs none.
    ("antares-node", &[]),
    ("antares-hosted", &[]),
    ("antares-zeroed", &[]),
    // It serves what a debugger asks, whether in a process of its own or in the debugger's.
    ("antares-verifier", &["antares-hosted", "antares-transaction", "antares-zeroed"]),
    ("antares-sandbox", &[]),
    // Samples of runs are checked before anybody believes them.
    ("antares-pool", &["antares-abi", "antares-hosted", "antares-profile", "antares-sandbox"]),
    (
        "antares-compile-worker",
        &["antares-abi", "antares-codecheck", "antares-compiler", "antares-pool", "antares-sandbox"],
    ),
    (
        "antares-run-worker",
        &[
            "antares-abi",
            // Names of functions and lines come from bytes of a script: they are looked up in the fence.
            "antares-diagnosis",
            "antares-evidence",
            "antares-hosted",
            "antares-vm",
            "antares-profile",
            "antares-profile-view",
            "antares-transaction",
            "antares-verifier",
            "antares-pool",
            "antares-sandbox",
        ],
    ),
    ("antares-trust", &["antares-abi"]),
    ("antares-cache", &["antares-abi"]),
    ("antares-tier", &["antares-abi", "antares-cache"]),
    // Of files alone: a listener and a client have the rest.
    ("antares-tls", &[]),
    // What scripts may cost by default.
    ("antares-config", &["antares-abi"]),
    ("antares-serve", &["antares-abi", "antares-config", "antares-tls"]),
    ("antares-client", &["antares-proto", "antares-tls"]),
    ("antares-testtool", &[]),
    // Examples, which see what others see.
    ("embedding", &[]),
    ("without-llvm", &[]),
    // For programs of others: it compiles and runs in their process.
    (
        "antares",
        &[
            "antares-abi",
            "antares-codecheck",
            "antares-compiler",
            "antares-pool",
            "antares-profile",
            "antares-profile-view",
            "antares-trust",
            "antares-vm",
        ],
    ),
    ("antares-admin", &["antares-abi", "antares-proto", "antares-trust", "antares-serve"]),
    (
        "antares-compiler-svc",
        &[
            "antares-abi",
            "antares-admin",
            "antares-proto",
            "antares-pool",
            "antares-trust",
            "antares-cache",
            "antares-tier",
            "antares-config",
            "antares-serve",
        ],
    ),
    // With the compiler service in the same process, for `antares serve`.
    (
        "antares-runner-svc",
        &[
            "antares-abi",
            "antares-admin",
            // It is a client of compilers.
            "antares-client",
            "antares-transaction",
            "antares-proto",
            // The shape of what its workers tell.
            "antares-diagnosis",
            "antares-evidence",
            "antares-insights",
            "antares-node",
            "antares-pool",
            "antares-profile",
            "antares-profile-view",
            "antares-config",
            "antares-race",
            "antares-serve",
            "antares-trust",
            "antares-compiler-svc",
        ],
    ),
    (
        "antares-cli",
        &[
            "antares-abi",
            "antares-client",
            "antares-hosted",
            // The names of its passes.
            "antares-opt",
            "antares-profile",
            "antares-diagnosis",
            "antares-evidence",
            "antares-size",
            "antares-insights",
            "antares-profile-view",
            "antares-transaction",
            "antares-node",
            "antares-proto",
            "antares-pool",
            "antares-config",
            "antares-serve",
            "antares-tier",
            "antares-trust",
            // Run in a child that has locked itself in.
            "antares-verifier",
            "antares-runner-svc",
        ],
    ),
    (
        "antares-fuzz",
        &[
            "antares-abi",
            "antares-cli",
            "antares-hosted",
            // Constants of the lifted program are words of its dictionary.
            "antares-ir",
            "antares-lift",
            "antares-pool",
            "antares-program",
            "antares-transaction",
            "antares-verifier",
            "antares-vm",
        ],
    ),
    // It sees neither the compiler nor the machine: a solver proves what it changes.
    (
        "antares-optimise",
        &[
            "antares-abi",
            "antares-cli",
            "antares-insights",
            "antares-profile",
            "antares-profile-view",
            "antares-program",
        ],
    ),
    (
        "antares-debugger",
        &[
            "antares-abi",
            "antares-cli",
            "antares-hosted",
            "antares-pool",
            "antares-profile",
            "antares-profile-view",
            "antares-transaction",
            "antares-verifier",
            "antares-vm",
        ],
    ),
    ("xtask", &[]),
];

/// Members that check others and may depend on any of them.
const SEE_EVERYTHING: [&str; 6] = [
    "antares-chain",
    "antares-guests",
    "antares-tests",
    "antares-bench",
    "antares-peers",
    "antares-fuzz-targets",
];

/// Crates of others that only the named ones of ours may know.
const FENCED: [(&[&str], &[&str]); 8] = [
    (&["inkwell", "llvm-sys"], &["antares-codegen"]),
    (&["sled"], &["antares-cache"]),
    (&["object_store"], &["antares-tier"]),
    (&["seccompiler", "landlock"], &["antares-sandbox"]),
    (
        &["ckb-vm"],
        &[
            "antares-program",
            "antares-vm",
            "antares-zeroed",
            "antares-verifier",
            "antares-debugger",
            "antares",
        ],
    ),
    (
        &["ckb-script", "ckb-chain-spec"],
        // The bench has it as a peer.
        &[
            "antares-verifier",
            "antares-debugger",
            "antares",
            "antares-testtool",
            "embedding",
            "antares-bench",
        ],
    ),
    (
        &["tokio", "tonic"],
        &[
            "antares-proto",
            "antares-tls",
            "antares-client",
            "antares-node",
            "antares-race",
            "antares-tier",
            "antares-admin",
            "antares-serve",
            "antares-compiler-svc",
            "antares-runner-svc",
            "antares-cli",
        ],
    ),
    (
        &["anyhow"],
        &[
            "antares-cli",
            "antares-compile-worker",
            "antares-run-worker",
            "antares-compiler-svc",
            "antares-debugger",
            "antares-fuzz",
            "antares-optimise",
            "antares-runner-svc",
            "xtask",
        ],
    ),
];

/// The tables of a manifest that list dependencies. Tests may depend on anything of ours.
const DEPENDENCIES: [&str; 2] = ["dependencies", "build-dependencies"];

/// Checks every member's manifest.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let members =
        tree.ending("/Cargo.toml").filter_map(|(path, text)| Some((path, text.parse::<Table>().ok()?)));
    members.flat_map(|(path, manifest)| check_member(path, &manifest)).collect()
}

fn check_member(path: &str, manifest: &Table) -> Vec<Finding> {
    // The root of a workspace apart, which is no package.
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
    // A workspace of its own has no root to take versions from.
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

/// Whether `name` may depend on `dependency`.
fn check_arrow(path: &str, name: &str, dependency: &str) -> Option<Finding> {
    if SEE_EVERYTHING.contains(&name) {
        return None;
    }
    if dependency.starts_with("antares-") {
        let Some((_, allowed)) = OURS.iter().find(|(crate_name, _)| *crate_name == name) else {
            return Some(Finding::of_file(
                path,
                format!("{name} is not in the table of tools/xtask/src/manifests.rs"),
            ));
        };
        return (!allowed.contains(&dependency)).then(|| {
            Finding::of_file(path, format!("{name} must not depend on {dependency}; it may on {allowed:?}"))
        });
    }
    let (_, holders) = FENCED.iter().find(|(fenced, _)| fenced.contains(&dependency))?;
    (!holders.contains(&name)).then(|| {
        Finding::of_file(path, format!("{name} must not depend on {dependency}; only {holders:?} may"))
    })
}

/// Versions, paths and addresses of dependencies stand in the root's table alone.
fn check_versions(path: &str, manifest: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in ["dependencies", "build-dependencies", "dev-dependencies"] {
        for (name, value) in manifest.get(table).and_then(Value::as_table).into_iter().flatten() {
            // A crate that tests itself with a feature names itself by its own folder.
            let is_itself = value.get("path").and_then(Value::as_str) == Some(".");
            if !is_itself && value.get("workspace").and_then(Value::as_bool) != Some(true) {
                findings.push(Finding::of_file(
                    path,
                    format!("{name}: write {name}.workspace = true; versions stand in the root"),
                ));
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
        assert_eq!(findings("antares-cli", "[dependencies]\nantares-vm.workspace = true\n").len(), 1);
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
    fn the_table_of_arrows_has_no_cycle() {
        let mut seen: Vec<&str> = Vec::new();
        let mut left: Vec<_> = OURS.to_vec();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|(name, allowed)| {
                let ready = allowed.iter().all(|dependency| seen.contains(dependency));
                if ready {
                    seen.push(name);
                }
                !ready
            });
            assert!(left.len() < before, "a cycle among {left:?}");
        }
    }
}
