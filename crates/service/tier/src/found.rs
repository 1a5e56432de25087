//! Objects in a store and their names.

use bytes::Bytes;
use futures_util::stream::BoxStream;

use crate::{Space, failure::Failure};

/// An object of the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Space of its entry.
    pub space: Space,
    /// Key of its entry.
    pub key: [u8; 32],
    /// Length of its entry, bytes.
    pub bytes: u64,
    /// Time of the write, in seconds since 1970.
    pub written: i64,
}

/// Version of the layout, in the name of each object.
pub(crate) const LAYOUT: &str = "v1";

/// An object whose bytes are being read.
pub(crate) struct Found {
    /// Length of the object in bytes.
    pub(crate) length: u64,
    pub(crate) chunks: BoxStream<'static, Result<Bytes, Failure>>,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses the key in an object's name.
pub(crate) fn key_of(name: &str) -> Option<[u8; 32]> {
    let digits = name.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(name.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}
