//! Sources and scripts in published crates.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::crates;

/// A published script.
#[derive(Clone, Debug)]
pub struct PublishedScript {
    /// `crate/file`.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
}

type Finder = fn(&str) -> Result<PathBuf>;

/// Crates that ship RISC-V ELF files, their names here, and the folders of the files.
const SCRIPT_FOLDERS: [(&str, Finder, &str, &str); 8] = [
    ("ckb-script", crates::of_workspace, "ckb-script", "testdata"),
    ("ckb-system-scripts", crates::of_workspace, "ckb-system-scripts", "specs/cells"),
    ("ckb-system-scripts", crates::apart, "ckb-system-scripts-0.5", "specs/cells"),
    ("ckb-always-success-script", crates::of_workspace, "ckb-always-success-script", "specs/cells"),
    ("ckb-test-chain-utils", crates::apart, "ckb-test-chain-utils", "vendor"),
    ("ckb-vm-pprof", crates::apart, "ckb-vm-pprof", "res"),
    ("ckb-debugger", crates::apart, "ckb-debugger", "examples"),
    // Locks in use: omnilock, cheque, anyone-can-pay.
    ("ckb-sdk", crates::apart, "ckb-sdk", "src/test-data"),
];

/// Folder of ckb-debugger's examples: scripts and mock transactions.
///
/// # Errors
/// Cargo does not find the crate.
pub fn debugger_examples() -> Result<PathBuf> {
    Ok(crates::apart("ckb-debugger")?.join("examples"))
}

/// The file at `path` of a dependency of `tests/published`.
///
/// # Errors
/// Cargo does not find the crate, or the file does not exist.
pub fn published_file(crate_name: &str, path: &str) -> Result<Vec<u8>> {
    let path = crates::apart(crate_name)?.join(path);
    fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// All RISC-V ELF files of these crates, sorted by name.
///
/// # Errors
/// Cargo does not find a crate, or a file cannot be read.
pub fn published_scripts() -> Result<Vec<PublishedScript>> {
    let mut scripts = Vec::new();
    for (crate_name, find, shown, inner) in SCRIPT_FOLDERS {
        let folder = find(crate_name)?.join(inner);
        for path in crates::files_below(&folder)? {
            if fs::read(&path)?.starts_with(b"\x7fELF") {
                let name = format!("{shown}/{}", path.strip_prefix(&folder)?.display());
                scripts.push(PublishedScript { name, path });
            }
        }
    }
    scripts.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(scripts)
}
