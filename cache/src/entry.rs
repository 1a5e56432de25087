//! The identity of an entry: its space and its 32-byte key.

use std::fmt;

use strum::IntoStaticStr;

/// Two namespaces, so that a key of one kind never returns bytes of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Space {
    /// Uploaded ELF bytes; the key is the SHA-256 of the bytes.
    Script,
    /// Compiled shared objects; the key is derived from script, options and engine.
    Artifact,
}

/// The owner of an entry, for its share of the cache. Kept in memory only: entries found at startup have no
/// owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Number of the peer.
    pub peer: u64,
    /// Number of the tenant, as the peer assigns it.
    pub tenant: u64,
}

/// Bytes of an [`EntryId`] on disk: one for the space, 32 for the key.
pub(crate) const ENTRY_ID_BYTES: usize = 33;

/// Space and key of one entry. Its bytes are the key in the `manifest` tree and the prefix in the `chunk`
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
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its byte on disk and in objects.
    pub fn tag(self) -> u8 {
        match self {
            Self::Script => b's',
            Self::Artifact => b'a',
        }
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

    /// Decodes an id; `None` if the length or the tag is invalid.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (tag, key) = bytes.split_first()?;
        let space = Space::ALL.into_iter().find(|space| space.tag() == *tag)?;
        Some(Self { space, key: key.try_into().ok()? })
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
