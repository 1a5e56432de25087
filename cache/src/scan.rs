//! What stands in the files of a store, read without sled: frames are found by the store's mark, whatever
//! surrounds them.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    time::Instant,
};

use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

use crate::{
    entry::EntryId,
    manifest::{CHUNK_VALUE_BYTES, Chunk, Manifest, manifest_at},
    mark::Mark,
};

/// Bytes looked at in one go. A frame that begins in them may end behind them.
const WINDOW_BYTES: usize = 4 << 20;

/// The entries that a store's files tell of, and where their chunks are.
pub(crate) struct Remains {
    file: File,
    mark: Mark,
    manifests: HashMap<EntryId, Vec<Manifest>>,
    /// Offsets of chunks by entry, start of its digest, and index.
    chunks: HashMap<(EntryId, [u8; 8]), BTreeMap<u32, u64>>,
}

impl Remains {
    /// Looks through the file of the store in `path`, at most until `deadline`; nothing to find without its
    /// mark.
    pub(crate) fn of(path: &Path, deadline: Instant) -> io::Result<Option<Self>> {
        let Some(mark) = Mark::read(path) else { return Ok(None) };
        let file = File::open(path.join("db"))?;
        let mut remains = Self { file, mark, manifests: HashMap::new(), chunks: HashMap::new() };
        let finder = Finder::new(&mark.0);
        let mut window = vec![0; WINDOW_BYTES + CHUNK_VALUE_BYTES];
        let mut from = 0;
        while Instant::now() < deadline {
            let filled = read_up_to(&remains.file, &mut window, from)?;
            for at in finder.find_iter(&window[..filled]).take_while(|&at| at < WINDOW_BYTES) {
                remains.note(&window[at..filled], from + at as u64);
            }
            if filled <= WINDOW_BYTES {
                break;
            }
            from += WINDOW_BYTES as u64;
        }
        Ok(Some(remains))
    }

    fn note(&mut self, frame: &[u8], offset: u64) {
        if let Some(chunk) = Chunk::unframe(self.mark, frame) {
            self.chunks.entry((chunk.id, chunk.digest)).or_default().insert(chunk.index, offset);
        } else if let Some((id, manifest)) = manifest_at(self.mark, frame) {
            let known = self.manifests.entry(id).or_default();
            if !known.contains(&manifest) {
                known.push(manifest);
            }
        }
    }

    /// The manifests found, youngest first.
    pub(crate) fn manifests(&self) -> Vec<(EntryId, Manifest)> {
        let mut found: Vec<_> = self
            .manifests
            .iter()
            .flat_map(|(&id, manifests)| manifests.iter().map(move |&manifest| (id, manifest)))
            .collect();
        found.sort_by_key(|&(id, manifest)| (u64::MAX - manifest.created_at, id));
        found
    }

    /// The bytes of an entry, verified in full; `None` when a part of them is lost.
    pub(crate) fn read(&self, id: EntryId, manifest: &Manifest, bytes_max: u64) -> Option<Vec<u8>> {
        let length =
            usize::try_from(manifest.total_bytes).ok().filter(|_| manifest.total_bytes <= bytes_max)?;
        let rightful = Chunk::of(id, &manifest.sha256, 0, &[]);
        let offsets = self.chunks.get(&(id, rightful.digest)).filter(|_| length > 0);
        let mut bytes = Vec::with_capacity(length);
        let mut frame = vec![0; CHUNK_VALUE_BYTES];
        for index in 0..manifest.chunks {
            let filled = read_up_to(&self.file, &mut frame, *offsets?.get(&index)?).ok()?;
            let chunk = Chunk::unframe(self.mark, &frame[..filled])?;
            bytes.extend_from_slice(chunk.payload);
        }
        (bytes.len() == length && <[u8; 32]>::from(Sha256::digest(&bytes)) == manifest.sha256)
            .then_some(bytes)
    }
}

/// Fills `buffer` from `offset` on as far as the file goes.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
