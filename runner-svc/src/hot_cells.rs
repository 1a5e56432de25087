//! Cells that transactions share, kept in sealed memory files with both of their hashes: fetched, hashed and sealed once.
//!
//! A tenant holds what it has used. When room is needed, who has more than its share (all room, divided by the tenants that
//! hold something) lets go of what it used longest ago: who brings cells without end moves its own.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use antares_abi::Sha256Digest;
use antares_pool::Sealed;
use antares_serve::{Account, Fault, Flights, HeldBytes, Metrics, RequestBytes, set_gauge, set_total};
use antares_transaction::data_hash;
use bytes::Bytes;

use crate::{
    library::seal,
    source::{ArtifactSource, SourceError},
};

/// Bytes that the kernel gives a file at a time.
const PAGE_BYTES: u64 = 4096;

/// Data of a cell in a sealed memory file, hashed once.
#[derive(Debug)]
pub(crate) struct HotCell {
    pub(crate) sealed: Arc<Sealed>,
    /// The data, mapped.
    pub(crate) bytes: Bytes,
    /// ckb's hash of the data.
    pub(crate) data_hash: [u8; 32],
    /// What is held for it while calls use it.
    held: Mutex<Weak<HeldBytes>>,
}

/// Hot cells by last use, of all tenants together at most so many bytes and files. What is lent out lives on when it leaves.
pub(crate) struct HotCells {
    source: Arc<dyn ArtifactSource>,
    flights: Flights<Sha256Digest, Result<Arc<HotCell>, SourceError>>,
    bytes_max: u64,
    /// The least that a cell counts: each takes a descriptor, and there are so many.
    charge_min: u64,
    state: Mutex<State>,
}

/// A tenant, by name.
type Holder = Arc<str>;

#[derive(Default)]
struct State {
    entries: HashMap<Sha256Digest, Entry>,
    holders: HashMap<Holder, Holds>,
    /// Those that left while somebody held them.
    lent: HashMap<Sha256Digest, Weak<HotCell>>,
    tick: u64,
    charged: u64,
    bytes: u64,
    hits: u64,
    misses: u64,
}

struct Entry {
    cell: Arc<HotCell>,
    /// When each of its holders used it last.
    used: HashMap<Holder, u64>,
}

/// What a tenant holds.
#[derive(Default)]
struct Holds {
    charged: u64,
    /// Keys by the tick of their last use.
    order: BTreeMap<u64, Sha256Digest>,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HotCellsStats {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl HotCell {
    fn new(sealed: Sealed) -> std::io::Result<Self> {
        let bytes = sealed.map()?;
        let data_hash = data_hash(&bytes);
        Ok(Self { sealed: Arc::new(sealed), bytes, data_hash, held: Mutex::default() })
    }

    /// Holds its bytes in `room`, unless a call does that already.
    pub(crate) fn hold(&self, room: Option<&RequestBytes>) -> Result<Arc<HeldBytes>, Fault> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.upgrade() {
            return Ok(held);
        }
        let bytes = Arc::new(RequestBytes::hold(room, self.bytes.len())?);
        *held = Arc::downgrade(&bytes);
        Ok(bytes)
    }

    /// Seals and hashes `bytes`, in a thread that may block.
    async fn of(bytes: Bytes) -> Result<Self, SourceError> {
        let sealed = seal("antares-cell", bytes).await?;
        match tokio::task::spawn_blocking(move || Self::new(sealed)).await {
            Ok(Ok(cell)) => Ok(cell),
            Ok(Err(error)) => {
                tracing::error!(%error, "a memory file cannot be mapped");
                Err(SourceError::Internal)
            }
            // It panicked; the hook has told where.
            Err(_) => Err(SourceError::Internal),
        }
    }
}

impl HotCells {
    /// None yet, of at most `bytes_max` bytes and `entries_max` files.
    pub(crate) fn new(source: Arc<dyn ArtifactSource>, bytes_max: u64, entries_max: u64) -> Self {
        let charge_min = bytes_max / entries_max.max(1);
        Self { source, flights: Flights::default(), bytes_max, charge_min, state: Mutex::default() }
    }

    /// The cell data that was uploaded under `digest`, as `account` sees it.
    ///
    /// # Errors
    /// It is not stored, cannot be fetched now, or is not what its digest says.
    pub(crate) async fn get(
        &self,
        account: &Account,
        digest: Sha256Digest,
    ) -> Result<Arc<HotCell>, SourceError> {
        let key = Sha256Digest(account.apart().apply(digest.0));
        if let Some(cell) = self.find(account, key) {
            return Ok(cell);
        }
        let source = self.source.of(account);
        let fetched = self.flights.join(key, || async move {
            let cell = HotCell::of(source.script(digest).await?).await?;
            match cell.sealed.digest() {
                found if found == digest => Ok(Arc::new(cell)),
                found => Err(SourceError::Corrupt { detail: format!("data with digest {found}") }),
            }
        });
        let cell = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        self.put(account, key, cell.clone());
        Ok(cell)
    }

    /// Cell data that came along. Found again by its digest, by `account` alone where tenants are apart.
    ///
    /// # Errors
    /// There are no descriptors or no memory left.
    pub(crate) async fn keep(&self, account: &Account, bytes: Bytes) -> Result<Arc<HotCell>, SourceError> {
        let key = Sha256Digest(account.apart().apply(Sha256Digest::of(&bytes).0));
        if let Some(known) = self.find(account, key) {
            return Ok(known);
        }
        let cell = Arc::new(HotCell::of(bytes).await?);
        self.put(account, key, cell.clone());
        Ok(cell)
    }

    pub(crate) fn stats(&self) -> HotCellsStats {
        let state = self.state();
        let entries = state.entries.len() as u64;
        HotCellsStats { bytes: state.bytes, entries, hits: state.hits, misses: state.misses }
    }

    fn find(&self, account: &Account, key: Sha256Digest) -> Option<Arc<HotCell>> {
        let mut state = self.state();
        let Some(entry) = state.entries.get(&key) else {
            let lent = state.lent.get(&key).and_then(Weak::upgrade);
            let counted = if lent.is_some() { &mut state.hits } else { &mut state.misses };
            *counted += 1;
            return lent;
        };
        let cell = entry.cell.clone();
        state.hits += 1;
        let charge = self.charge(&cell);
        state.hold(&Arc::from(account.tenant()), key, charge);
        Some(cell)
    }

    /// Keeps `cell` for `account`. What is larger than everything is not kept.
    fn put(&self, account: &Account, key: Sha256Digest, cell: Arc<HotCell>) {
        let charge = self.charge(&cell);
        if charge > self.bytes_max {
            return;
        }
        let mut state = self.state();
        if let hash_map::Entry::Vacant(place) = state.entries.entry(key) {
            let bytes = cell.sealed.len();
            place.insert(Entry { cell, used: HashMap::new() });
            state.bytes += bytes;
            state.charged += charge;
        }
        let holder = Arc::from(account.tenant());
        state.hold(&holder, key, charge);
        while state.charged > self.bytes_max {
            let Some(gives) = state.who_gives(&holder, self.bytes_max) else { return };
            state.let_go(&gives, |cell| self.charge(cell));
        }
    }

    /// What a cell counts: whole pages and one more, for the records of it.
    fn charge(&self, cell: &HotCell) -> u64 {
        (cell.sealed.len().next_multiple_of(PAGE_BYTES) + PAGE_BYTES).max(self.charge_min)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes that `holder` uses a cell that is there.
    fn hold(&mut self, holder: &Holder, key: Sha256Digest, charge: u64) {
        self.tick += 1;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let holds = self.holders.entry(holder.clone()).or_default();
        match entry.used.insert(holder.clone(), self.tick) {
            Some(before) => drop(holds.order.remove(&before)),
            None => holds.charged += charge,
        }
        holds.order.insert(self.tick, key);
    }

    /// Who makes room for `holder`: itself, if it has more than its share; else who has most.
    fn who_gives(&self, holder: &Holder, bytes_max: u64) -> Option<Holder> {
        let share = bytes_max / self.holders.len().max(1) as u64;
        if self.holders.get(holder).is_some_and(|holds| holds.charged > share) {
            return Some(holder.clone());
        }
        self.holders.iter().max_by_key(|(_, holds)| holds.charged).map(|(holder, _)| holder.clone())
    }

    /// Lets `holder` let go of what it used longest ago; what nobody holds any more goes.
    fn let_go(&mut self, holder: &Holder, charge: impl Fn(&HotCell) -> u64) {
        let Some(holds) = self.holders.get_mut(holder) else { return };
        let oldest = holds.order.pop_first();
        if let Some((_, key)) = oldest
            && let Some(entry) = self.entries.get_mut(&key)
        {
            let charge = charge(&entry.cell);
            holds.charged -= charge;
            entry.used.remove(holder);
            if entry.used.is_empty() {
                self.charged -= charge;
                self.bytes -= entry.cell.sealed.len();
                if Arc::strong_count(&entry.cell) > 1 {
                    self.lent.retain(|_, cell| cell.strong_count() > 0);
                    self.lent.insert(key, Arc::downgrade(&entry.cell));
                }
                self.entries.remove(&key);
            }
        }
        if holds.order.is_empty() {
            self.holders.remove(holder);
        }
    }
}

/// Exports what `read` gives at each scrape.
pub(crate) fn export_hot_cells(metrics: &Metrics, read: impl Fn() -> HotCellsStats + Send + 'static) {
    let bytes = metrics.gauge("antares_hot_cells_bytes", "Bytes of cell data kept hot in memory.");
    let entries = metrics.gauge("antares_hot_cells", "Cells whose data is kept hot in memory.");
    let hits = metrics.counter("antares_hot_cells_hits_total", "Cells by reference that were hot.");
    let misses =
        metrics.counter("antares_hot_cells_misses_total", "Cells by reference that had to be fetched.");
    metrics.before_scrape(move || {
        let now = read();
        set_gauge(&bytes, now.bytes);
        set_gauge(&entries, now.entries);
        set_total(&hits, now.hits);
        set_total(&misses, now.misses);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use antares_abi::{CompileOptions, Seen};
    use antares_trust::Trust;
    use tonic::async_trait;

    use super::*;
    use crate::source::{Fetched, Wanted};

    const KIB: usize = 1024;

    /// Has blobs of 60 KiB of one byte each, and counts how often it is asked.
    #[derive(Clone, Default)]
    struct Blobs(Arc<AtomicUsize>);

    fn blob(number: u8) -> Bytes {
        Bytes::from(vec![number; 60 * KIB])
    }

    #[async_trait]
    impl ArtifactSource for Blobs {
        fn of(&self, _: &Account) -> Arc<dyn ArtifactSource> {
            Arc::new(self.clone())
        }

        async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let found = (0..=u8::MAX).map(blob).find(|blob| Sha256Digest::of(blob) == digest);
            found.ok_or(SourceError::ScriptNotFound(digest))
        }

        fn trust(&self) -> Option<Arc<Trust>> {
            None
        }

        async fn artifact(&self, _: Wanted) -> Result<Option<Fetched>, SourceError> {
            Ok(None)
        }

        async fn learn(
            &self,
            _: Sha256Digest,
            _: CompileOptions,
            _: Seen,
        ) -> Result<Option<Sha256Digest>, SourceError> {
            Ok(None)
        }
    }

    /// Room for four cells.
    fn hot(source: &Blobs, entries_max: u64) -> HotCells {
        HotCells::new(Arc::new(source.clone()), 256 * KIB as u64, entries_max)
    }

    async fn get(hot: &HotCells, tenant: &str, number: u8) -> Arc<HotCell> {
        hot.get(&Account::named(tenant), Sha256Digest::of(&blob(number))).await.unwrap()
    }

    fn kept(hot: &HotCells, numbers: std::ops::Range<u8>) -> Vec<u8> {
        let state = hot.state();
        numbers.filter(|number| state.entries.contains_key(&Sha256Digest::of(&blob(*number)))).collect()
    }

    #[tokio::test]
    async fn a_cell_is_fetched_once_and_has_both_hashes() {
        let source = Blobs::default();
        let hot = hot(&source, 100);
        let (one, other) = tokio::join!(get(&hot, "a", 7), get(&hot, "b", 7));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &get(&hot, "a", 7).await));
        assert_eq!(source.0.load(Ordering::Relaxed), 1);
        assert_eq!(one.sealed.digest(), Sha256Digest::of(&blob(7)));
        assert_eq!(one.data_hash, ckb_hash::blake2b_256(blob(7)));
        assert_eq!(hot.stats(), HotCellsStats { bytes: 60 << 10, entries: 1, hits: 1, misses: 2 });
        let kept = hot.keep(&Account::nobody(), blob(7)).await.unwrap();
        assert!(Arc::ptr_eq(&one, &kept));
        hot.keep(&Account::nobody(), blob(8)).await.unwrap();
        get(&hot, "a", 8).await;
        assert_eq!(source.0.load(Ordering::Relaxed), 1);
        let missing = hot.get(&Account::nobody(), Sha256Digest([0; 32])).await;
        assert!(matches!(missing, Err(SourceError::ScriptNotFound(_))));
    }

    #[test]
    fn no_data_has_ckb_s_hash_of_none() {
        let empty = HotCell::new(Sealed::new("test", b"").unwrap()).unwrap();
        assert_eq!((empty.data_hash, empty.bytes.len()), ([0; 32], 0));
    }

    #[tokio::test]
    async fn what_was_used_longest_ago_goes_first() {
        let hot = hot(&Blobs::default(), 100);
        for number in [0, 1, 2, 3, 0, 4] {
            get(&hot, "", number).await;
        }
        assert_eq!(kept(&hot, 0..5), [0, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_tenant_without_end_moves_its_own() {
        let hot = hot(&Blobs::default(), 100);
        get(&hot, "calm", 0).await;
        get(&hot, "calm", 1).await;
        for number in 2..40 {
            get(&hot, "greedy", number).await;
        }
        assert_eq!(kept(&hot, 0..40), [0, 1, 38, 39]);
        // What both use stays for who uses it.
        for number in [0, 1, 50, 51, 52, 53] {
            get(&hot, "greedy", number).await;
        }
        assert_eq!(kept(&hot, 0..2), [0, 1]);
    }

    #[tokio::test]
    async fn what_somebody_holds_is_found_also_when_it_has_left() {
        let source = Blobs::default();
        let hot = hot(&source, 100);
        let held = get(&hot, "", 0).await;
        for number in 1..20 {
            get(&hot, "", number).await;
        }
        assert!(kept(&hot, 0..1).is_empty());
        assert!(Arc::ptr_eq(&held, &get(&hot, "", 0).await));
        assert_eq!(source.0.load(Ordering::Relaxed), 20);
        drop(held);
        get(&hot, "", 0).await;
        assert_eq!(source.0.load(Ordering::Relaxed), 21);
    }

    #[tokio::test]
    async fn who_comes_late_gets_its_share() {
        let hot = hot(&Blobs::default(), 100);
        for number in 0..20 {
            get(&hot, "greedy", number).await;
        }
        get(&hot, "late", 100).await;
        get(&hot, "late", 101).await;
        assert_eq!(kept(&hot, 0..110), [18, 19, 100, 101]);
    }

    #[tokio::test]
    async fn small_files_are_few_and_nothing_is_lost_in_counting() {
        let hot = hot(&Blobs::default(), 2);
        for number in 0..9 {
            get(&hot, if number % 3 == 0 { "a" } else { "b" }, number).await;
        }
        assert_eq!(hot.stats().entries, 2);
        let state = hot.state();
        assert_eq!(state.bytes, 120 << 10);
        assert_eq!(state.charged, 256 << 10);
        let held: u64 = state.holders.values().map(|holds| holds.charged).sum();
        assert_eq!(held, 256 << 10);
    }
}
