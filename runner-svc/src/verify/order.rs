//! What to verify, as far as it is known before anything is read.

use std::time::{Duration, Instant};

use antares_pool::job::{CellName, GroupKind, Tier};
use antares_transaction::Environment;

use crate::{diagnosis::Budget, tenant::Tenant, verify::parts::Source};

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
