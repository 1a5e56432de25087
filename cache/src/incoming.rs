//! Bytes on their way in: on the volume of the store and not in memory, in a file without a name that ends
//! with its handle. So nothing of them is there after the process, however it ends.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

use sha2::{Digest as _, Sha256};

use crate::{cache::Cache, error::CacheError};

/// Bytes that come in pieces, hashed as they come.
#[derive(Debug)]
pub struct Incoming {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Cache {
    /// A place for bytes that are to be stored once all of them are there.
    ///
    /// # Errors
    /// [`CacheError::Io`] if no file can be made in the directory.
    pub fn incoming(&self) -> Result<Incoming, CacheError> {
        let dir = &self.inner.config.dir;
        let file = tempfile::tempfile_in(dir).map_err(CacheError::io("make a file in", dir))?;
        Ok(Incoming { file, hash: Sha256::new(), bytes: 0 })
    }

    /// Whether `bytes` more leave the volume what it must have free. A file system that does not answer has
    /// room.
    #[must_use]
    pub fn has_free(&self, bytes: u64) -> bool {
        self.inner.free_bytes() >= self.inner.config.free_bytes_min.saturating_add(bytes)
    }
}

impl Incoming {
    /// Adds `piece` behind what is there.
    ///
    /// # Errors
    /// What the file system says. What was written of the piece does not count.
    pub fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(piece)?;
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// How many there are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 of what is there.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    /// The first `most` of them, or all.
    ///
    /// # Errors
    /// What the file system says, or [`io::ErrorKind::UnexpectedEof`] where it has lost some.
    pub fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let wanted = self.bytes.min(most);
        let length = usize::try_from(wanted).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::with_capacity(length);
        let read = (&mut self.file).take(wanted).read_to_end(&mut bytes)?;
        if read == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
