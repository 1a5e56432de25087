//! One verification as asked for.

use std::time::Duration;

use antares_pool::job::{self, VerifyJob};
use antares_transaction::Environment;

use crate::{
    args::code::CodeArgs,
    limits::{CYCLES_MAX_DEFAULT, DEBUG_BYTES_MAX},
};

/// One verification as asked for, checked.
#[derive(Debug, Default)]
pub struct Request {
    /// The transaction in ckb-debugger's JSON, without placeholders; if `is_bare`, in any form that a server
    /// with a node takes.
    pub json: Vec<u8>,
    /// Whether it comes without its cells: the server's node has them.
    pub is_bare: bool,
    /// The rules.
    pub environment: Environment,
    /// The only group to run.
    pub group: Option<(job::GroupKind, job::CellName)>,
    /// Which tiers may run.
    pub tier: job::Tier,
    /// Where native code comes from, on this machine.
    pub code: CodeArgs,
    /// Cycles of all groups together.
    pub cycles_max: Option<u64>,
    /// Wall time, without compiles.
    pub deadline: Option<Duration>,
    /// Whether a server is to verify it twice and compare.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "there is no client in this binary"))]
    pub recheck: bool,
    /// Whether a server is to tell why it failed, if it does.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "there is no client in this binary"))]
    pub diagnosis: bool,
}

impl Request {
    /// What a run worker is asked, apart from the transaction and its files.
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
