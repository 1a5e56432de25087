//! Entries whose bytes are derived from their numbers, so that any process can verify them.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

pub(crate) fn key(number: u64) -> [u8; 32] {
    let mut key = [0; 32];
    SmallRng::seed_from_u64(number).fill(&mut key[..]);
    key
}

pub(crate) fn content(number: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(!number);
    let mut bytes = vec![0; random.random_range(0..60_000)];
    random.fill(&mut bytes[..]);
    bytes
}
