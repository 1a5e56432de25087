//! What can be run among files: scripts with their arguments, and transactions.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use anyhow::anyhow;

use crate::{
    args::{CredentialArgs, TargetArgs},
    failure::Failure,
    input,
    limits::SNAPSHOT_ENTRIES_MAX,
};

/// How everything is run.
pub(crate) struct Terms<'a> {
    pub max_cycles: Option<u64>,
    pub deadline_ms: Option<u64>,
    /// Arguments of scripts that have no file with theirs.
    pub args: &'a [OsString],
}

/// What cargo and others mark the folders of what they build with.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// The files in a folder and below; what is hidden is left out, and so are folders that can be built again,
/// and links, which may lead in circles.
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
        if entry.file_name().to_string_lossy().starts_with('.') {
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

/// Nothing to be run yet, on these terms.
pub(crate) fn bare(terms: &Terms<'_>) -> TargetArgs {
    TargetArgs {
        elf: None,
        tx: None,
        server: None,
        credentials: CredentialArgs::default(),
        window_ms: None,
        vm_version: 2,
        isa: None,
        max_cycles: terms.max_cycles,
        deadline_ms: terms.deadline_ms,
        args: Vec::new(),
    }
}

/// What is to be run of a file; nothing if it is neither a script nor a transaction.
pub(crate) fn target(path: &Path, terms: &Terms<'_>) -> Result<Option<TargetArgs>, Failure> {
    let target = bare(terms);
    if path.extension().is_some_and(|end| end == "json") {
        let bytes = input::read(path, TRANSACTION_BYTES_MAX as u64)?;
        let is_transaction = bytes.windows(11).any(|part| part == b"\"mock_info\"");
        return Ok(is_transaction.then(|| TargetArgs { tx: Some(path.to_owned()), ..target }));
    }
    let mut head = [0; 20];
    let read = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    // Programs of this machine are no scripts.
    if read.is_err() || !head.starts_with(b"\x7fELF") || input::other_machine(&head).is_some() {
        return Ok(None);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".args");
    let given = fs::read_to_string(PathBuf::from(beside));
    let given = given.map(|given| given.lines().map(OsString::from).collect());
    let args = given.unwrap_or_else(|_| terms.args.to_vec());
    Ok(Some(TargetArgs { elf: Some(path.to_owned()), args, ..target }))
}
