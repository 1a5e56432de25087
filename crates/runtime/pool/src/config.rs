//! What a pool is made of.

use std::path::PathBuf;

use antares_sandbox::{Layer, Speculation};

use crate::{Renewal, Reuse, control_group::GroupConfig};

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The worker binary.
    pub worker: PathBuf,
    /// Children alive at once.
    pub workers_max: usize,
    /// Required layers whose absence is accepted.
    pub allow_degraded: Vec<Layer>,
    /// How workers are used again.
    pub reuse: Reuse,
    /// How long a zygote makes workers.
    pub renewal: Renewal,
    /// What workers ask of the kernel against what the processor does ahead of time.
    pub speculation: Speculation,
    /// Where each worker gets a control group of its own, if it does.
    pub group: Option<GroupConfig>,
}

impl PoolConfig {
    /// A pool of `workers_max` times `worker` that accepts no missing layer, uses workers again as
    /// [`Reuse::default`] says and renews its zygote as [`Renewal::default`] does.
    #[must_use]
    pub fn new(worker: PathBuf, workers_max: usize) -> Self {
        let (reuse, renewal, speculation) = Default::default();
        Self { worker, workers_max, allow_degraded: Vec::new(), reuse, renewal, speculation, group: None }
    }
}
