//! In-memory cache whose entries belong to the tenant that added them.
//!
//! A tenant sees only its own entries. All tenants share one budget. When it is used up, a tenant above its
//! share is evicted: a tenant that adds entries without end evicts its own.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::Sealed;
use antares_serve::Namespace;
use parking_lot::Mutex;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, unsync::Cache};

/// Bytes of a page, the unit of a file's memory; a file's metadata counts another page.
const PAGE_BYTES: u64 = 4096;

/// How long a tenant keeps its share after its last call.
const SHARE_AGE_MAX: Duration = Duration::from_secs(600);

/// A value that can be cached.
pub(crate) trait Hot: Clone {
    /// Bytes of its file in memory.
    fn bytes(&self) -> u64;

    /// Whether it must not be evicted now.
    fn is_pinned(&self) -> bool {
        false
    }
}

impl Hot for Arc<Sealed> {
    fn bytes(&self) -> u64 {
        self.len()
    }
}

/// Entries of all tenants, bounded in bytes and files. Values in use outlive their eviction.
pub(crate) struct TenantCache<K, V> {
    charges: Charges,
    bytes_max: u64,
    shares: Arc<Mutex<Shares>>,
    state: Mutex<TypedCache<K, V>>,
}

type Entries<K, V> = Cache<(Namespace, K), V, Charges, DefaultHashBuilder, Fair>;

struct TypedCache<K, V> {
    entries: Entries<K, V>,
    hits: u64,
    misses: u64,
}

/// Values for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HotStats {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Weights of entries: whole pages plus one, and at least their part of the file limit.
#[derive(Clone, Copy, Debug)]
struct Charges {
    least: u64,
}

impl Charges {
    fn of(self, value: &impl Hot) -> u64 {
        (value.bytes().next_multiple_of(PAGE_BYTES) + PAGE_BYTES).max(self.least)
    }
}

impl<K, V: Hot> Weighter<(Namespace, K), V> for Charges {
    fn weight(&self, _: &(Namespace, K), value: &V) -> u64 {
        self.of(value)
    }
}

/// Usage of each tenant.
#[derive(Debug)]
struct Shares {
    tenants: HashMap<Namespace, Share>,
    /// Each tenant's share of an exhausted budget.
    share: u64,
    /// Bytes of all files.
    bytes: u64,
    now: Instant,
}

#[derive(Debug)]
struct Share {
    charged: u64,
    used: Instant,
}

impl Shares {
    /// Records an entry of weight `charge`. Recently active tenants share the budget.
    fn enter(&mut self, namespace: Namespace, charge: u64, bytes_max: u64) {
        self.now = Instant::now();
        let now = self.now;
        let tenant = self.tenants.entry(namespace).or_insert(Share { charged: 0, used: now });
        tenant.charged += charge;
        tenant.used = now;
        let active = self.tenants.values().filter(|tenant| now.duration_since(tenant.used) < SHARE_AGE_MAX);
        self.share = bytes_max / active.count().max(1) as u64;
    }

    fn leave(&mut self, namespace: Namespace, charge: u64) {
        if let Some(tenant) = self.tenants.get_mut(&namespace) {
            tenant.charged -= charge;
            if tenant.charged == 0 {
                self.tenants.remove(&namespace);
            }
        }
    }

    /// Whether a tenant's entries stay even when others need memory.
    fn is_within_share(&self, namespace: &Namespace) -> bool {
        self.tenants.get(namespace).is_some_and(|tenant| {
            tenant.charged <= self.share && self.now.duration_since(tenant.used) < SHARE_AGE_MAX
        })
    }
}

/// Selects the tenant whose entries are evicted.
struct Fair {
    charges: Charges,
    shares: Arc<Mutex<Shares>>,
}

impl<K, V: Hot> Lifecycle<(Namespace, K), V> for Fair {
    type RequestState = ();

    fn is_pinned(&self, (namespace, _): &(Namespace, K), value: &V) -> bool {
        value.is_pinned() || self.shares.lock().is_within_share(namespace)
    }

    fn on_evict(&self, (): &mut (), (namespace, _): (Namespace, K), value: V) {
        let mut shares = self.shares.lock();
        shares.bytes -= value.bytes();
        shares.leave(namespace, self.charges.of(&value));
    }
}

impl<K: Copy + Eq + Hash, V: Hot> TenantCache<K, V> {
    /// Empty, with at most `bytes_max` bytes and `entries_max` files.
    pub(crate) fn new(bytes_max: u64, entries_max: u64) -> Self {
        let charges = Charges { least: bytes_max / entries_max.max(1) };
        let (tenants, now) = (HashMap::new(), Instant::now());
        let shares = Arc::new(Mutex::new(Shares { tenants, share: bytes_max, bytes: 0, now }));
        let options = OptionsBuilder::new()
            .estimated_items_capacity(usize::try_from(entries_max).unwrap_or(usize::MAX).min(1 << 12))
            .weight_capacity(bytes_max)
            .build()
            .unwrap_or_else(|_| unreachable!("both are given"));
        let fair = Fair { charges, shares: shares.clone() };
        let entries = Cache::with_options(options, charges, DefaultHashBuilder::default(), fair);
        Self { charges, bytes_max, shares, state: Mutex::new(TypedCache { entries, hits: 0, misses: 0 }) }
    }

    /// The tenant's value under `key`.
    pub(crate) fn get(&self, namespace: Namespace, key: K) -> Option<V> {
        let mut state = self.state.lock();
        let found = state.entries.get(&(namespace, key)).cloned();
        let counted = if found.is_some() { &mut state.hits } else { &mut state.misses };
        *counted += 1;
        drop(state);
        if let Some(tenant) = self.shares.lock().tenants.get_mut(&namespace) {
            tenant.used = Instant::now();
        }
        found
    }

    /// The tenant's entries that are `is_wanted`; each counts as used.
    pub(crate) fn find(&self, namespace: Namespace, is_wanted: impl Fn(&V) -> bool) -> Vec<(K, V)> {
        let state = self.state.lock();
        let own = state.entries.iter().filter(|((of, _), value)| *of == namespace && is_wanted(value));
        let found: Vec<_> = own.map(|((_, key), value)| (*key, value.clone())).collect();
        for (key, _) in &found {
            state.entries.get(&(namespace, *key));
        }
        found
    }

    /// Stores `value` for the tenant under `key`, replacing any other. Skips it if pinned entries leave no
    /// capacity.
    pub(crate) fn put(&self, namespace: Namespace, key: K, value: V) {
        let id = (namespace, key);
        let mut state = self.state.lock();
        self.take_out(&mut state, &id);
        let (charge, bytes) = (self.charges.of(&value), value.bytes());
        if charge > self.bytes_max {
            return;
        }
        let mut shares = self.shares.lock();
        shares.bytes += bytes;
        shares.enter(id.0, charge, self.bytes_max);
        drop(shares);
        state.entries.insert(id, value);
        if state.entries.weight() > self.bytes_max {
            self.take_out(&mut state, &id);
        }
    }

    pub(crate) fn remove(&self, namespace: Namespace, key: K) {
        self.take_out(&mut self.state.lock(), &(namespace, key));
    }

    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        let mut shares = self.shares.lock();
        shares.tenants.clear();
        shares.bytes = 0;
    }

    pub(crate) fn stats(&self) -> HotStats {
        let state = self.state.lock();
        let entries = state.entries.len() as u64;
        HotStats { bytes: self.shares.lock().bytes, entries, hits: state.hits, misses: state.misses }
    }

    fn take_out(&self, state: &mut TypedCache<K, V>, id: &(Namespace, K)) {
        if let Some((_, value)) = state.entries.remove(id) {
            let mut shares = self.shares.lock();
            shares.bytes -= value.bytes();
            shares.leave(id.0, self.charges.of(&value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    const KIB: u64 = 1024;

    /// 60 KiB, which count as 64.
    #[derive(Clone, Debug, Default)]
    struct Block(Arc<AtomicBool>);

    impl Hot for Block {
        fn bytes(&self) -> u64 {
            60 * KIB
        }

        fn is_pinned(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    /// Capacity for this many blocks.
    fn cache(blocks: u64) -> TenantCache<u32, Block> {
        TenantCache::new(blocks * 64 * KIB, 100)
    }

    fn put(cache: &TenantCache<u32, Block>, tenant: Namespace, keys: std::ops::Range<u32>) {
        keys.for_each(|key| cache.put(tenant, key, Block::default()));
    }

    fn cached_count(cache: &TenantCache<u32, Block>, tenant: Namespace, keys: std::ops::Range<u32>) -> usize {
        keys.filter(|key| cache.get(tenant, *key).is_some()).count()
    }

    #[test]
    fn a_tenant_finds_its_own_entries_alone() {
        let (cache, [a, b]) = (cache(8), [[1; 32], [2; 32]]);
        put(&cache, a, 0..2);
        assert_eq!((cached_count(&cache, a, 0..2), cached_count(&cache, b, 0..2)), (2, 0));
        assert!(cache.find(b, |_| true).is_empty());
        put(&cache, b, 0..1);
        cache.remove(b, 0);
        assert_eq!((cached_count(&cache, a, 0..2), cached_count(&cache, b, 0..2)), (2, 0));
    }

    #[test]
    fn a_flood_evicts_its_own() {
        let (cache, [a, b]) = (cache(8), [[1; 32], [2; 32]]);
        put(&cache, b, 0..4);
        put(&cache, a, 0..1000);
        assert_eq!((cached_count(&cache, b, 0..4), cached_count(&cache, a, 0..1000)), (4, 4));
        assert_eq!(cache.stats().bytes, 8 * 60 * KIB);
    }

    #[test]
    fn a_tenant_alone_has_all_and_gives_a_newcomer_its_share() {
        let (cache, [a, b]) = (cache(8), [[1; 32], [2; 32]]);
        put(&cache, a, 0..1000);
        assert_eq!(cached_count(&cache, a, 0..1000), 8);
        put(&cache, b, 0..100);
        assert_eq!((cached_count(&cache, a, 0..1000), cached_count(&cache, b, 0..100)), (4, 4));
    }

    #[test]
    fn a_tenant_that_makes_no_calls_gives_way() {
        let (cache, [a, b]) = (cache(8), [[1; 32], [2; 32]]);
        put(&cache, b, 0..4);
        for share in cache.shares.lock().tenants.values_mut() {
            share.used = Instant::now().checked_sub(SHARE_AGE_MAX).unwrap();
        }
        put(&cache, a, 0..1000);
        assert_eq!((cached_count(&cache, b, 0..4), cached_count(&cache, a, 0..1000)), (0, 8));
    }

    #[test]
    fn what_is_pinned_stays_and_the_budget_holds() {
        let (cache, a) = (cache(4), [1; 32]);
        let pinned = Block(Arc::new(AtomicBool::new(true)));
        (0..4).for_each(|key| cache.put(a, key, pinned.clone()));
        put(&cache, a, 4..10);
        assert_eq!((cached_count(&cache, a, 0..4), cached_count(&cache, a, 4..10)), (4, 0));
        pinned.0.store(false, Relaxed);
        put(&cache, a, 4..10);
        assert_eq!(cache.stats().entries, 4);
    }

    #[test]
    fn bytes_are_counted_once_and_given_back() {
        let (cache, a) = (TenantCache::<u32, Block>::new(10 * 64 * KIB, 2), [1; 32]);
        put(&cache, a, 0..5);
        put(&cache, a, 4..5);
        assert_eq!((cache.stats().entries, cache.stats().bytes), (2, 120 * KIB), "files are few");
        cache.remove(a, 4);
        cache.remove(a, 4);
        assert_eq!(cache.stats().bytes, 60 * KIB);
        cache.clear();
        assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
        put(&TenantCache::new(KIB, 1), a, 0..1);
    }
}
