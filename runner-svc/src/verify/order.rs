//! What to verify, as far as it is known before parsing, and its extra files.

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

/// A checked request.
#[derive(Clone, Debug)]
pub(crate) struct VerifyOrder {
    /// The tenant that the verification is charged to.
    pub(crate) tenant: Tenant,
    pub(crate) arrived: Instant,
    /// Time to find the data that it names.
    pub(crate) resolving: Duration,
    pub(crate) source: Source,
    pub(crate) environment: Environment,
    pub(crate) group: Option<(GroupKind, CellName)>,
    pub(crate) tier: Tier,
    pub(crate) cycles_max: u64,
    pub(crate) debug_bytes_max: u64,
    /// Wall time of the verification in its worker.
    pub(crate) run_time: Duration,
    /// Salt of the sample points, if the caller sets it.
    pub(crate) sample_salt: Option<u64>,
    /// Whether to repeat and compare the verification.
    pub(crate) recheck: bool,
    /// Budget for explaining a failed group, if requested.
    pub(crate) diagnosis: Option<Budget>,
}

/// The extra files of a verification.
#[derive(Clone, Debug)]
pub(crate) struct ExtraFiles {
    pub(crate) document: Option<Arc<Sealed>>,
    pub(crate) libraries: Vec<Arc<Sealed>>,
    pub(crate) beside: Vec<Arc<Sealed>>,
    pub(crate) cells: Vec<Arc<HotCell>>,
}

impl ExtraFiles {
    /// Passes them to `work`, and returns its result.
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

    /// The same without native code.
    pub(crate) fn interpreted(self) -> Self {
        Self { libraries: Vec::new(), beside: Vec::new(), ..self }
    }
}
