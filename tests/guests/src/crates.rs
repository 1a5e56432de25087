//! Folders of published crates: cargo fetches them and verifies them by a lock file.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

/// A manifest and its resolution.
struct Manifest {
    /// Path relative to this crate.
    path: &'static str,
    arguments: &'static [&'static str],
    /// Package that depends on the crates.
    package: &'static str,
    metadata: OnceLock<std::result::Result<Value, String>>,
}

static WORKSPACE: Manifest = Manifest {
    path: "Cargo.toml",
    arguments: &["--all-features"],
    package: env!("CARGO_PKG_NAME"),
    metadata: OnceLock::new(),
};

/// Crates that conflict with the workspace's lock file.
static APART: Manifest = Manifest {
    path: "../published/Cargo.toml",
    arguments: &["--locked"],
    package: "antares-published",
    metadata: OnceLock::new(),
};

/// Folder of a dependency of this crate, which may be optional.
///
/// # Errors
/// Cargo does not find the crate.
pub fn of_workspace(name: &str) -> Result<PathBuf> {
    WORKSPACE.folder(name)
}

/// Folder of a dependency of `tests/published`.
///
/// # Errors
/// Cargo does not find the crate.
pub fn apart(name: &str) -> Result<PathBuf> {
    APART.folder(name)
}

/// Cargo's target folder, which also holds build results of these tests.
#[must_use]
pub fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from)
}

/// Runs a program; returns its output.
///
/// # Errors
/// It is not installed, or fails.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = command.output();
    let output = output.with_context(|| format!("{program} is not installed; run the set-up script"))?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// The files in `folder` and below, sorted.
///
/// # Errors
/// A folder cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    files.sort();
    Ok(files)
}

/// The cargo that runs this process, or the one on the path.
#[must_use]
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Manifest {
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let metadata = self.metadata.get_or_init(|| self.request().map_err(|error| format!("{error:#}")));
        let metadata = metadata.as_ref().map_err(|error| anyhow!("{error}"))?;
        // A lock file may have several versions of a crate: take the one in the manifest.
        let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
        let own = packages.iter().find(|package| package["name"] == self.package);
        // The manifest renames one of several versions of a crate.
        let is_named =
            |dependency: &&Value| dependency["rename"].as_str().or(dependency["name"].as_str()) == Some(name);
        let dependency = own
            .and_then(|package| package["dependencies"].as_array())
            .and_then(|all| all.iter().find(is_named))
            .with_context(|| format!("{name} is no dependency of {}", self.package))?;
        let wanted = dependency["req"].as_str().unwrap_or_default().trim_start_matches(['=', '^']);
        // Build metadata after a plus sign is not compared.
        let is_wanted = |package: &&Value| {
            let version = package["version"].as_str().unwrap_or_default();
            package["name"] == dependency["name"] && version.split('+').next() == Some(wanted)
        };
        let package = packages.iter().find(is_wanted);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let manifest = manifest.with_context(|| format!("cargo does not know {name} {wanted}"))?;
        Ok(Path::new(manifest).parent().context("a manifest has a folder")?.to_owned())
    }

    /// Queries cargo for the folders: offline if possible; otherwise cargo fetches the crates.
    fn request(&self) -> Result<Value> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.path);
        let ask = |network: &[&str]| {
            let mut command = cargo();
            command.args(["metadata", "--format-version=1"]).args(self.arguments).args(network);
            run(command.arg("--manifest-path").arg(&manifest))
        };
        Ok(serde_json::from_slice(&ask(&["--offline"]).or_else(|_| ask(&[]))?)?)
    }
}
