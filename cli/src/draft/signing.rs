//! Keys, multi-signatures, and the message that CKB's locks verify.

use ckb_hash::{blake2b_256, new_blake2b};
use ckb_types::{bytes::Bytes, packed::Byte32, prelude::*};
use secp256k1::{Message, PublicKey, Secp256k1, SecretKey};

/// Bytes of a recoverable signature.
pub(crate) const SIGNATURE_BYTES: usize = 65;

/// ckb's hash of the compressed public key, shortened.
pub(crate) fn pubkey_hash(key: &SecretKey) -> [u8; 20] {
    hash_160(&PublicKey::from_secret_key(&Secp256k1::signing_only(), key).serialize())
}

/// The first 20 bytes of ckb's hash.
pub(crate) fn hash_160(bytes: &[u8]) -> [u8; 20] {
    let mut short = [0; 20];
    short.copy_from_slice(&blake2b_256(bytes)[..20]);
    short
}

/// The data whose hash a multi-signature lock stores: version, keys that must sign, threshold, keys.
pub(crate) fn multisig(threshold: u8, count: u8, keys: &[SecretKey]) -> Vec<u8> {
    [0, 0, threshold, count].into_iter().chain(keys.iter().flat_map(pubkey_hash)).collect()
}

pub(crate) fn sign(key: &SecretKey, message: [u8; 32]) -> Vec<u8> {
    let signature = Secp256k1::signing_only().sign_ecdsa_recoverable(&Message::from_digest(message), key);
    let (recovery, bytes) = signature.serialize_compact();
    let recovery = u8::try_from(i32::from(recovery)).unwrap_or_default();
    bytes.into_iter().chain([recovery]).collect()
}

/// The hash of the transaction and of `signed`: the witnesses of a group, with zeros for signatures, and
/// those after the inputs.
pub(crate) fn message<'a>(transaction: &Byte32, signed: impl Iterator<Item = &'a Bytes>) -> [u8; 32] {
    let (mut hash, mut message) = (new_blake2b(), [0; 32]);
    hash.update(transaction.as_slice());
    for witness in signed {
        hash.update(&(witness.len() as u64).to_le_bytes());
        hash.update(witness);
    }
    hash.finalize(&mut message);
    message
}
