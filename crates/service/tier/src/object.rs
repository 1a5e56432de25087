//! The object format of an entry: its identity, the digest of its bytes, and the bytes.
//!
//! A truncated, renamed or modified object is rejected.

use bytes::{BufMut as _, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use crate::Space;

const MAGIC: &[u8; 8] = b"antaro1\n";

/// Length of an object's header in bytes: magic, space, key, digest.
pub const HEAD_BYTES: usize = MAGIC.len() + 1 + 32 + 32;

/// Why an object is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// The object is shorter than its header or has another magic.
    #[error("it is not an object of ours, or cut")]
    Malformed,
    /// The object belongs to another entry.
    #[error("it is the object of another entry")]
    OtherEntry,
    /// The bytes do not match their digest.
    #[error("its bytes are not those that were stored")]
    OtherBytes,
    /// The object exceeds the maximum length of an entry.
    #[error("it is longer than any entry may be")]
    TooLong,
}

/// Encodes an entry as an object.
pub(crate) fn wrap(space: Space, key: [u8; 32], bytes: &[u8]) -> Bytes {
    let mut object = BytesMut::with_capacity(HEAD_BYTES + bytes.len());
    object.put_slice(MAGIC);
    object.put_u8(space.tag());
    object.put_slice(&key);
    object.put_slice(&Sha256::digest(bytes));
    object.put_slice(bytes);
    object.freeze()
}

/// The digest in the header of `object`; the header must name this entry.
pub(crate) fn digest_of(space: Space, key: [u8; 32], object: &[u8]) -> Result<&[u8], Unsound> {
    let head = object.get(..HEAD_BYTES).ok_or(Unsound::Malformed)?;
    let rest = head.strip_prefix(MAGIC).ok_or(Unsound::Malformed)?;
    let (id, digest) = rest.split_at(33);
    if id[0] != space.tag() || id[1..] != key {
        return Err(Unsound::OtherEntry);
    }
    Ok(digest)
}

/// Decodes and verifies `object`, which must be this entry.
pub(crate) fn unwrap(space: Space, key: [u8; 32], object: &Bytes) -> Result<Bytes, Unsound> {
    let digest = digest_of(space, key, object)?;
    let bytes = object.slice(HEAD_BYTES..);
    if Sha256::digest(&bytes)[..] != *digest || (space == Space::Script && *digest != key) {
        return Err(Unsound::OtherBytes);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_of_an_object_can_be_changed_or_lost() {
        let key: [u8; 32] = Sha256::digest(b"script").into();
        let object = wrap(Space::Script, key, b"script");
        assert_eq!(unwrap(Space::Script, key, &object), Ok(Bytes::from_static(b"script")));
        assert_eq!(unwrap(Space::Script, [0; 32], &object), Err(Unsound::OtherEntry));
        assert_eq!(unwrap(Space::Artifact, key, &object), Err(Unsound::OtherEntry));
        for length in 0..object.len() {
            assert!(unwrap(Space::Script, key, &object.slice(..length)).is_err(), "{length}");
        }
        for at in 0..object.len() {
            let mut changed = object.to_vec();
            changed[at] ^= 1;
            assert!(unwrap(Space::Script, key, &changed.into()).is_err(), "{at}");
        }
        let other = wrap(Space::Script, key, b"other");
        let other = unwrap(Space::Script, key, &other);
        assert_eq!(other, Err(Unsound::OtherBytes), "a script has its digest as key");
    }
}
