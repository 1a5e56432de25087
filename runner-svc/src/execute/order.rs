//! What to run, as far as it is known before anything is fetched.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_pool::job::RunJob;
use bytes::Bytes;

use crate::tenant::Tenant;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// A stored script.
    Stored(Sha256Digest),
    /// The ELF itself.
    Inline(Bytes),
}

/// A request, checked.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    /// Everything that the worker needs to know.
    pub(crate) job: RunJob,
    /// Wall time of the run.
    pub(crate) run_time: Duration,
    /// Whether the caller wants it run again, and compared.
    pub(crate) recheck: bool,
    /// Whether the caller wants to know why it failed, if it does.
    pub(crate) diagnosis: bool,
}
