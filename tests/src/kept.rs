//! A cache of libraries across test runs: the corpus is recompiled only after a change of the compiler.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use antares_abi::{CodeTier, CompileOptions, Sha256Digest};
use antares_compiler::{CompileError, CompileLimits, Request, Stage};
use antares_vm::Library;
use anyhow::{Context, Result, anyhow};

use crate::{crates::target_folder, native};

/// The crate whose sources and local dependencies determine the bytes of a library. The version numbers in an
/// artifact key change with releases, not with every edit.
const COMPILER: &str = "compiler";

/// The library of `elf`, from the cache if the compiler is unchanged; the inner error is the reason of a
/// refusal.
///
/// # Errors
/// The compiler failed, its library cannot be loaded, or the target folder cannot be used.
pub fn library(elf: &[u8], options: CompileOptions) -> Result<Result<Library, String>> {
    match bytes(elf, options)? {
        Ok(bytes) => Ok(Ok(native::load(&bytes)?)),
        Err(reason) => Ok(Err(reason)),
    }
}

/// As [`library`], but returns the library's bytes.
///
/// # Errors
/// As [`library`].
pub fn bytes(elf: &[u8], options: CompileOptions) -> Result<Result<Vec<u8>, String>> {
    let key = Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full);
    let folder = folder()?;
    let (kept, refused) = (folder.join(format!("{key}.so")), folder.join(format!("{key}.refused")));
    if let Ok(bytes) = fs::read(&kept) {
        return Ok(Ok(bytes));
    }
    if let Ok(reason) = fs::read_to_string(&refused) {
        return Ok(Err(reason));
    }
    let request = Request {
        options,
        stage: Stage::Library,
        hints: antares_abi::Hints::default(),
        limits: CompileLimits::default(),
    };
    match antares_compiler::compile(elf, &request) {
        Ok(output) => {
            keep(&folder, &kept, &output.bytes)?;
            Ok(Ok(output.bytes))
        }
        Err(CompileError::Refused { reason, .. }) => {
            keep(&folder, &refused, reason.as_bytes())?;
            Ok(Err(reason.to_owned()))
        }
        Err(CompileError::Failed { detail }) => Err(anyhow!("the compiler failed: {detail}")),
    }
}

/// The cache folder of the current compiler; libraries are named by their artifact keys.
///
/// # Errors
/// The compiler's sources cannot be read.
pub fn folder() -> Result<PathBuf> {
    Ok(target_folder().join("libraries").join(compiler()?.to_string()))
}

/// Writes atomically, because tests run in parallel.
fn keep(folder: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut file, bytes)?;
    file.persist(path).with_context(|| format!("writing {}", path.display()))?;
    Ok(())
}

fn compiler() -> Result<Sha256Digest> {
    static DIGEST: OnceLock<Result<Sha256Digest, String>> = OnceLock::new();
    let read = || -> Result<Sha256Digest> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/engine");
        let mut files = Vec::new();
        for name in with_dependencies(&crates, COMPILER)? {
            collect(&crates.join(name), &mut files)?;
        }
        files.sort();
        let mut all = Vec::new();
        for path in files {
            all.extend(fs::read(path)?);
        }
        Ok(Sha256Digest::of(&all))
    };
    let digest = DIGEST.get_or_init(|| read().map_err(|error| format!("{error:#}")));
    digest.clone().map_err(|error| anyhow!("reading the compiler's sources: {error}"))
}

/// The folders of the crate `name` and of its transitive dependencies in this repository.
fn with_dependencies(crates: &Path, name: &str) -> Result<BTreeSet<String>> {
    let (mut found, mut work) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = work.pop() {
        let manifest = fs::read_to_string(crates.join(&name).join("Cargo.toml"))?;
        let lines = manifest.lines().take_while(|line| *line != "[dev-dependencies]");
        let ours = lines.filter_map(|line| line.strip_prefix("antares-")?.split_once('.'));
        if found.insert(name) {
            work.extend(ours.map(|(name, _)| name.to_owned()));
        }
    }
    Ok(found)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_compiler_counts() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/engine");
        let found = with_dependencies(&crates, COMPILER).unwrap();
        let all = ["abi", "baseline", "codegen", "compiler", "ir", "lift", "opt", "program", "proof"];
        assert!(all.iter().all(|name| found.contains(*name)), "{found:?}");
    }
}
