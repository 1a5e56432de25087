//! Statistics of a pool.

/// State and counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Busy children.
    pub busy: usize,
    /// Idle children, waiting for another job of their kind.
    pub resting: usize,
    /// Maximum concurrently busy children.
    pub workers_max: usize,
    /// Children started so far.
    pub spawned_total: u64,
    /// Jobs done by reused children.
    pub reused_total: u64,
    /// Children that ended without an answer.
    pub lost_total: u64,
    /// Children killed for a violation.
    pub violations_total: u64,
    /// Of these, children whose native code accessed memory far outside of its own: a generator bug, or an
    /// attack.
    pub wild_faults_total: u64,
    /// Of these, children with a false report.
    pub false_reports_total: u64,
    /// Libraries whose machine code was rejected.
    pub code_refused_total: u64,
    /// Children killed at their deadline.
    pub deadline_total: u64,
    /// Workers inspected by [`Pool::inspect`](crate::Pool::inspect).
    pub inspected_total: u64,
    /// Of these, workers with an incomplete sandbox.
    pub unfenced_total: u64,
    /// Inspections that found no process, not even the zygote: `/proc` hides them.
    pub blind_total: u64,
    /// Workers that the kernel did not fork.
    pub not_forked_total: u64,
    /// Lost and replaced zygotes.
    pub zygote_restarts_total: u64,
    /// Zygotes replaced because of their age or number of workers.
    pub zygote_renewals_total: u64,
    /// Process id of the zygote; `None` while it is being replaced.
    pub zygote_pid: Option<u32>,
}
