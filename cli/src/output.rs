//! Writes results: to standard output, or to a file that appears whole or not at all.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

pub use antares_profile_view::printable;
use anyhow::{Context, anyhow};

use crate::{failure::Failure, input::is_stdio};

pub(crate) mod color;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod report;
#[cfg(feature = "server")]
pub(crate) mod server_json;
pub(crate) mod source_maps;
pub mod verdict;

/// Writes to standard output. A reader that has gone away (`| head`) is no failure.
pub fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Usage(anyhow::Error::from(error).context("cannot write standard output")))
        }
        _ => Ok(()),
    }
}

/// Writes binary data to standard output, but never to a terminal.
pub fn print_binary(bytes: &[u8]) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::Usage(anyhow!("this is binary: send it to a file with -o FILE")));
    }
    print(bytes)
}

/// Writes `bytes` to `path`, `-` for standard output. A file is complete or untouched.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if is_stdio(path) {
        return print_binary(bytes);
    }
    write_file(path, bytes)
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::Usage)
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // A device or a pipe can be written to, not replaced.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Ok(std::fs::write(path, bytes)?);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new().permissions(file_permissions()).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// What any new file gets: all may read it, less what the umask takes away.
fn file_permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.so");
        write(&path, b"one, longer").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("no/such/folder"), b"").is_err());
    }
}
