//! Incoming bytes, buffered on the store's volume instead of in memory. The file has no name, so nothing of
//! it remains after the process ends, however it ends.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

use sha2::{Digest as _, Sha256};

use crate::{cache::Cache, error::CacheError};

/// Bytes that arrive in pieces, hashed as they arrive.
#[derive(Debug)]
pub struct Incoming {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Cache {
    /// A buffer for bytes that are stored once they are complete.
    ///
    /// # Errors
    /// [`CacheError::Io`] if no file can be created in the directory.
    pub fn incoming(&self) -> Result<Incoming, CacheError> {
        let dir = &self.inner.config.dir;
        let file = tempfile::tempfile_in(dir).map_err(CacheError::io("make a file in", dir))?;
        Ok(Incoming { file, hash: Sha256::new(), bytes: 0 })
    }

    /// Whether the volume keeps its required free space after `bytes` more. True if the file system does not
    /// report its free space.
    pub fn has_free(&self, bytes: u64) -> bool {
        self.inner.free_bytes() >= self.inner.config.free_bytes_min.saturating_add(bytes)
    }
}

impl Incoming {
    /// Appends `piece`.
    ///
    /// # Errors
    /// Errors of the file system. A piece that was written in part does not count.
    pub fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(piece)?;
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Number of bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 of the bytes so far.
    pub fn sha256(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    /// The first `most` bytes, or all of them.
    ///
    /// # Errors
    /// Errors of the file system, or [`io::ErrorKind::UnexpectedEof`] if the file is shorter than what was
    /// written.
    pub fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let wanted = self.bytes.min(most);
        let length = usize::try_from(wanted).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::with_capacity(length);
        let read = (&mut self.file).take(wanted).read_to_end(&mut bytes)?;
        if read == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
