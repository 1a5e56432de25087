//! Configuration of a pool.

use std::path::PathBuf;

use antares_sandbox::{Layer, Speculation};

use crate::{Renewal, Reuse, control_group::GroupConfig};

/// Configuration of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The worker binary.
    pub worker: PathBuf,
    /// Maximum concurrent children.
    pub workers_max: usize,
    /// Required layers that may be missing.
    pub allow_degraded: Vec<Layer>,
    /// How workers are reused.
    pub reuse: Reuse,
    /// How long a zygote forks workers.
    pub renewal: Renewal,
    /// Speculation limits that workers request from the kernel.
    pub speculation: Speculation,
    /// Location of the workers' control groups, if they have any.
    pub group: Option<GroupConfig>,
}

impl PoolConfig {
    /// A pool with up to `workers_max` children of `worker` that requires all layers, with the defaults of
    /// [`Reuse`] and [`Renewal`].
    #[must_use]
    pub fn new(worker: PathBuf, workers_max: usize) -> Self {
        let (reuse, renewal, speculation) = Default::default();
        Self { worker, workers_max, allow_degraded: Vec::new(), reuse, renewal, speculation, group: None }
    }
}
