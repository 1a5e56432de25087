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

#[derive(Clone, Debug)]
struct InBytes;

impl Weighter<Id, Bytes> for InBytes {
    fn weight(&self, _: &Id, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

#[derive(Debug)]
pub struct Memory {
    entries: Cache<Id, Bytes, InBytes>,
}

impl Memory {
    /// A tier of at most `bytes_max` bytes, which may be zero.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
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
        Self {
            entries: Cache::with_options(
                options,
                InBytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
        }
    }

    /// The bytes of an entry, if it is in memory.
    #[must_use]
    pub fn read(&self, space: Space, key: [u8; 32]) -> Option<Bytes> {
        self.entries.get(&(space, key))
    }

    /// Stores an entry, if it fits.
    pub fn keep(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        self.entries.insert((space, key), bytes);
    }

    /// Removes an entry.
    pub fn forget(&self, space: Space, key: [u8; 32]) {
        self.entries.remove(&(space, key));
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Size of the stored entries in bytes, with their overhead.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_no_more_than_its_budget() {
        let memory = Memory::new(1 << 20);
        for number in 0..200u8 {
            memory.keep(Space::Artifact, [number; 32], vec![number; 16 << 10].into());
            assert!(memory.bytes() <= 1 << 20);
        }
        assert!(memory.bytes() > 1 << 19);
        memory.keep(Space::Script, [1; 32], vec![0; 2 << 20].into());
        assert_eq!(memory.read(Space::Script, [1; 32]), None, "larger than all of it");
        assert_eq!(Memory::new(0).read(Space::Script, [0; 32]), None);
    }
}
