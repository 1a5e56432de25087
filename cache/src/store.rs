//! What the store below the cache takes and returns.

use crate::{entry::EntryId, manifest::Manifest};

/// Why the bytes of an entry cannot be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The manifest is missing although the entry was stored.
    ManifestLost,
    /// The manifest does not decode.
    Manifest,
    /// The manifest claims more bytes than an entry may have, or the chunks have more than it claims.
    Length,
    /// A chunk is missing.
    ChunkLost,
    /// The payload does not match its SHA-256.
    Digest,
}

/// An entry as found on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) id: EntryId,
    pub(crate) manifest: Manifest,
    /// Position in the order of use; zero if the store has lost it.
    pub(crate) tick: u64,
}

/// A new position of an entry in the order of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) id: EntryId,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// An entry to remove.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) id: EntryId,
    /// Position in the order of use that the store has on disk.
    pub(crate) tick: u64,
}

/// Result of a search for orphaned chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Chunks of `id` from `first_index` on have no manifest.
    Found { id: EntryId, first_index: u32 },
    /// None so far; resume after `last`.
    Paused { last: Option<EntryId> },
    /// None until the end.
    NoMore,
}

impl Damage {
    /// The name used in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ManifestLost => "manifest lost",
            Self::Manifest => "manifest damaged",
            Self::Length => "length out of bounds",
            Self::ChunkLost => "chunk lost",
            Self::Digest => "digest wrong",
        }
    }
}
