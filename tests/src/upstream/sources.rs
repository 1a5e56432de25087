//! The suite's build folder: published sources, stubs, a workspace manifest, a lock file.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Machine, ours::PATCHES, patch::Patch};
use crate::crates;

/// Files to write: path relative to the build folder, and contents.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Stubs for ckb's database: crate, version in upstream's lock file, dependencies, source.
const STAND_INS: [(&str, &str, &str, &str); 3] = [
    ("ckb-db", "1.1.1", "", include_str!("../../upstream/ckb-db.rs")),
    ("ckb-db-schema", "1.1.1", "", include_str!("../../upstream/ckb-db-schema.rs")),
    (
        "ckb-store",
        "1.1.2",
        "ckb-db = \"1\"\nckb-traits = \"1\"\nckb-types = \"1\"\n",
        include_str!("../../upstream/ckb-store.rs"),
    ),
];

/// `test-chain-utils` without the parts that need a database.
const CHAIN_UTILS_ROOT: &str = "mod chain;\npub use chain::*;\n";
const CHAIN_UTILS_MANIFEST: &str =
    "[package]\nname = \"ckb-test-chain-utils\"\nversion = \"1.1.1\"\nedition = \"2024\"\n
[dependencies]\nckb-chain-spec = \"1\"\nckb-dao-utils = \"1\"\nckb-resource = \"1\"\nckb-types = \"1\"\n";

/// Our profile, so that shared crates are built once.
const PROFILE: &str = "[profile.dev]\nopt-level = 1\ndebug = \"line-tables-only\"\n
[profile.dev.package.\"*\"]\nopt-level = 1\ndebug = false\n";

pub(super) fn write(folder: &Path, machine: Machine) -> Result<()> {
    let mut files = Files::new();
    copy(&crates::of_workspace("ckb-script")?, Path::new("script"), &mut files)?;
    files.remove(Path::new("script/Cargo.lock"));
    let utils = crates::apart("ckb-test-chain-utils")?;
    copy(&utils.join("vendor"), Path::new("util/test-chain-utils/vendor"), &mut files)?;
    files.insert("util/test-chain-utils/src/chain.rs".into(), read(&utils.join("src/chain.rs"))?);
    files.insert("util/test-chain-utils/src/lib.rs".into(), CHAIN_UTILS_ROOT.into());
    files.insert("util/test-chain-utils/Cargo.toml".into(), CHAIN_UTILS_MANIFEST.into());
    for (name, version, dependencies, source) in STAND_INS {
        let at = Path::new("stand-ins").join(name);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n
[lib]\npath = \"lib.rs\"\n\n[dependencies]\n{dependencies}"
        );
        files.insert(at.join("Cargo.toml"), manifest.into());
        files.insert(at.join("lib.rs"), source.into());
    }
    files.insert("Cargo.toml".into(), workspace(machine).into());
    if machine != Machine::Stock {
        files.insert("hook/Cargo.toml".into(), hook_manifest()?.into());
        files.insert("hook/lib.rs".into(), include_str!("../../upstream/hook.rs").into());
    }
    for patch in patches(machine) {
        let text = files.get_mut(Path::new(patch.file)).with_context(|| format!("no {}", patch.file))?;
        *text = patch.apply(std::str::from_utf8(text)?)?.into();
    }
    for (path, bytes) in files {
        write_if_new(&folder.join(path), &bytes)?;
    }
    // Cargo may extend the lock file: keep its copy as long as ours does not change.
    let lock = lock_file();
    if write_if_new(&folder.join("Cargo.lock.base"), &lock)? {
        fs::write(folder.join("Cargo.lock"), &lock)?;
    }
    Ok(())
}

fn patches(machine: Machine) -> Vec<Patch> {
    match machine {
        Machine::Stock => Vec::new(),
        Machine::Ours(_) => PATCHES.to_vec(),
    }
}

/// The hook references our crates by their paths in this checkout.
fn hook_manifest() -> Result<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").canonicalize()?;
    let ours = ["engine/abi", "engine/compiler", "runtime/vm"].map(|place| {
        let name = place.rsplit('/').next().unwrap_or(place);
        format!("antares-{name} = {{ path = \"{}\" }}\n", crates.join(place).display())
    });
    Ok(format!(
        "[package]\nname = \"antares-upstream-hook\"\nversion = \"0.1.0\"\nedition = \"2024\"\n
[lib]\npath = \"lib.rs\"\n\n[dependencies]\nbytes = \"1\"\n{}",
        ours.concat()
    ))
}

/// The versions that the suite is built with.
fn lock_file() -> Vec<u8> {
    include_bytes!("../../upstream/Cargo.lock").to_vec()
}

fn workspace(machine: Machine) -> String {
    let stand_ins =
        STAND_INS.map(|(name, ..)| format!("{name} = {{ path = \"stand-ins/{name}\" }}\n")).concat();
    let hook = if machine == Machine::Stock { "" } else { ", \"hook\"" };
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"script\", \"util/test-chain-utils\", \"stand-ins/*\"{hook}]\n
[patch.crates-io]\nckb-test-chain-utils = {{ path = \"util/test-chain-utils\" }}\n{stand_ins}\n{PROFILE}"
    )
}

fn copy(from: &Path, to: &Path, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        let name = to.join(path.file_name().context("an entry has a name")?);
        if path.is_dir() {
            copy(&path, &name, files)?;
        } else {
            files.insert(name, read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes the file if it is missing or different; returns whether it did.
fn write_if_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(true)
}
