//! Scripts in npm packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::Sha256Digest;
use anyhow::{Context, Result, ensure};

use super::{build::kept_folder, crates::run};

/// The package that ships ckb-js-vm, QuickJS as a script.
const PACKAGE: &str = "ckb-testtool@1.0.5";

const JS_VM: &str = "package/src/unittest/defaultScript/ckb-js-vm";

/// SHA-256 of the script, because npm is not trusted.
const JS_VM_DIGEST: &str = "721318de24bff4d8b26d20d4d05a9b8e79c04dadfb29da3fd0863e2b9f0da8c4";

/// The published, stripped ckb-js-vm, fetched on first use. `None` if npm fails; prints the reason.
///
/// # Errors
/// The package has another file.
pub fn js_vm() -> Result<Option<Vec<u8>>> {
    let kept = kept_folder().join(JS_VM_DIGEST).join("ckb-js-vm");
    if !kept.exists() {
        let folder = tempfile::tempdir()?;
        match packed(folder.path()) {
            Ok(archive) => unpack(&archive, &kept)?,
            Err(error) => {
                eprintln!("without ckb-js-vm, which cannot be fetched: {error:#}");
                return Ok(None);
            }
        }
    }
    checked(fs::read(&kept)?).map(Some)
}

fn checked(elf: Vec<u8>) -> Result<Vec<u8>> {
    let found = Sha256Digest::of(&elf).to_string();
    ensure!(found == JS_VM_DIGEST, "ckb-js-vm of {PACKAGE} has the digest {found}");
    Ok(elf)
}

fn packed(folder: &Path) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    npm.args(["pack", PACKAGE, "--silent", "--pack-destination", "."]).current_dir(folder);
    Ok(folder.join(String::from_utf8(run(&mut npm)?)?.trim()))
}

fn unpack(archive: &Path, kept: &Path) -> Result<()> {
    let output = run(Command::new("tar").arg("-xzOf").arg(archive).arg(JS_VM))?;
    let place = kept.parent().context("a kept guest has a folder")?;
    fs::create_dir_all(place)?;
    let fresh = tempfile::NamedTempFile::new_in(place)?.into_temp_path();
    fs::write(&fresh, checked(output)?)?;
    fresh.persist(kept)?;
    Ok(())
}
