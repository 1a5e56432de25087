//! Finds files to run: scripts with their arguments, and transactions.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    num::NonZero,
    os::unix::ffi::OsStrExt as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use anyhow::anyhow;
use parking_lot::Mutex;

use crate::{
    args::{LimitArgs, TargetArgs},
    failure::Failure,
    input,
    limits::SNAPSHOT_ENTRIES_MAX,
};

/// File by which cargo and others mark build folders.
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Folders of npm's packages, and of cargo's builds without that mark.
const BUILT_AGAIN: [&str; 2] = ["node_modules", "target"];

/// The files in a folder, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    collect(folder, &mut found)?;
    found.sort();
    Ok(found)
}

/// Collects files in a folder, recursively. Skips hidden files, folders of build results, and links, which
/// may form cycles.
pub(crate) fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if folder.join(CACHE_TAG).exists() {
        return Ok(());
    }
    let unreadable = |error: std::io::Error| {
        Failure::Usage(anyhow::Error::from(error).context(format!("cannot read {}", folder.display())))
    };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') || BUILT_AGAIN.iter().any(|built| name == *built) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
        if found.len() > SNAPSHOT_ENTRIES_MAX {
            let text = format!("{} has more than {SNAPSHOT_ENTRIES_MAX} files", folder.display());
            return Err(Failure::Usage(anyhow!(text)));
        }
    }
    Ok(())
}

/// The files of `folder` that git tracks or would track; none outside a work tree or in an ignored folder.
pub(crate) fn tracked(folder: &Path) -> Option<BTreeSet<PathBuf>> {
    // The repository could set the monitor to any program.
    let words =
        ["-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").arg("-C").arg(folder).args(words).stdin(Stdio::null()).output();
    let listed = listed.ok().filter(|listed| listed.status.success())?.stdout;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths: BTreeSet<PathBuf> = names.map(|name| folder.join(OsStr::from_bytes(name))).collect();
    (!paths.is_empty()).then_some(paths)
}

/// Results of `run` for each path, in their order, on all processors. A single one runs on this thread, so that
/// it may fork.
pub(crate) fn in_parallel<T: Send>(
    paths: &[PathBuf],
    run: impl Fn(&PathBuf) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    if let [path] = paths {
        return Ok(vec![run(path)?]);
    }
    let rest = Mutex::new(paths.iter().enumerate());
    let next = || rest.lock().next();
    let some = || -> Result<Vec<(usize, T)>, Failure> {
        std::iter::from_fn(next).map(|(index, path)| Ok((index, run(path)?))).collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(paths.len());
    let results: Result<Vec<_>, Failure> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut results: Vec<(usize, T)> = results?.into_iter().flatten().collect();
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Whether a file is a transaction in JSON, or one described in TOML.
pub(crate) fn is_transaction(path: &Path) -> Result<bool, Failure> {
    let mark: &[u8] = match path.extension().and_then(|end| end.to_str()) {
        Some("json") => b"\"mock_info\"",
        Some("toml") => b"[[inputs]]",
        _ => return Ok(false),
    };
    let bytes = input::read(path, TRANSACTION_BYTES_MAX as u64)?;
    Ok(bytes.windows(mark.len()).any(|part| part == mark))
}

/// The target in a file; none if it is neither a script nor a transaction. `args` are those of scripts
/// without an arguments file.
pub(crate) fn target(
    path: &Path,
    limits: LimitArgs,
    args: &[OsString],
) -> Result<Option<TargetArgs>, Failure> {
    let target = TargetArgs { limits, ..TargetArgs::default() };
    if is_transaction(path)? {
        return Ok(Some(TargetArgs { tx: Some(path.to_owned()), ..target }));
    }
    let mut head = [0; 20];
    let read = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    // Programs for this machine are not scripts.
    if read.is_err() || !head.starts_with(b"\x7fELF") || input::other_machine(&head).is_some() {
        return Ok(None);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".args");
    let given = fs::read_to_string(PathBuf::from(beside));
    let given = given.map(|given| given.lines().map(OsString::from).collect());
    let args = given.unwrap_or_else(|_| args.to_vec());
    Ok(Some(TargetArgs { elf: Some(path.to_owned()), args, ..target }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_a_panic_is_not_lost() {
        let paths = ["a", "b", "c", "d"].map(PathBuf::from);
        let named = |path: &PathBuf| Ok(path.display().to_string());
        assert_eq!(in_parallel(&paths, named).unwrap(), ["a", "b", "c", "d"]);
        let panics = |path: &PathBuf| -> Result<(), Failure> {
            assert!(*path != paths[1], "a panic in a thread");
            Ok(())
        };
        let run = std::panic::AssertUnwindSafe(|| in_parallel(&paths, panics));
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
