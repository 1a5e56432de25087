//! What to verify, as far as it is known before anything is read, and the files that go beside it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::{
    Sealed,
    job::{CellName, GroupKind, Tier, VerifyFiles},
};
use antares_transaction::Environment;

use crate::{
    diagnosis::Budget,
    tenant::Tenant,
    verify::{hot_cells::HotCell, parts::Source},
};

/// A request, checked.
#[derive(Clone, Debug)]
pub(crate) struct VerifyOrder {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) arrived: Instant,
    /// How long it took to find the data that it names.
    pub(crate) resolving: Duration,
    pub(crate) source: Source,
    pub(crate) environment: Environment,
    pub(crate) group: Option<(GroupKind, CellName)>,
    pub(crate) tier: Tier,
    pub(crate) cycles_max: u64,
    pub(crate) debug_bytes_max: u64,
    /// Wall time of the verification in its worker.
    pub(crate) run_time: Duration,
    /// What the sample points shall follow from, if the caller says.
    pub(crate) sample_salt: Option<u64>,
    /// Whether the caller wants it run again, and compared.
    pub(crate) recheck: bool,
    /// Whether the caller wants to know why a group failed, if one does.
    pub(crate) diagnosis: Option<Budget>,
}

/// The files beside a verification.
#[derive(Clone, Debug)]
pub(crate) struct ExtraFiles {
    pub(crate) document: Option<Arc<Sealed>>,
    pub(crate) libraries: Vec<Arc<Sealed>>,
    pub(crate) beside: Vec<Arc<Sealed>>,
    pub(crate) cells: Vec<Arc<HotCell>>,
}

impl ExtraFiles {
    /// What `work` makes of them.
    pub(crate) fn lease<T>(&self, work: impl FnOnce(&VerifyFiles<'_>) -> T) -> T {
        fn all(files: &[Arc<Sealed>]) -> Vec<&Sealed> {
            files.iter().map(|file| &**file).collect()
        }
        let (libraries, beside) = (all(&self.libraries), all(&self.beside));
        let cells: Vec<&Sealed> = self.cells.iter().map(|cell| &*cell.sealed).collect();
        work(&VerifyFiles {
            document: self.document.as_deref(),
            libraries: &libraries,
            beside: &beside,
            cells: &cells,
        })
    }

    /// Without native code.
    pub(crate) fn interpreted(self) -> Self {
        Self { libraries: Vec::new(), beside: Vec::new(), ..self }
    }
}
