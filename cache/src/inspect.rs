//! Inspects the files of the open store from outside, to detect damage before a caller reads a damaged entry.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use crate::{
    error::StoreError,
    inner::{Chore, Inner},
};

const INTERVAL: Duration = Duration::from_secs(10);

/// Delay before an invalid head is read again: sled may have been writing it.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Bytes of a segment of sled's file, by default.
const SEGMENT_BYTES: u64 = 512 << 10;

/// Bytes of a segment's head: a CRC-32 and the data that it covers.
const HEAD_BYTES: usize = 20;

impl Inner {
    /// Requests an inspection, if the last one was at least `INTERVAL` ago.
    pub(crate) fn request_inspection(&self) {
        let mut at = self.inspect_at.lock();
        let now = Instant::now();
        if at.is_none_or(|at| at <= now) {
            *at = Some(now + INTERVAL);
            self.request(Chore::Inspect);
        }
    }

    /// Whether the files of the store are intact, or there is no store. Recovers a damaged or absent store.
    pub(crate) fn inspect(&self) -> bool {
        let Some((store, number)) = self.store() else {
            self.revive(&mut self.writer.lock());
            return true;
        };
        drop(store);
        let path = self.layout.store_path(number).join("db");
        let is_bad = || {
            segments_without_head(&path).unwrap_or_else(|error| {
                tracing::error!(%error, path = %path.display(), "the store's file cannot be read");
                // Running out of descriptors or memory proves no damage of the file.
                u64::from(!is_exhausted(&error))
            })
        };
        if is_bad() == 0 {
            return true;
        }
        thread::sleep(AGAIN_AFTER);
        let bad = is_bad();
        if bad == 0 || self.store().is_none_or(|(_, current)| current != number) {
            return true;
        }
        let detail = format!("{bad} segments are not what was written");
        self.recover(&mut self.writer.lock(), number, &StoreError::Damaged(detail));
        false
    }
}

/// Number of segments whose head is neither valid nor unwritten.
fn segments_without_head(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bad = 0;
    for at in (0..length).step_by(usize::try_from(SEGMENT_BYTES).unwrap_or(usize::MAX)) {
        let mut head = [0; HEAD_BYTES];
        match file.read_exact_at(&mut head, at) {
            Ok(()) => bad += u64::from(!is_head(&head)),
            // The file was truncated, or is about to grow.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bad)
}

fn is_exhausted(error: &io::Error) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| errors.contains(&errno))
}

fn is_head(head: &[u8; HEAD_BYTES]) -> bool {
    let (crc, content) = head.split_at(4);
    head == &[0; HEAD_BYTES] || (crc32fast::hash(content) ^ u32::MAX).to_le_bytes() == crc
}
