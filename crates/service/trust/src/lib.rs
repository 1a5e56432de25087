//! Which native code may run: signed manifests, the keys that are trusted, and what was revoked.
//!
//! Whoever compiles signs a [`Manifest`] with a key of its [`Keyring`]; whoever runs verifies it against a
//! keyring with the public halves, before a byte is mapped executable.
#![forbid(unsafe_code)]

mod keyring;
mod manifest;
mod trust;

pub use keyring::{KeyError, Keyring, LIST, PublicKey, is_key_id};
pub use manifest::{Facts, Manifest, Refusal};
pub use trust::Trust;
