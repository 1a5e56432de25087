//! A profile and its programs in one file.

use std::io::{Read, Write};

use antares_profile::{Profile, ProfileError};
use flate2::{Compression, GzBuilder, read::GzDecoder};

use crate::{
    Programs,
    limits::{ARCHIVE_BYTES_MAX, ARCHIVE_PARTS_MAX},
};

/// Magic of every archive; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"antarch\x01";

/// Why bytes are not an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The magic is wrong.
    #[error("this is not a profile of Antares: it does not begin with its magic")]
    Magic,
    /// The content is damaged or truncated behind these bytes.
    #[error("the file is damaged behind byte {0}")]
    Damaged(usize),
    /// The decompressed content exceeds the limit.
    #[error("the file holds more than {ARCHIVE_BYTES_MAX} bytes")]
    Bytes,
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Encodes a profile and the ELFs of its programs, as far as `programs` has them. Equal inputs have equal
/// bytes.
///
/// # Errors
/// The profile is too large.
pub fn write_archive(profile: &Profile, programs: &Programs) -> Result<Vec<u8>, ProfileError> {
    let mut parts = vec![profile.encode()?];
    let digests = profile.programs().iter().filter_map(|program| program.elf);
    let mut digests: Vec<_> = digests.collect();
    digests.sort();
    digests.dedup();
    parts.extend(digests.iter().filter_map(|digest| programs.elf(digest)).map(<[u8]>::to_vec));
    let mut gzip = GzBuilder::new().write(MAGIC.to_vec(), Compression::default());
    for part in parts {
        // Writing to memory does not fail.
        let _ = gzip.write_all(&(part.len() as u64).to_le_bytes());
        let _ = gzip.write_all(&part);
    }
    Ok(gzip.finish().unwrap_or_default())
}

/// Reads the result of [`write_archive`].
///
/// # Errors
/// The first problem.
pub fn read_archive(bytes: &[u8]) -> Result<(Profile, Programs), ArchiveError> {
    let content = bytes.strip_prefix(MAGIC).ok_or(ArchiveError::Magic)?;
    let mut text = Vec::new();
    let mut reader = GzDecoder::new(content).take(ARCHIVE_BYTES_MAX as u64 + 1);
    let whole = reader.read_to_end(&mut text);
    if text.len() > ARCHIVE_BYTES_MAX {
        return Err(ArchiveError::Bytes);
    }
    whole.map_err(|_| ArchiveError::Damaged(text.len()))?;
    let (mut rest, mut parts) = (text.as_slice(), Vec::new());
    while !rest.is_empty() {
        let damaged = ArchiveError::Damaged(text.len() - rest.len());
        let Some((length, behind)) = rest.split_first_chunk::<8>() else { return Err(damaged) };
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > behind.len() || parts.len() >= ARCHIVE_PARTS_MAX {
            return Err(damaged);
        }
        parts.push(&behind[..length]);
        rest = &behind[length..];
    }
    let (first, elfs) = parts.split_first().ok_or(ArchiveError::Damaged(0))?;
    let profile = Profile::decode(first)?;
    let mut programs = Programs::default();
    for elf in elfs {
        programs.add(elf);
    }
    Ok((profile, programs))
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;
    use antares_profile::{Frame, ProfiledProgram, Value};

    use super::*;

    #[test]
    fn archives_come_back_and_damage_is_found() {
        let mut profile = Profile::default();
        let elf = Some(Sha256Digest::of(b"an ELF"));
        let program = profile.program(&ProfiledProgram { elf, vm_version: 2, isa: 3 }).unwrap();
        profile.add(&[Frame::Code { program, pc: 8 }], Value::cycles(5));
        let mut programs = Programs::default();
        programs.add(b"an ELF");
        programs.add(b"another, which nothing ran");
        let bytes = write_archive(&profile, &programs).unwrap();
        let (back, elfs) = read_archive(&bytes).unwrap();
        assert_eq!(back, profile);
        assert_eq!(elfs.elf(&Sha256Digest::of(b"an ELF")), Some(b"an ELF".as_slice()));
        assert_eq!(elfs.elf(&Sha256Digest::of(b"another, which nothing ran")), None);
        assert_eq!(read_archive(b"\x7fELF").unwrap_err(), ArchiveError::Magic);
        let cut = &bytes[..bytes.len() - 9];
        assert!(matches!(read_archive(cut), Err(ArchiveError::Damaged(_))));
    }
}
