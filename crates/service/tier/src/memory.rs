//! The memory tier: recently used entries, within a budget of bytes.

use bytes::Bytes;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::Space;

type Id = (Space, [u8; 32]);

/// Overhead of an entry in bytes, in addition to its own.
const ENTRY_BYTES: u64 = 128;

/// Number of shards with separate locks.
const SHARDS: usize = 2;

/// Weighs an entry by its bytes and its overhead.
#[derive(Clone, Debug)]
pub struct InBytes;

impl Weighter<Id, Bytes> for InBytes {
    fn weight(&self, _: &Id, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// The memory tier: entries by space and key; its weight is their size in bytes, with their overhead.
pub type Memory = Cache<Id, Bytes, InBytes>;

/// A tier of at most `bytes_max` bytes, which may be zero.
pub fn memory(bytes_max: u64) -> Memory {
    // Native code is a few hundred KiB; the estimate only sizes a table.
    let estimated = usize::try_from(bytes_max >> 17).unwrap_or(0).clamp(16, 1 << 16);
    let options = OptionsBuilder::new()
        .estimated_items_capacity(estimated)
        .weight_capacity(bytes_max)
        // An entry must fit into one shard.
        .shards(SHARDS)
        .build();
    // `build` fails only if one of these options is missing.
    let options = options.unwrap_or_else(|_| unreachable!("all options are given"));
    Cache::with_options(options, InBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_no_more_than_its_budget() {
        let entries = memory(1 << 20);
        for number in 0..200u8 {
            entries.insert((Space::Artifact, [number; 32]), vec![number; 16 << 10].into());
            assert!(entries.weight() <= 1 << 20);
        }
        assert!(entries.weight() > 1 << 19);
        entries.insert((Space::Script, [1; 32]), vec![0; 2 << 20].into());
        assert_eq!(entries.get(&(Space::Script, [1; 32])), None, "larger than all of it");
        assert_eq!(memory(0).get(&(Space::Script, [0; 32])), None);
    }
}
