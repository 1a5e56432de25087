//! Decides which native code may run: signed manifests, trusted keys and revocations.
//!
//! The compiler side signs a [`Manifest`] with a key of its [`Keyring`]. The runner side verifies the
//! manifest with the public keys of its own keyring before it maps a byte executable.

mod keyring;
mod manifest;
mod trust;

pub use keyring::{KeyError, Keyring, LIST, PublicKey, is_key_id};
pub use manifest::{Facts, Manifest, Refusal};
pub use trust::Trust;
