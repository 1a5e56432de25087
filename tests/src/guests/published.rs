//! Sources and scripts inside published crates, found through cargo, which pins and verifies them by Cargo.lock.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A script as somebody published it.
#[derive(Clone, Debug)]
pub struct PublishedScript {
    /// `crate/file`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Crates that ship RISC-V ELF files, and the folders where.
const SCRIPT_FOLDERS: [(&str, &str); 3] = [
    ("ckb-script", "testdata"),
    ("ckb-system-scripts", "specs/cells"),
    ("ckb-always-success-script", "specs/cells"),
];

/// Folder of libsecp256k1 (C, MIT) inside the crate secp256k1-sys.
///
/// # Errors
///
/// Cargo does not find the crate.
pub fn secp256k1_sources() -> Result<PathBuf> {
    Ok(crate_folder("secp256k1-sys")?.join("depend/secp256k1"))
}

/// All RISC-V ELF files of the crates that ship some, sorted by name.
///
/// # Errors
///
/// Cargo does not find a crate, or a file cannot be read.
pub fn published_scripts() -> Result<Vec<PublishedScript>> {
    let mut scripts = Vec::new();
    for (name, inner) in SCRIPT_FOLDERS {
        let folder = crate_folder(name)?.join(inner);
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_file() && fs::read(&path)?.starts_with(b"\x7fELF") {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                scripts.push(PublishedScript { name: format!("{name}/{file}"), path });
            }
        }
    }
    scripts.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(scripts)
}

/// Folder of a crate that this crate names as an optional dependency.
fn crate_folder(name: &str) -> Result<PathBuf> {
    static METADATA: OnceLock<std::result::Result<Value, String>> = OnceLock::new();
    let metadata = METADATA.get_or_init(|| cargo_metadata().map_err(|error| format!("{error:#}")));
    let metadata = metadata.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    // Some of these exist in several versions in Cargo.lock: ours is the one that we name ourselves.
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let own = packages.iter().find(|package| package["name"] == env!("CARGO_PKG_NAME"));
    let wanted = own
        .and_then(|package| package["dependencies"].as_array())
        .and_then(|all| all.iter().find(|dependency| dependency["name"] == name))
        .and_then(|dependency| dependency["req"].as_str())
        .with_context(|| format!("{name} is no dependency of the tests"))?
        .trim_start_matches(['=', '^']);
    let package = packages.iter().find(|package| package["name"] == name && package["version"] == wanted);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("cargo does not know {name} {wanted}"))?;
    Ok(Path::new(manifest).parent().context("a manifest has a folder")?.to_owned())
}

/// Asks cargo where the crates are: offline when they are there, else it fetches them.
fn cargo_metadata() -> Result<Value> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut stderr = String::new();
    for offline in [true, false] {
        let mut command = Command::new(&cargo);
        command
            .args(["metadata", "--format-version=1", "--features=published", "--manifest-path"])
            .arg(&manifest);
        if offline {
            command.arg("--offline");
        }
        let output = command.output().context("cargo is not installed")?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout)?);
        }
        stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    bail!("cargo metadata failed:\n{stderr}")
}
