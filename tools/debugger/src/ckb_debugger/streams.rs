//! Open files of a script, by artificial numbers, with the semantics of C's stdio.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

use crate::ckb_debugger::paths::{Access, Allowed};

/// Maximum open streams of a script.
const STREAMS_MAX: usize = 64;
/// Maximum bytes that a script writes.
const WRITTEN_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
struct Stream {
    file: File,
    is_at_end: bool,
    has_failed: bool,
}

/// The streams of a script.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: BTreeMap<u64, Stream>,
    last: u64,
    written: u64,
}

impl Streams {
    /// Opens a file like `fopen`, or like `freopen` with a stream to replace; 0 on errors.
    pub(crate) fn open(
        &mut self,
        allowed: &mut Allowed,
        (path, mode): (&[u8], &[u8]),
        replaced: Option<u64>,
    ) -> u64 {
        if let Some(replaced) = replaced
            && self.open.remove(&replaced).is_none()
        {
            return 0;
        }
        let Some(access) = access(mode).filter(|_| self.open.len() < STREAMS_MAX) else { return 0 };
        let Ok(file) = allowed.open(path, access) else { return 0 };
        let number = replaced.unwrap_or(self.last + 1);
        self.last = self.last.max(number);
        self.open.insert(number, Stream { file, is_at_end: false, has_failed: false });
        number
    }

    pub(crate) fn close(&mut self, stream: u64) -> i64 {
        if self.open.remove(&stream).is_some() { 0 } else { -1 }
    }

    /// Like `fread`: the number of complete items that were read, and their bytes.
    pub(crate) fn read(&mut self, stream: u64, size: u64, items: u64) -> (i64, Vec<u8>) {
        let Some(stream) = self.open.get_mut(&stream).filter(|_| size > 0) else { return (0, Vec::new()) };
        let wanted = size.saturating_mul(items);
        let mut bytes = Vec::new();
        match (&stream.file).take(wanted).read_to_end(&mut bytes) {
            Ok(_) => stream.is_at_end |= (bytes.len() as u64) < wanted,
            Err(_) => stream.has_failed = true,
        }
        let whole = bytes.len() as u64 / size;
        bytes.truncate(usize::try_from(whole * size).unwrap_or(0));
        (whole.cast_signed(), bytes)
    }

    /// Like `fgetc`.
    pub(crate) fn next(&mut self, stream: u64) -> i64 {
        match self.read(stream, 1, 1) {
            (1, bytes) => bytes.first().map_or(-1, |byte| (*byte).into()),
            _ => -1,
        }
    }

    /// Like `fwrite`: the number of complete items that were written.
    pub(crate) fn write(&mut self, stream: u64, size: u64, bytes: &[u8]) -> i64 {
        if !self.may_write(bytes.len()) {
            return 0;
        }
        let Some(stream) = self.open.get_mut(&stream).filter(|_| size > 0) else { return 0 };
        match stream.file.write_all(bytes) {
            Ok(()) => (bytes.len() as u64 / size).cast_signed(),
            Err(_) => {
                stream.has_failed = true;
                0
            }
        }
    }

    pub(crate) fn is_at_end(&self, stream: u64) -> i64 {
        self.open.get(&stream).is_none_or(|stream| stream.is_at_end).into()
    }

    pub(crate) fn has_failed(&self, stream: u64) -> i64 {
        self.open.get(&stream).is_none_or(|stream| stream.has_failed).into()
    }

    pub(crate) fn position(&mut self, stream: u64) -> i64 {
        let at = self.open.get_mut(&stream).and_then(|stream| stream.file.stream_position().ok());
        at.map_or(-1, u64::cast_signed)
    }

    pub(crate) fn seek(&mut self, stream: u64, offset: i64, whence: i32) -> i64 {
        let Some(stream) = self.open.get_mut(&stream) else { return -1 };
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => return -1,
        };
        if stream.file.seek(to).is_err() {
            return -1;
        }
        stream.is_at_end = false;
        0
    }

    /// Writes a complete file, and returns whether that succeeded.
    pub(crate) fn write_file(&mut self, allowed: &mut Allowed, path: &[u8], bytes: &[u8]) -> bool {
        let access = Access { write: true, truncate: true, create: true, ..Access::default() };
        self.may_write(bytes.len())
            && allowed.open(path, access).and_then(|mut file| file.write_all(bytes)).is_ok()
    }

    fn may_write(&mut self, bytes: usize) -> bool {
        self.written = self.written.saturating_add(bytes as u64);
        self.written <= WRITTEN_BYTES_MAX
    }
}

/// The access for a mode of `fopen`.
fn access(mode: &[u8]) -> Option<Access> {
    let (first, rest) = mode.split_first()?;
    let (both, is_new) = (rest.contains(&b'+'), rest.contains(&b'x'));
    let none = Access::default();
    Some(match first {
        b'r' => Access { read: true, write: both, ..none },
        b'w' => Access { read: both, write: true, truncate: true, create: true, create_new: is_new, ..none },
        b'a' => Access { read: both, append: true, create: true, ..none },
        _ => return None,
    })
}

/// Reads a script's input file completely.
pub(crate) fn read_all(path: &std::path::Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes)
    } else {
        File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)
    };
    if read? as u64 > bytes_max {
        return Err(io::Error::other(format!("longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_what_c_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let name = path.to_str().unwrap().as_bytes();
        let mut allowed = Allowed::new(std::iter::empty(), &[folder.path().to_owned()], std::iter::empty());
        let mut streams = Streams::default();
        assert_eq!(streams.open(&mut allowed, (name, b"r"), None), 0);
        let stream = streams.open(&mut allowed, (name, b"w+b"), None);
        assert_ne!(stream, 0);
        assert_eq!(streams.write(stream, 2, b"abcdef"), 3);
        assert_eq!((streams.position(stream), streams.seek(stream, 1, 0)), (6, 0));
        assert_eq!(streams.read(stream, 2, 9), (2, b"bcde".to_vec()));
        assert_eq!((streams.is_at_end(stream), streams.has_failed(stream)), (1, 0));
        assert_eq!((streams.seek(stream, -1, 2), streams.is_at_end(stream)), (0, 0));
        assert_eq!((streams.next(stream), streams.next(stream)), (b'f'.into(), -1));
        assert_eq!((streams.seek(stream, -1, 0), streams.seek(stream, 0, 9)), (-1, -1));
        assert_eq!(streams.open(&mut allowed, (name, b"a"), Some(stream)), stream);
        assert_eq!(streams.write(stream, 1, b"g"), 1);
        assert_eq!((streams.close(stream), streams.close(stream)), (0, -1));
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdefg");
        // A closed stream.
        assert_eq!((streams.next(stream), streams.position(stream), streams.write(7, 1, b"x")), (-1, -1, 0));
        assert_eq!(streams.open(&mut allowed, (name, b"r"), Some(7)), 0);
        assert_eq!(streams.open(&mut allowed, (name, b"q"), None), 0);
        assert!(streams.write_file(&mut allowed, name, b"whole"));
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }
}
