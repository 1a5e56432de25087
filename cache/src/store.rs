//! What the store below the cache takes and returns.

use strum::IntoStaticStr;

use crate::{entry::EntryId, manifest::Manifest};

/// Why the bytes of an entry cannot be returned, with its name in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str)]
pub(crate) enum Damage {
    /// The manifest is missing although the entry was stored.
    #[strum(serialize = "manifest lost")]
    ManifestLost,
    /// The manifest does not decode.
    #[strum(serialize = "manifest damaged")]
    Manifest,
    /// The manifest claims more bytes than an entry may have, or the chunks have more than it claims.
    #[strum(serialize = "length out of bounds")]
    Length,
    #[strum(serialize = "chunk lost")]
    ChunkLost,
    /// The payload does not match its SHA-256.
    #[strum(serialize = "digest wrong")]
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
