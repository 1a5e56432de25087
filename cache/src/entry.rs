//! What names an entry: the space it lives in and its 32-byte key.

use std::fmt;

/// Two namespaces, so that a key of one kind can never be answered with bytes of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Uploaded ELF bytes; the key is the SHA-256 of the bytes.
    Script,
    /// Compiled shared objects; the key is derived from script, options and engine.
    Artifact,
}

/// Who had an entry stored, as far as its share of the cache is concerned. Kept in memory alone: what is
/// found at the start belongs to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// A number of the peer.
    pub peer: u64,
    /// A number of the tenant, as this peer names it.
    pub tenant: u64,
}

/// Bytes of an [`EntryId`] on disk: one for the space, 32 for the key.
pub(crate) const ENTRY_ID_BYTES: usize = 33;

/// Space and key of one entry; its bytes are the key in the `manifest` tree and the prefix in the `chunk`
/// tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    pub(crate) space: Space,
    pub(crate) key: [u8; 32],
}

impl Space {
    /// All spaces, in the order of their tags.
    pub const ALL: [Self; 2] = [Self::Script, Self::Artifact];

    /// The name used in metrics, logs and docs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Artifact => "artifact",
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::Script => b's',
            Self::Artifact => b'a',
        }
    }

    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|space| space.tag() == tag)
    }
}

impl EntryId {
    pub(crate) fn new(space: Space, key: [u8; 32]) -> Self {
        Self { space, key }
    }

    pub(crate) fn to_bytes(self) -> [u8; ENTRY_ID_BYTES] {
        let mut bytes = [0; ENTRY_ID_BYTES];
        bytes[0] = self.space.tag();
        bytes[1..].copy_from_slice(&self.key);
        bytes
    }

    /// Reads an id back; `None` when the length or the tag is not ours.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&tag, key) = bytes.split_first()?;
        Some(Self { space: Space::from_tag(tag)?, key: key.try_into().ok()? })
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.space.name(), hex::encode(self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_refuse_strangers() {
        for space in Space::ALL {
            let id = EntryId::new(space, [7; 32]);
            assert_eq!(EntryId::from_bytes(&id.to_bytes()), Some(id));
        }
        assert_eq!(EntryId::from_bytes(&[0; ENTRY_ID_BYTES]), None);
        assert_eq!(EntryId::from_bytes(b"s"), None);
        assert_eq!(EntryId::from_bytes(b""), None);
    }
}
