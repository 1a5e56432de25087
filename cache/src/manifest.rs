//! On-disk formats: the manifest of an entry, the key of a chunk, the record of a failure.
//!
//! All integers are little-endian. Manifests and failures have a CRC-32, which protects every number in them.
//! Chunks have none: the manifest has the SHA-256 of the whole payload.

use crate::entry::{ENTRY_ID_BYTES, EntryId};

/// Payload bytes of a chunk. Sixteen chunks fill a leaf of sled to about 70 KiB, well below 128 KiB. From
/// that size on, sled moves a page into a blob file whose space it never frees.
pub(crate) const CHUNK_BYTES: usize = 4096 - 64;
const CRC_BYTES: usize = 4;
const CHUNK_KEY_BYTES: usize = ENTRY_ID_BYTES + 4;

const MANIFEST_VERSION: u8 = 3;
const MANIFEST_BYTES: usize = 1 + ENTRY_ID_BYTES + 8 + 4 + 4 + 32 + 8 + CRC_BYTES;

pub(crate) const FAILURE_REASON_BYTES_MAX: usize = 64;
pub(crate) const FAILURE_DETAIL_BYTES_MAX: usize = 1024;
const FAILURE_VERSION: u8 = 1;
const FAILURE_HEADER_BYTES: usize = 1 + 8 + 8 + 2 + 2;

/// Overhead per chunk and per entry in addition to the payload: keys, frames, tree pages. Every entry also
/// takes about 0.7 KiB of memory, however small it is; the charge bounds that too.
const CHUNK_OVERHEAD_BYTES: u64 = 64;
const ENTRY_OVERHEAD_BYTES: u64 = 4096;
/// Bytes of disk charged for each byte stored: the write amplification of sled 0.34.7, measured with random
/// entries up to 400 kB. Fresh files take 1.75. After long use with evictions it is 2.6 (72 MiB for 28 MiB)
/// to 2.9 (38 MiB for 13 MiB).
const AMPLIFICATION: u64 = 3;

/// Length, chunk count and digest of an entry. Written last and read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Payload length in bytes.
    pub(crate) total_bytes: u64,
    /// Payload bytes per chunk; only the last chunk may be shorter.
    pub(crate) chunk_bytes: u32,
    pub(crate) chunks: u32,
    /// SHA-256 of the payload.
    pub(crate) sha256: [u8; 32],
    /// Time of the put, in seconds since 1970; informational only.
    pub(crate) created_at: u64,
}

/// A remembered compile failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Short machine-readable reason.
    pub reason: String,
    /// Human-readable text.
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
    /// The manifest of `bytes` with digest `sha256`; `None` if the number of chunks overflows a u32.
    pub(crate) fn of(bytes: &[u8], sha256: [u8; 32], created_at: u64) -> Option<Self> {
        let chunks = u32::try_from(bytes.len().div_ceil(CHUNK_BYTES)).ok()?;
        let chunk_bytes = u32::try_from(CHUNK_BYTES).ok()?;
        Some(Self { total_bytes: bytes.len() as u64, chunk_bytes, chunks, sha256, created_at })
    }

    /// The value of `id` in the `manifest` tree.
    pub(crate) fn encode(&self, id: EntryId) -> Vec<u8> {
        let mut out = Vec::with_capacity(MANIFEST_BYTES);
        out.push(MANIFEST_VERSION);
        out.extend_from_slice(&id.to_bytes());
        out.extend_from_slice(&self.total_bytes.to_le_bytes());
        out.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(&self.created_at.to_le_bytes());
        seal(out)
    }

    /// Decodes the manifest of `id`. `None` for damage, another entry's manifest, another version, and
    /// inconsistent numbers.
    pub(crate) fn decode(id: EntryId, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(unseal(bytes)?);
        if fields.take::<1>()? != [MANIFEST_VERSION] || fields.take()? != id.to_bytes() {
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
        (fields.0.is_empty() && consistent).then_some(manifest)
    }

    /// Bytes that the entry counts against the budget.
    pub(crate) fn charged_bytes(&self) -> u64 {
        let chunks = u64::from(self.chunks).saturating_mul(CHUNK_OVERHEAD_BYTES);
        let overhead = chunks.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.total_bytes.saturating_add(overhead).saturating_mul(AMPLIFICATION)
    }
}

/// Key of chunk `index` in the `chunk` tree. The prefix is the entry, not the content: entries never share a
/// chunk, so removing one needs no reference counts.
pub(crate) fn chunk_key(id: EntryId, index: u32) -> [u8; CHUNK_KEY_BYTES] {
    let mut key = [0; CHUNK_KEY_BYTES];
    key[..ENTRY_ID_BYTES].copy_from_slice(&id.to_bytes());
    key[ENTRY_ID_BYTES..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Entry and index of a chunk key; `None` if it is not a valid chunk key.
pub(crate) fn parse_chunk_key(key: &[u8]) -> Option<(EntryId, u32)> {
    let (id, index) = key.split_at_checked(ENTRY_ID_BYTES)?;
    Some((EntryId::from_bytes(id)?, u32::from_be_bytes(index.try_into().ok()?)))
}

impl FailureRecord {
    /// A record with reason and detail truncated to their limits.
    pub(crate) fn new(created_at: u64, expires_at: u64, reason: &str, detail: &str) -> Self {
        let failure = Failure {
            reason: reason[..reason.floor_char_boundary(FAILURE_REASON_BYTES_MAX)].to_owned(),
            detail: detail[..detail.floor_char_boundary(FAILURE_DETAIL_BYTES_MAX)].to_owned(),
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

/// Appends the CRC-32 of `bytes`.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks and removes the CRC-32.
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

    fn id() -> EntryId {
        EntryId::new(Space::Artifact, [5; 32])
    }

    #[test]
    fn manifest_round_trips_and_every_flipped_bit_is_noticed() {
        let manifest = Manifest::of(&[1; 10_000], [9; 32], 1_700_000_000).expect("few chunks");
        let bytes = manifest.encode(id());
        assert_eq!(bytes.len(), MANIFEST_BYTES);
        assert_eq!(Manifest::decode(id(), &bytes), Some(manifest));
        assert_eq!(Manifest::decode(EntryId::new(Space::Script, [5; 32]), &bytes), None, "another entry's");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Manifest::decode(id(), &damaged), None, "bit {bit}");
        }
        assert_eq!(Manifest::decode(id(), &bytes[..20]), None);
    }

    #[test]
    fn manifest_with_a_valid_crc_but_contradicting_numbers_is_refused() {
        let good = Manifest::of(&[1; 10_000], [9; 32], 0).expect("few chunks");
        for bad in [
            Manifest { total_bytes: u64::MAX, ..good },
            Manifest { chunks: 1, ..good },
            Manifest { chunk_bytes: 0, ..good },
        ] {
            assert_eq!(Manifest::decode(id(), &bad.encode(id())), None, "{bad:?}");
        }
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
