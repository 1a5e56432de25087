//! A cache of libraries across test runs: the corpus is recompiled only after a change of the compiler.

use std::{collections::BTreeSet, fs, path::Path, sync::OnceLock};

use antares_abi::{CodeTier, CompileOptions, Sha256Digest};
use antares_compiler::Stage;
use antares_vm::Library;
use anyhow::{Context, Result, anyhow};

use crate::{
    crates::{files_below, target_folder},
    native,
};

/// The crate whose sources and local dependencies determine the bytes of a library. The version numbers in an
/// artifact key change with releases, not with every edit.
const COMPILER: &str = "compiler";

/// The library of `elf`, from the cache if the compiler is unchanged; the inner error is the reason of a
/// refusal.
///
/// # Errors
/// The compiler failed, its library cannot be loaded, or the target folder cannot be used.
pub fn library(elf: &[u8], options: CompileOptions) -> Result<Result<Library, String>> {
    let key = Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full);
    // Of the current compiler.
    let folder = target_folder().join("libraries").join(compiler()?.to_string());
    let (kept, refused) = (folder.join(format!("{key}.so")), folder.join(format!("{key}.refused")));
    if let Ok(bytes) = fs::read(&kept) {
        return native::load(&bytes).map(Ok);
    }
    if let Ok(reason) = fs::read_to_string(&refused) {
        return Ok(Err(reason));
    }
    match antares_compiler::compile(elf, &native::request(options, Stage::Library)) {
        Ok(output) => {
            keep(&folder, &kept, &output.bytes)?;
            native::load(&output.bytes).map(Ok)
        }
        Err(error) => {
            let reason = native::refusal(error)?;
            keep(&folder, &refused, reason.as_bytes())?;
            Ok(Err(reason))
        }
    }
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
        let mut all = Vec::new();
        for name in with_dependencies(&crates, COMPILER)? {
            for path in files_below(&crates.join(name))? {
                all.extend(fs::read(path)?);
            }
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
