//! Cells that a tenant's transactions share, stored in sealed memory files with both of their hashes:
//! fetched, hashed and sealed once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use antares_abi::Sha256Digest;
use antares_pool::{Sealed, digest};
use antares_serve::{Account, Fault, HeldBytes, MetricRow, Metrics, Namespace, RequestBytes, SingleFlight};
use antares_transaction::data_hash;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    artifacts::seal::{seal, seal_known},
    source::{ArtifactSource, SourceError},
    tenant_cache::{Hot, HotStats, TenantCache},
};

/// Eighths of the budget that may be pinned, for one tenant and for all: other tenants can pin too, and
/// unpinned cells use the rest.
const PINNED_EIGHTHS_MAX: u64 = 4;
const ALL_PINNED_EIGHTHS_MAX: u64 = 7;

/// Cell data in a sealed memory file, hashed once.
#[derive(Debug)]
pub(crate) struct HotCell {
    pub(crate) sealed: Arc<Sealed>,
    /// The data, mapped.
    pub(crate) bytes: Bytes,
    /// ckb's hash of the data.
    pub(crate) data_hash: [u8; 32],
    /// Its bytes in the budget while calls use it.
    held: Mutex<Weak<HeldBytes>>,
    pins: AtomicUsize,
}

impl Hot for Arc<HotCell> {
    fn bytes(&self) -> u64 {
        self.sealed.len()
    }

    fn is_pinned(&self) -> bool {
        self.pins.load(Relaxed) > 0
    }
}

/// Hot cells of all tenants, bounded in bytes and files. Cells in use outlive their eviction.
pub(crate) struct HotCells {
    source: Arc<dyn ArtifactSource>,
    flights: SingleFlight<(Namespace, Sha256Digest), Result<Arc<HotCell>, SourceError>>,
    cells: TenantCache<Sha256Digest, Arc<HotCell>>,
    bytes_max: u64,
    pinned: Arc<Mutex<Pinned>>,
}

/// Pinned bytes by tenant.
type Pinned = HashMap<Namespace, u64>;

impl HotCell {
    fn new(sealed: Sealed) -> std::io::Result<Self> {
        let bytes = sealed.map()?;
        let data_hash = data_hash(&bytes);
        let (held, pins) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Self { sealed: Arc::new(sealed), bytes, data_hash, held, pins })
    }

    /// Charges its bytes to `room`, unless another call already holds them.
    pub(crate) fn hold(&self, room: Option<&RequestBytes>) -> Result<Arc<HeldBytes>, Fault> {
        let mut held = self.held.lock();
        if let Some(held) = held.upgrade() {
            return Ok(held);
        }
        let bytes = Arc::new(RequestBytes::hold(room, self.bytes.len())?);
        *held = Arc::downgrade(&bytes);
        Ok(bytes)
    }

    /// Seals and hashes `bytes` on a blocking thread.
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
            // It panicked; the hook has logged where.
            Err(_) => Err(SourceError::Internal),
        }
    }
}

impl HotCells {
    /// Empty, with at most `bytes_max` bytes and `entries_max` files.
    pub(crate) fn new(source: Arc<dyn ArtifactSource>, bytes_max: u64, entries_max: u64) -> Self {
        let cells = TenantCache::new(bytes_max, entries_max);
        Self { source, flights: SingleFlight::default(), cells, bytes_max, pinned: Arc::default() }
    }

    /// The cell data uploaded under `digest`, as visible to `account`.
    ///
    /// # Errors
    /// It is not stored, cannot be fetched now, or does not match its digest.
    pub(crate) async fn get(
        &self,
        account: &Account,
        digest: Sha256Digest,
    ) -> Result<Arc<HotCell>, SourceError> {
        let namespace = account.owner();
        if let Some(cell) = self.cells.get(namespace, digest) {
            return Ok(cell);
        }
        let source = self.source.of(account);
        let fetched = self.flights.join((namespace, digest), || async move {
            let cell = HotCell::of(source.script(digest).await?).await?;
            match cell.sealed.digest() {
                found if found == digest => Ok(Arc::new(cell)),
                found => Err(SourceError::Corrupt(format!("data with digest {found}"))),
            }
        });
        let cell = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        self.cells.put(namespace, digest, cell.clone());
        Ok(cell)
    }

    /// Stores inline cell data; the tenant finds it again by its digest.
    ///
    /// # Errors
    /// Descriptors or memory are exhausted.
    pub(crate) async fn keep(&self, account: &Account, bytes: Bytes) -> Result<Arc<HotCell>, SourceError> {
        let (namespace, digest) = (account.owner(), digest(&bytes));
        if let Some(known) = self.cells.get(namespace, digest) {
            return Ok(known);
        }
        let sealed = seal_known("antares-cell", bytes, digest).await?;
        let cell = Arc::new(HotCell::of_sealed(sealed).await?);
        self.cells.put(namespace, digest, cell.clone());
        Ok(cell)
    }

    /// Protects `cell` from eviction for the pin's lifetime, so that a long session holds nothing outside the
    /// cache. None if the cell is not in the cache, or if too much is pinned.
    pub(crate) fn pin(&self, account: &Account, cell: &Arc<HotCell>) -> Option<Pin> {
        let namespace = account.owner();
        let pin = self.pinned_for(namespace, cell)?;
        let kept = self.cells.get(namespace, cell.sealed.digest())?;
        Arc::ptr_eq(&kept, cell).then_some(pin)
    }

    fn pinned_for(&self, namespace: Namespace, cell: &Arc<HotCell>) -> Option<Pin> {
        let mut pinned = self.pinned.lock();
        if cell.pins.load(Relaxed) == 0 {
            let own = pinned.get(&namespace).copied().unwrap_or(0) + cell.sealed.len();
            let all = pinned.values().sum::<u64>() + cell.sealed.len();
            let eighth = self.bytes_max / 8;
            if own > eighth * PINNED_EIGHTHS_MAX || all > eighth * ALL_PINNED_EIGHTHS_MAX {
                return None;
            }
            pinned.insert(namespace, own);
        }
        cell.pins.fetch_add(1, Relaxed);
        Some(Pin { pinned: self.pinned.clone(), namespace, cell: cell.clone() })
    }

    pub(crate) fn stats(&self) -> HotStats {
        self.cells.stats()
    }
}

/// Protects a cell from eviction for its lifetime.
pub(crate) struct Pin {
    pinned: Arc<Mutex<Pinned>>,
    namespace: Namespace,
    cell: Arc<HotCell>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.pinned.lock();
        if self.cell.pins.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        if let Some(bytes) = pinned.get_mut(&self.namespace) {
            *bytes -= self.cell.sealed.len();
            if *bytes == 0 {
                pinned.remove(&self.namespace);
            }
        }
    }
}

/// Exports the values of `read` at each scrape.
pub(crate) fn export_hot_cells(metrics: &Metrics, read: impl Fn() -> HotStats + Send + 'static) {
    let rows: [MetricRow<HotStats>; 4] = [
        ("antares_hot_cells_bytes", "Bytes of cell data cached in memory.", |now| now.bytes),
        ("antares_hot_cells", "Cells whose data is cached in memory.", |now| now.entries),
        ("antares_hot_cells_hits_total", "Cells by reference that were hot.", |now| now.hits),
        ("antares_hot_cells_misses_total", "Cells by reference that had to be fetched.", |now| now.misses),
    ];
    metrics.watch(rows, read);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use antares_abi::{CompileOptions, Seen};
    use antares_trust::Trust;
    use tonic::async_trait;

    use super::*;
    use crate::source::{Fetched, Wanted};

    const KIB: usize = 1024;

    /// Serves blobs of 60 KiB, each of one byte value, and counts requests.
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
            self.0.fetch_add(1, Relaxed);
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

    /// Capacity for four cells.
    fn hot(source: &Blobs, entries_max: u64) -> HotCells {
        HotCells::new(Arc::new(source.clone()), 256 * KIB as u64, entries_max)
    }

    async fn get(hot: &HotCells, tenant: &str, number: u8) -> Arc<HotCell> {
        hot.get(&Account::isolated(tenant), Sha256Digest::of(&blob(number))).await.unwrap()
    }

    #[tokio::test]
    async fn a_tenant_fetches_a_cell_once_and_has_both_hashes() {
        let source = Blobs::default();
        let hot = hot(&source, 100);
        let (one, other) = tokio::join!(get(&hot, "a", 7), get(&hot, "a", 7));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &get(&hot, "a", 7).await));
        assert_eq!(source.0.load(Relaxed), 1);
        assert_eq!(one.sealed.digest(), Sha256Digest::of(&blob(7)));
        assert_eq!(one.data_hash, ckb_hash::blake2b_256(blob(7)));
        assert_eq!(hot.stats(), HotStats { bytes: 60 << 10, entries: 1, hits: 1, misses: 2 });
        let a = Account::isolated("a");
        assert!(Arc::ptr_eq(&one, &hot.keep(&a, blob(7)).await.unwrap()));
        hot.keep(&a, blob(8)).await.unwrap();
        get(&hot, "a", 8).await;
        assert_eq!(source.0.load(Relaxed), 1);
        let missing = hot.get(&a, Sha256Digest([0; 32])).await;
        assert!(matches!(missing, Err(SourceError::ScriptNotFound(_))));
    }

    /// Another tenant's cells are invisible, even while it fetches them.
    #[tokio::test]
    async fn tenants_have_cells_of_their_own() {
        let source = Blobs::default();
        let hot = hot(&source, 100);
        let (one, other) = tokio::join!(get(&hot, "a", 7), get(&hot, "b", 7));
        assert!(!Arc::ptr_eq(&one, &other));
        hot.keep(&Account::isolated("a"), blob(8)).await.unwrap();
        get(&hot, "b", 8).await;
        assert_eq!(source.0.load(Relaxed), 3);
    }

    #[test]
    fn no_data_has_ckb_s_hash_of_none() {
        let empty = HotCell::new(Sealed::new("test", b"").unwrap()).unwrap();
        assert_eq!((empty.data_hash, empty.bytes.len()), ([0; 32], 0));
    }

    /// A long session's cells stay cached, and count once for all its sessions; another tenant can still pin.
    #[tokio::test]
    async fn what_is_pinned_stays_while_it_is() {
        let hot = hot(&Blobs::default(), 100);
        let (calm, greedy) = (Account::isolated("calm"), Account::isolated("greedy"));
        let held = [get(&hot, "calm", 0).await, get(&hot, "calm", 1).await];
        let pins: Vec<_> = held.iter().chain(&held).map(|cell| hot.pin(&calm, cell).unwrap()).collect();
        let third = get(&hot, "calm", 2).await;
        assert!(hot.pin(&calm, &third).is_none(), "half of the budget");
        for number in 10..20 {
            get(&hot, "greedy", number).await;
        }
        let again = [get(&hot, "calm", 0).await, get(&hot, "calm", 1).await];
        assert!(Arc::ptr_eq(&again[0], &held[0]) && Arc::ptr_eq(&again[1], &held[1]));
        let own = get(&hot, "greedy", 30).await;
        assert!(hot.pin(&greedy, &own).is_some());
        assert!(hot.pin(&calm, &own).is_none(), "it is another tenant's");
        drop(pins);
        assert!(hot.pinned.lock().is_empty());
    }
}
