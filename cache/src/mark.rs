//! The mark of a store: random bytes before everything it writes, by which its frames are found in damaged
//! files.
//!
//! Nobody who can have bytes stored knows it: what looks like a frame inside of an upload is none.

use std::{fs, io, path::Path};

use crate::error::StoreError;

/// Two copies, so that one damaged file does not take away what is found by it.
const FILES: [&str; 2] = ["MARK-1", "MARK-2"];
const CRC_BYTES: usize = 4;

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 16;

/// Random bytes that only the store knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(pub(crate) [u8; MARK_BYTES]);

impl Mark {
    /// A new one.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; MARK_BYTES];
        let mut filled = 0;
        while filled < MARK_BYTES {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(bytes))
    }

    /// The mark of the store in `path`, kept in both copies; a new one for a new store.
    pub(crate) fn of_store(path: &Path, is_new: bool) -> Result<Self, StoreError> {
        let mark = match Self::read(path) {
            Some(mark) => mark,
            None if is_new => Self::random().map_err(StoreError::Io)?,
            None => return Err(StoreError::Damaged { detail: "it has no mark".to_owned() }),
        };
        mark.keep(path).map_err(StoreError::Io)?;
        Ok(mark)
    }

    /// The mark of the store in `path`, if one of its copies is whole.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        FILES.into_iter().find_map(|name| {
            let bytes = fs::read(path.join(name)).ok()?;
            let (mark, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
            let mark = <[u8; MARK_BYTES]>::try_from(mark).ok()?;
            (crc32fast::hash(&mark).to_le_bytes() == *crc).then_some(Self(mark))
        })
    }

    /// Writes those copies that are not there or not whole.
    pub(crate) fn keep(self, path: &Path) -> io::Result<()> {
        let bytes = [&self.0[..], &crc32fast::hash(&self.0).to_le_bytes()].concat();
        for name in FILES {
            let file = path.join(name);
            if !fs::read(&file).is_ok_and(|found| found == bytes) {
                fs::write(&file, &bytes)?;
                fs::File::open(&file)?.sync_all()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whole_copy_is_enough_and_makes_the_other() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Mark::read(dir.path()), None);
        let mark = Mark::random().expect("random bytes");
        for damaged in FILES {
            mark.keep(dir.path()).expect("written");
            fs::write(dir.path().join(damaged), [7; 20]).expect("written");
            assert_eq!(Mark::read(dir.path()), Some(mark), "{damaged}");
        }
        fs::write(dir.path().join(FILES[0]), [7; 20]).expect("written");
        assert_eq!(Mark::read(dir.path()), None);
    }
}
