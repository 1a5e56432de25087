//! Cells that transactions share, kept in sealed memory files with both of their hashes: fetched, hashed and
//! sealed once.
//!
//! Which of them stay: [`HotSet`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use antares_abi::Sha256Digest;
use antares_pool::{Sealed, digest};
use antares_serve::{Account, Fault, Flights, HeldBytes, Metrics, RequestBytes, set_gauge, set_total};
use antares_transaction::data_hash;
use bytes::Bytes;

use crate::{
    artifacts::seal::{seal, seal_known},
    source::{ArtifactSource, SourceError},
    verify::hot_set::{Holder, HotCellsStats, HotSet},
};

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

/// Hot cells by last use, of all tenants together at most so many bytes and files. What calls hold lives on
/// when it leaves.
pub(crate) struct HotCells {
    source: Arc<dyn ArtifactSource>,
    flights: Flights<Sha256Digest, Result<Arc<HotCell>, SourceError>>,
    set: Arc<Mutex<HotSet>>,
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
        Self::of_sealed(seal("antares-cell", bytes).await?).await
    }

    async fn of_sealed(sealed: Sealed) -> Result<Self, SourceError> {
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
        let set = HotSet::new(bytes_max, entries_max);
        Self { source, flights: Flights::default(), set: Arc::new(Mutex::new(set)) }
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
        let digest = digest(&bytes);
        let key = Sha256Digest(account.apart().apply(digest.0));
        if let Some(known) = self.find(account, key) {
            return Ok(known);
        }
        let sealed = seal_known("antares-cell", bytes, digest).await?;
        let cell = Arc::new(HotCell::of_sealed(sealed).await?);
        self.put(account, key, cell.clone());
        Ok(cell)
    }

    /// Keeps `cell` where it is, as long as the pin lives, so that who uses it for long holds nothing beside
    /// the set. None if it is not in the set (any more), or if `account` keeps too much of the set already.
    pub(crate) fn pin(&self, account: &Account, cell: &HotCell) -> Option<Pin> {
        let key = Sha256Digest(account.apart().apply(cell.sealed.digest().0));
        let holder: Holder = Arc::from(account.tenant());
        self.set().pin(&holder, key, cell).then(|| Pin { set: self.set.clone(), holder, key })
    }

    pub(crate) fn stats(&self) -> HotCellsStats {
        self.set().stats()
    }

    fn find(&self, account: &Account, key: Sha256Digest) -> Option<Arc<HotCell>> {
        self.set().find(&Arc::from(account.tenant()), key)
    }

    /// Keeps `cell` for `account`, if there is room or can be made.
    fn put(&self, account: &Account, key: Sha256Digest, cell: Arc<HotCell>) {
        self.set().put(&Arc::from(account.tenant()), key, cell);
    }

    fn set(&self) -> MutexGuard<'_, HotSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a cell in the set while it lives.
pub(crate) struct Pin {
    set: Arc<Mutex<HotSet>>,
    holder: Holder,
    key: Sha256Digest,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).unpin(&self.holder, self.key);
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
        let set = hot.set();
        numbers.filter(|number| set.has(Sha256Digest::of(&blob(*number)))).collect()
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

    /// What a long session uses stays, and counts once however many sessions use it; there is room for
    /// another tenant all the same.
    #[tokio::test]
    async fn what_is_pinned_stays_while_it_is() {
        let hot = hot(&Blobs::default(), 100);
        let (calm, greedy) = (Account::named("calm"), Account::named("greedy"));
        let held = [get(&hot, "calm", 0).await, get(&hot, "calm", 1).await, get(&hot, "calm", 2).await];
        let pin = |cell: &HotCell| hot.pin(&calm, cell);
        let pins: Vec<_> = held.iter().chain(&held).map(|cell| pin(cell).unwrap()).collect();
        // Seven eighths of the room for four.
        let fourth = get(&hot, "calm", 3).await;
        assert!(pin(&fourth).is_none());
        // Greedy has its share of what is not pinned, and moves its own.
        for number in 10..20 {
            get(&hot, "greedy", number).await;
        }
        assert_eq!(kept(&hot, 0..20), [0, 1, 2, 19]);
        let last = get(&hot, "greedy", 19).await;
        let own = hot.pin(&greedy, &last).unwrap();
        // There is no room now: what comes is not kept, nobody has to let go, and who holds it shares it.
        let beyond = get(&hot, "late", 30).await;
        assert!(hot.pin(&calm, &beyond).is_none());
        assert!(Arc::ptr_eq(&beyond, &get(&hot, "late", 30).await));
        assert_eq!(kept(&hot, 0..31), [0, 1, 2, 19]);
        drop((own, last));
        drop((pins, held));
        for number in 40..44 {
            get(&hot, "late", number).await;
        }
        // A third of the room, as for any of the three.
        assert_eq!(kept(&hot, 0..44), [1, 2, 19, 43]);
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
        assert_eq!(hot.stats().bytes, 120 << 10);
        assert_eq!(hot.set().charges(), (256 << 10, 256 << 10));
    }
}
