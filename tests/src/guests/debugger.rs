//! The example transactions of ckb-debugger, found through cargo like the published scripts.
//!
//! The crate pins another ckb-vm than ours and cannot be in the same Cargo.lock, so it has a manifest and a lock of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::build::target_folder;

/// A package that exists to name the crate whose sources are wanted. It is never built.
const MANIFEST: &str = r#"[package]
name = "ckb-debugger-source"
version = "0.1.0"
edition = "2021"

[lib]
path = "nothing.rs"

[dependencies]
ckb-debugger = "=1.1.1"

[workspace]
"#;

/// Versions and digests of the crate and of all that it depends on.
const LOCK: &str = include_str!("../../guests/ckb-debugger.lock");

/// Folder of ckb-debugger's examples.
///
/// # Errors
///
/// Cargo cannot find or fetch the crate.
pub fn debugger_examples() -> Result<PathBuf> {
    static FOLDER: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| find().map_err(|error| format!("{error:#}")));
    folder.clone().map_err(|error| anyhow::anyhow!("looking for ckb-debugger: {error}"))
}

fn find() -> Result<PathBuf> {
    let parent = target_folder();
    fs::create_dir_all(&parent)?;
    // In a folder of its own: tests run at the same time.
    let folder = tempfile::tempdir_in(parent)?;
    fs::write(folder.path().join("Cargo.toml"), MANIFEST)?;
    fs::write(folder.path().join("Cargo.lock"), LOCK)?;
    fs::write(folder.path().join("nothing.rs"), "")?;
    let metadata = metadata(folder.path())?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let package = packages.iter().find(|package| package["name"] == "ckb-debugger");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.context("cargo does not know the crate")?);
    Ok(manifest.parent().context("a manifest has a folder")?.join("examples"))
}

/// Asks cargo where the crates are: offline when they are there, else it fetches them.
fn metadata(folder: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut stderr = String::new();
    for mode in ["--frozen", "--locked"] {
        let output = Command::new(&cargo)
            .args(["metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu", mode])
            .current_dir(folder)
            .output()
            .context("cargo is not installed")?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout)?);
        }
        stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    bail!("cargo metadata failed:\n{stderr}")
}
