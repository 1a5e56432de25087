//! Entries in memory: those used lately, within a budget of bytes.

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{CacheTier, Space, TierError};

type Id = (Space, [u8; 32]);

/// Bytes that an entry takes beside its own.
const ENTRY_BYTES: u64 = 128;

/// Parts that are locked by themselves.
const SHARDS: usize = 2;

#[derive(Clone, Debug)]
struct InBytes;

impl Weighter<Id, Bytes> for InBytes {
    fn weight(&self, _: &Id, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// The tier in memory.
#[derive(Debug)]
pub struct Memory {
    entries: Cache<Id, Bytes, InBytes>,
}

impl Memory {
    /// Room for `bytes_max` bytes; none at all is fine.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        // Native code is some hundred KiB: the estimate only sizes a table.
        let estimated = usize::try_from(bytes_max >> 17).unwrap_or(0).clamp(16, 1 << 16);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(estimated)
            .weight_capacity(bytes_max)
            // An entry fits if it fits a shard.
            .shards(SHARDS)
            .build();
        // It fails where one of these is not given.
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

    /// The bytes of an entry.
    #[must_use]
    pub fn look(&self, space: Space, key: [u8; 32]) -> Option<Bytes> {
        self.entries.get(&(space, key))
    }

    /// Keeps an entry, if it fits.
    pub fn keep(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        self.entries.insert((space, key), bytes);
    }

    /// Forgets an entry.
    pub fn forget(&self, space: Space, key: [u8; 32]) {
        self.entries.remove(&(space, key));
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }
}

impl CacheTier for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<Option<Bytes>, TierError>> {
        async move { Ok(self.look(space, key)) }.boxed()
    }

    fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> BoxFuture<'_, Result<(), TierError>> {
        async move {
            self.keep(space, key, bytes);
            Ok(())
        }
        .boxed()
    }

    fn remove(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<(), TierError>> {
        async move {
            self.forget(space, key);
            Ok(())
        }
        .boxed()
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
        assert_eq!(memory.look(Space::Script, [1; 32]), None, "larger than all of it");
        assert_eq!(Memory::new(0).look(Space::Script, [0; 32]), None);
    }
}
