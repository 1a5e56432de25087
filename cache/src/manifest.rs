//! The on-disk forms: the manifest of an entry, the frame of a chunk, the record of a failure.
//!
//! All integers are little-endian. Every form has a CRC-32, so that a damaged one is told from a good one
//! before any of its numbers is used. Manifests and chunks begin with the store's mark and say what they
//! belong to: they are found in the files of a store that nothing can open any more.

use crate::{
    entry::{ENTRY_ID_BYTES, EntryId},
    mark::{MARK_BYTES, Mark},
};

/// Bytes of a chunk value on disk. Sixteen of them fill a leaf of sled to about 70 KiB, well below the 128
/// KiB at which sled moves a page into a blob file that it never takes back.
pub(crate) const CHUNK_VALUE_BYTES: usize = 4096 - 64;
const CRC_BYTES: usize = 4;
/// What stands before every frame: the mark, the kind, the entry.
const FRAME_HEAD_BYTES: usize = MARK_BYTES + 1 + ENTRY_ID_BYTES;
const CHUNK_KIND: u8 = b'c';
const MANIFEST_KIND: u8 = b'm';
/// Head, start of the entry's digest, index, length of the payload, CRC-32 of all that and the payload.
const CHUNK_HEAD_BYTES: usize = FRAME_HEAD_BYTES + 8 + 4 + 4 + CRC_BYTES;
/// Payload bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = CHUNK_VALUE_BYTES - CHUNK_HEAD_BYTES;
const CHUNK_KEY_BYTES: usize = ENTRY_ID_BYTES + 4;

const MANIFEST_VERSION: u8 = 2;
const MANIFEST_BYTES: usize = FRAME_HEAD_BYTES + 1 + 8 + 4 + 4 + 32 + 8 + CRC_BYTES;

/// Most bytes of the reason of a failure.
pub(crate) const FAILURE_REASON_BYTES_MAX: usize = 64;
/// Most bytes of the detail of a failure.
pub(crate) const FAILURE_DETAIL_BYTES_MAX: usize = 1024;
const FAILURE_VERSION: u8 = 1;
const FAILURE_HEADER_BYTES: usize = 1 + 8 + 8 + 2 + 2;

/// Our own bytes per chunk and per entry beside the payload: keys, frames, tree pages. An entry also takes
/// some 0.7 KiB of memory for as long as it is there, however small it is: what it counts bounds that too.
const CHUNK_OVERHEAD_BYTES: u64 = 64;
const ENTRY_OVERHEAD_BYTES: u64 = 4096;
/// Bytes of disk charged for a byte stored: the amplification of sled 0.34.7, measured with random entries up
/// to 400 kB. Fresh files take 1.75; after long use with evictions it is 2.6 (72 MiB for 28 MiB) to 2.9 (38
/// MiB for 13 MiB).
const AMPLIFICATION: u64 = 3;

/// What is written last and read first: how long an entry is, in how many chunks, and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Payload length in bytes.
    pub(crate) total_bytes: u64,
    /// Payload bytes per chunk; all but the last are full.
    pub(crate) chunk_bytes: u32,
    /// Number of chunks.
    pub(crate) chunks: u32,
    /// SHA-256 of the payload.
    pub(crate) sha256: [u8; 32],
    /// Seconds since 1970 at which it was stored; information only.
    pub(crate) created_at: u64,
}

/// A compile failure that is remembered for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Short machine-readable reason.
    pub reason: String,
    /// Text for people.
    pub detail: String,
}

/// A failure with its lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureRecord {
    /// Seconds since 1970.
    pub(crate) created_at: u64,
    /// Seconds since 1970.
    pub(crate) expires_at: u64,
    pub(crate) failure: Failure,
}

impl Manifest {
    /// The manifest of `bytes` with digest `sha256`; `None` when it takes more chunks than a u32 can count.
    pub(crate) fn of(bytes: &[u8], sha256: [u8; 32], created_at: u64) -> Option<Self> {
        let chunks = u32::try_from(bytes.len().div_ceil(CHUNK_BYTES)).ok()?;
        let chunk_bytes = u32::try_from(CHUNK_BYTES).ok()?;
        Some(Self { total_bytes: bytes.len() as u64, chunk_bytes, chunks, sha256, created_at })
    }

    /// The value of `id` in the `manifest` tree.
    pub(crate) fn encode(&self, mark: Mark, id: EntryId) -> Vec<u8> {
        let mut out = frame_head(mark, MANIFEST_KIND, id, MANIFEST_BYTES);
        out.push(MANIFEST_VERSION);
        out.extend_from_slice(&self.total_bytes.to_le_bytes());
        out.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(&self.created_at.to_le_bytes());
        seal(out)
    }

    /// Reads a manifest back, and what it is of; `None` for damage, a foreign store or version, and numbers
    /// that contradict each other.
    pub(crate) fn decode(mark: Mark, bytes: &[u8]) -> Option<(EntryId, Self)> {
        let mut fields = Fields(unseal(bytes)?);
        let (kind, id) = fields.frame_head(mark)?;
        if kind != MANIFEST_KIND || fields.take::<1>()? != [MANIFEST_VERSION] {
            return None;
        }
        let manifest = Self {
            total_bytes: u64::from_le_bytes(fields.take()?),
            chunk_bytes: u32::from_le_bytes(fields.take()?),
            chunks: u32::from_le_bytes(fields.take()?),
            sha256: fields.take()?,
            created_at: u64::from_le_bytes(fields.take()?),
        };
        let consistent = manifest.chunk_bytes != 0
            && u64::from(manifest.chunks) == manifest.total_bytes.div_ceil(u64::from(manifest.chunk_bytes));
        (fields.0.is_empty() && consistent).then_some((id, manifest))
    }

    /// What the entry counts against the budget, in bytes.
    pub(crate) fn charged_bytes(&self) -> u64 {
        charged_bytes(self.total_bytes, u64::from(self.chunks))
    }
}

/// What a payload of `total_bytes` in `chunks` chunks counts against the budget.
fn charged_bytes(total_bytes: u64, chunks: u64) -> u64 {
    let overhead = chunks.saturating_mul(CHUNK_OVERHEAD_BYTES).saturating_add(ENTRY_OVERHEAD_BYTES);
    total_bytes.saturating_add(overhead).saturating_mul(AMPLIFICATION)
}

/// Key of chunk `index` in the `chunk` tree. The prefix is the entry, not the content: two entries never
/// share a chunk, so removing one needs no reference counts.
pub(crate) fn chunk_key(id: EntryId, index: u32) -> [u8; CHUNK_KEY_BYTES] {
    let mut key = [0; CHUNK_KEY_BYTES];
    key[..ENTRY_ID_BYTES].copy_from_slice(&id.to_bytes());
    key[ENTRY_ID_BYTES..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Entry and index of a chunk key; `None` when it is not one of ours.
pub(crate) fn parse_chunk_key(key: &[u8]) -> Option<(EntryId, u32)> {
    let (id, index) = key.split_at_checked(ENTRY_ID_BYTES)?;
    Some((EntryId::from_bytes(id)?, u32::from_be_bytes(index.try_into().ok()?)))
}

/// A chunk as it stands in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    pub(crate) id: EntryId,
    /// Start of the digest of the whole entry: chunks of what was stored earlier under the same key are
    /// others.
    pub(crate) digest: [u8; 8],
    pub(crate) index: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Chunk `index` of an entry with digest `sha256`.
    pub(crate) fn of(id: EntryId, sha256: &[u8; 32], index: u32, payload: &'a [u8]) -> Self {
        let digest = *sha256.first_chunk().unwrap_or(&[0; 8]);
        Self { id, digest, index, payload }
    }

    /// Its value in the `chunk` tree.
    pub(crate) fn frame(&self, mark: Mark) -> Vec<u8> {
        let mut value = frame_head(mark, CHUNK_KIND, self.id, CHUNK_HEAD_BYTES + self.payload.len());
        value.extend_from_slice(&self.digest);
        value.extend_from_slice(&self.index.to_le_bytes());
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        value.extend_from_slice(&length.to_le_bytes());
        let crc = chunk_crc(&value, self.payload);
        value.extend_from_slice(&crc.to_le_bytes());
        value.extend_from_slice(self.payload);
        value
    }

    /// The chunk at the start of `bytes`; `None` when there is none, or a damaged one.
    pub(crate) fn unframe(mark: Mark, bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(CHUNK_HEAD_BYTES - CRC_BYTES)?;
        let (crc, rest) = rest.split_first_chunk::<CRC_BYTES>()?;
        let mut fields = Fields(head);
        let (kind, id) = fields.frame_head(mark)?;
        let (digest, index) = (fields.take()?, u32::from_le_bytes(fields.take()?));
        let payload = rest.get(..usize::try_from(u32::from_le_bytes(fields.take()?)).ok()?)?;
        let is_whole = payload.len() <= CHUNK_BYTES && chunk_crc(head, payload).to_le_bytes() == *crc;
        (kind == CHUNK_KIND && is_whole).then_some(Self { id, digest, index, payload })
    }
}

/// The manifest at the start of `bytes`, whatever follows it.
pub(crate) fn manifest_at(mark: Mark, bytes: &[u8]) -> Option<(EntryId, Manifest)> {
    Manifest::decode(mark, bytes.get(..MANIFEST_BYTES)?)
}

fn frame_head(mark: Mark, kind: u8, id: EntryId, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(&mark.0);
    out.push(kind);
    out.extend_from_slice(&id.to_bytes());
    out
}

fn chunk_crc(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(payload);
    crc.finalize()
}

impl FailureRecord {
    /// A record with reason and detail cut to their limits.
    pub(crate) fn new(created_at: u64, expires_at: u64, reason: &str, detail: &str) -> Self {
        let failure = Failure {
            reason: cut(reason, FAILURE_REASON_BYTES_MAX).to_owned(),
            detail: cut(detail, FAILURE_DETAIL_BYTES_MAX).to_owned(),
        };
        Self { created_at, expires_at, failure }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (reason, detail) = (self.failure.reason.as_bytes(), self.failure.detail.as_bytes());
        let mut out = Vec::with_capacity(FAILURE_HEADER_BYTES + reason.len() + detail.len() + CRC_BYTES);
        out.push(FAILURE_VERSION);
        out.extend_from_slice(&self.created_at.to_le_bytes());
        out.extend_from_slice(&self.expires_at.to_le_bytes());
        for text in [reason, detail] {
            let length = u16::try_from(text.len()).unwrap_or(0);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&text[..usize::from(length)]);
        }
        seal(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(unseal(bytes)?);
        if fields.take::<1>()? != [FAILURE_VERSION] {
            return None;
        }
        let created_at = u64::from_le_bytes(fields.take()?);
        let expires_at = u64::from_le_bytes(fields.take()?);
        let reason = fields.text()?;
        let detail = fields.text()?;
        fields.0.is_empty().then_some(Self { created_at, expires_at, failure: Failure { reason, detail } })
    }
}

/// The longest prefix of `text` of at most `bytes_max` bytes that ends between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// Appends the CRC-32 of all before it.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks and takes off the CRC-32.
fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    (crc32fast::hash(body).to_le_bytes() == *crc).then_some(body)
}

/// A cursor over checked bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Kind and entry of a frame of this store.
    fn frame_head(&mut self, mark: Mark) -> Option<(u8, EntryId)> {
        if self.take::<MARK_BYTES>()? != mark.0 {
            return None;
        }
        let [kind] = self.take()?;
        Some((kind, EntryId::from_bytes(&self.take::<ENTRY_ID_BYTES>()?)?))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(head.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;

    const MARK: Mark = Mark([3; MARK_BYTES]);

    fn id() -> EntryId {
        EntryId::new(Space::Artifact, [5; 32])
    }

    #[test]
    fn manifest_round_trips_and_every_flipped_bit_is_noticed() {
        let manifest = Manifest::of(&[1; 10_000], [9; 32], 1_700_000_000).expect("few chunks");
        let bytes = manifest.encode(MARK, id());
        assert_eq!(bytes.len(), MANIFEST_BYTES);
        assert_eq!(Manifest::decode(MARK, &bytes), Some((id(), manifest)));
        assert_eq!(Manifest::decode(Mark([4; MARK_BYTES]), &bytes), None, "another store's");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Manifest::decode(MARK, &damaged), None, "bit {bit}");
        }
        assert_eq!(Manifest::decode(MARK, &bytes[..20]), None);
    }

    #[test]
    fn manifest_with_a_valid_crc_but_contradicting_numbers_is_refused() {
        let good = Manifest::of(&[1; 10_000], [9; 32], 0).expect("few chunks");
        for bad in [
            Manifest { total_bytes: u64::MAX, ..good },
            Manifest { chunks: 1, ..good },
            Manifest { chunk_bytes: 0, ..good },
        ] {
            assert_eq!(Manifest::decode(MARK, &bad.encode(MARK, id())), None, "{bad:?}");
        }
    }

    #[test]
    fn chunks_say_what_they_belong_to_and_every_flipped_bit_is_noticed() {
        let chunk = Chunk::of(id(), &[9; 32], 3, b"payload");
        let framed = chunk.frame(MARK);
        assert_eq!(Chunk::unframe(MARK, &framed), Some(chunk));
        assert_eq!(Chunk::unframe(Mark([4; MARK_BYTES]), &framed), None, "another store's");
        assert_eq!(Chunk::unframe(MARK, &framed[..framed.len() - 1]), None);
        for bit in 0..framed.len() * 8 {
            let mut damaged = framed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Chunk::unframe(MARK, &damaged), None, "bit {bit}");
        }
        let full = Chunk::of(id(), &[9; 32], 0, &[0; CHUNK_BYTES]).frame(MARK);
        assert!(full.len() <= CHUNK_VALUE_BYTES);
    }

    #[test]
    fn chunk_keys_sort_by_entry_then_index() {
        let id = EntryId::new(Space::Artifact, [5; 32]);
        assert!(chunk_key(id, 255) < chunk_key(id, 256));
        assert_eq!(parse_chunk_key(&chunk_key(id, 7)), Some((id, 7)));
        assert_eq!(parse_chunk_key(b"short"), None);
    }

    #[test]
    fn failures_round_trip_and_are_cut_between_characters() {
        let record = FailureRecord::new(5, 10, "invalid", &"é".repeat(FAILURE_DETAIL_BYTES_MAX));
        assert!(record.failure.detail.len() <= FAILURE_DETAIL_BYTES_MAX);
        let bytes = record.encode();
        assert_eq!(FailureRecord::decode(&bytes), Some(record));
        assert_eq!(FailureRecord::decode(&bytes[1..]), None);
    }
}
