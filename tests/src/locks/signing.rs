//! Hashes and signatures of transactions that locks verify.

use ckb_hash::{blake2b_256, new_blake2b};
use ckb_types::packed::Byte32;
use ckb_types::prelude::*;
use secp256k1::{Message, PublicKey, Secp256k1, SecretKey};
use tiny_keccak::{Hasher, Keccak};

/// Ethereum's hash.
fn keccak_256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    let mut keccak = Keccak::v256();
    keccak.update(bytes);
    keccak.finalize(&mut hash);
    hash
}

/// Bytes of a recoverable signature.
const SIGNATURE_BYTES: usize = 65;

#[derive(Clone, Copy, Debug)]
pub(super) struct Key(SecretKey);

impl Key {
    /// The key with this number, which is deterministic: keys of tests are not secret.
    pub(super) fn new(number: u8) -> Self {
        let bytes = blake2b_256([b'k', b'e', b'y', number]);
        #[expect(clippy::expect_used, reason = "one hash in 2^128 is no key, and these are known")]
        Self(SecretKey::from_byte_array(&bytes).expect("the number is below the group's order"))
    }

    fn public(&self) -> PublicKey {
        self.0.public_key(&Secp256k1::new())
    }

    /// ckb's hash of the compressed public key.
    pub(super) fn blake_160(&self) -> [u8; 20] {
        blake_160(&self.public().serialize())
    }

    pub(super) fn keccak_160(&self) -> [u8; 20] {
        first(&keccak_256(&self.public().serialize_uncompressed()[1..])[12..])
    }

    fn sign(&self, digest: [u8; 32]) -> Vec<u8> {
        let signature = Secp256k1::new().sign_ecdsa_recoverable(&Message::from_digest(digest), &self.0);
        let (recovery, bytes) = signature.serialize_compact();
        let mut bytes = bytes.to_vec();
        bytes.push(u8::try_from(i32::from(recovery)).unwrap_or(0));
        bytes
    }
}

fn first(bytes: &[u8]) -> [u8; 20] {
    bytes.first_chunk().copied().unwrap_or_default()
}

/// The first 20 bytes of ckb's hash.
pub(super) fn blake_160(bytes: &[u8]) -> [u8; 20] {
    first(&blake2b_256(bytes))
}

/// How a multi-signature lock identifies its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// The first 20 bytes of their hashes.
    Hashed,
    /// All 33 bytes.
    Whole,
}

/// How a group of inputs is unlocked.
#[derive(Clone, Debug, Default)]
pub(super) struct Unlock {
    /// Prefix of the signatures: for a multi-signature lock, its keys and their threshold.
    config: Vec<u8>,
    keys: Vec<Key>,
    /// The message has the format of Ethereum's wallets.
    is_ethereum: bool,
    /// Signatures are in omnilock's table.
    is_omnilock: bool,
}

impl Unlock {
    pub(super) fn one(key: Key) -> Self {
        Self { keys: vec![key], ..Self::default() }
    }

    pub(super) fn two_of(keys: &[Key], form: KeyForm) -> Self {
        Self { config: two_of(keys, form), keys: keys[..2].to_vec(), ..Self::default() }
    }

    /// No key: the lock does not require a signature.
    pub(super) fn nobody() -> Self {
        Self::default()
    }

    /// Signs Ethereum's form of the message.
    pub(super) fn ethereum(self) -> Self {
        Self { is_ethereum: true, ..self }
    }

    /// Puts the signature into omnilock's table.
    pub(super) fn omnilock(self) -> Self {
        Self { is_omnilock: true, ..self }
    }

    /// The witness while it is signed.
    pub(super) fn placeholder(&self) -> Vec<u8> {
        let mut lock = self.config.clone();
        lock.resize(self.config.len() + SIGNATURE_BYTES * self.keys.len(), 0);
        // Omnilock hashes its whole field as zeros; the others hash the prefix of the signatures unchanged.
        if self.is_omnilock { vec![0; omnilock_witness(&lock).len()] } else { lock }
    }

    /// The witness with the signature of `message`.
    pub(super) fn sign(&self, message: [u8; 32]) -> Vec<u8> {
        let digest = if self.is_ethereum {
            keccak_256(&[b"\x19Ethereum Signed Message:\n32".as_slice(), &message].concat())
        } else {
            message
        };
        let signatures = self.keys.iter().flat_map(|key| key.sign(digest));
        let lock: Vec<u8> = self.config.iter().copied().chain(signatures).collect();
        if self.is_omnilock { omnilock_witness(&lock) } else { lock }
    }
}

/// The configuration of a 2-of-n multi-signature lock, whose hash is in its arguments and which its witnesses
/// repeat.
pub(super) fn two_of(keys: &[Key], form: KeyForm) -> Vec<u8> {
    let count = u8::try_from(keys.len()).unwrap_or(u8::MAX);
    let mut config = vec![0, 0, 2, count];
    keys.iter().for_each(|key| match form {
        KeyForm::Hashed => config.extend(key.blake_160()),
        KeyForm::Whole => config.extend(key.public().serialize()),
    });
    config
}

/// `OmniLockWitnessLock` with a signature, without an identity or a preimage.
fn omnilock_witness(signature: &[u8]) -> Vec<u8> {
    const HEAD: u32 = 16;
    let length = u32::try_from(signature.len()).unwrap_or(u32::MAX);
    let end = HEAD + 4 + length;
    let words = [end, HEAD, end, end, length];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(signature);
    bytes
}

/// The message of ckb's locks: the transaction, the witnesses of the group with a placeholder in the first
/// one, and the witnesses after the inputs.
pub(super) fn sighash(
    transaction: &Byte32,
    witnesses: &[Vec<u8>],
    signed: impl IntoIterator<Item = usize>,
) -> [u8; 32] {
    let mut hash = new_blake2b();
    hash.update(transaction.as_slice());
    for witness in signed.into_iter().filter_map(|index| witnesses.get(index)) {
        hash.update(&(witness.len() as u64).to_le_bytes());
        hash.update(witness);
    }
    let mut message = [0; 32];
    hash.finalize(&mut message);
    message
}
