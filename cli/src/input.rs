//! Reads a script or a transaction from a file or from standard input, never more than it may have.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, anyhow};

use crate::{failure::Failure, limits::SCRIPT_BYTES_MAX};

/// Whether `path` means standard input (or output).
pub(crate) fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The bytes of the script at `path`, `-` for standard input.
pub(crate) fn read_script(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path, SCRIPT_BYTES_MAX)
}

/// At most `bytes_max` bytes at `path`, `-` for standard input.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let read = if is_stdio(path) {
        read_bounded(io::stdin().lock(), bytes_max).context("cannot read standard input")
    } else {
        File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(|file| read_bounded(file, bytes_max))
            .with_context(|| format!("cannot read {}", path.display()))
    };
    read.map_err(Failure::Usage)
}

/// Everything that `reader` gives, unless that is more than `bytes_max`.
fn read_bounded(reader: impl Read, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells "exactly the limit" from "beyond it".
    reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(anyhow!("longer than {bytes_max} bytes, the longest that is accepted"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_limit_and_not_beyond() {
        assert_eq!(read_bounded(&[7; 16][..], 16).unwrap(), vec![7; 16]);
        assert!(read_bounded(&[7; 17][..], 16).unwrap_err().to_string().contains("longer than 16 bytes"));
        assert!(read_bounded(io::repeat(0), 16).is_err());
    }
}
