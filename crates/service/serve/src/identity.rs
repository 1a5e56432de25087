//! Hashes that identify callers, and what they see and store.

use antares_abi::Sha256Digest;

use crate::peer::Peer;

/// Prefix of a tenant's view and entries; tenants that are not isolated share one.
pub type Namespace = [u8; 32];

/// Makes keys specific to one tenant, or leaves them unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salt(Option<[u8; 32]>);

impl Salt {
    /// The salt of a tenant, if tenants have one.
    pub fn of(holder: [u8; 32]) -> Self {
        Self(Some(holder))
    }

    /// The key that replaces `key`.
    pub fn apply(self, key: [u8; 32]) -> [u8; 32] {
        self.0.map_or(key, |salt| hashed(&[b"antares-salted-v1\0", &salt, &key]))
    }
}

/// The authenticated identity of a caller: a tenant, or else a peer. No caller has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    /// The identity of an authenticated tenant.
    pub fn of_tenant(name: &str) -> Self {
        Self(hashed(&[b"antares-identity-v1\0tenant\0", name.as_bytes()]))
    }

    /// The identity of a peer.
    pub fn of_peer(peer: Peer) -> Self {
        Self(hashed(&[b"antares-identity-v1\0peer\0", peer.to_string().as_bytes()]))
    }
}

/// The SHA-256 of `parts`, one after the other.
pub(crate) fn hashed(parts: &[&[u8]]) -> [u8; 32] {
    Sha256Digest::of(&parts.concat()).0
}
