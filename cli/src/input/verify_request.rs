//! A request for one verification.

use std::time::Duration;

use antares_pool::job::{self, VerifyJob};
use antares_transaction::Environment;

use crate::{
    args::{code::CodeArgs, execution::ExecutionArgs},
    limits::{CYCLES_MAX_DEFAULT, DEBUG_BYTES_MAX},
};

/// A checked request for one verification.
#[derive(Debug, Default)]
pub struct Request {
    /// The transaction in ckb-debugger's JSON, without placeholders; if `is_bare`, in any form that a server
    /// with a node accepts.
    pub json: Vec<u8>,
    /// Whether it lacks its cells, which the server's node has.
    pub is_bare: bool,
    pub environment: Environment,
    /// The only group to run.
    pub group: Option<(job::GroupKind, job::CellName)>,
    /// Tiers that may run.
    pub tier: job::Tier,
    /// Source of native code on this machine.
    pub code: CodeArgs,
    /// Cycle limit of all groups together.
    pub cycles_max: Option<u64>,
    /// Wall time, excluding compiles.
    pub deadline: Option<Duration>,
    /// Whether a server should verify it twice and compare.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "there is no client in this binary"))]
    pub recheck: bool,
    /// Whether a server should diagnose a failure.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "there is no client in this binary"))]
    pub diagnosis: bool,
}

impl Request {
    pub(crate) fn new(json: Vec<u8>, environment: Environment, how: &ExecutionArgs) -> Self {
        Self {
            json,
            environment,
            tier: how.tier,
            code: how.code,
            cycles_max: how.limits.max_cycles,
            deadline: how.limits.deadline(),
            recheck: how.recheck,
            diagnosis: how.diagnosis.is_for_server(how.json),
            ..Self::default()
        }
    }

    /// The job for a run worker, without the transaction and its files.
    pub(crate) fn job(&self) -> VerifyJob {
        let Environment { vm_1_epoch, vm_2_epoch, epoch } = self.environment;
        VerifyJob {
            rules: job::Rules { vm_1_epoch, vm_2_epoch, epoch },
            group: self.group,
            tier: self.tier,
            cycles_max: self.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT),
            debug_bytes_max: DEBUG_BYTES_MAX,
            is_alone: true,
            ..VerifyJob::default()
        }
    }
}
