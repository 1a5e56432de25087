//! What a pool tells about itself.

/// How a pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Children with a job.
    pub busy: usize,
    /// Children that wait for another job of their kind.
    pub resting: usize,
    /// Children with a job at once, at most.
    pub workers_max: usize,
    /// Children started since the pool was.
    pub spawned_total: u64,
    /// Jobs done by children that had done one before.
    pub reused_total: u64,
    /// Children that died without an answer.
    pub lost_total: u64,
    /// Children killed because they broke a rule.
    pub violations_total: u64,
    /// Of these, children whose native code touched memory far from all that it may touch: our generator's
    /// mistake, or worse.
    pub wild_faults_total: u64,
    /// Of these, children killed because their report could not be true.
    pub false_reports_total: u64,
    /// Libraries whose machine code was refused.
    pub code_refused_total: u64,
    /// Children killed because their deadline passed.
    pub deadline_total: u64,
    /// Workers that [`Pool::inspect`](crate::Pool::inspect) has looked at.
    pub inspected_total: u64,
    /// Of these, workers whose fence was not whole.
    pub unfenced_total: u64,
    /// Looks that found nobody, not even the zygote: `/proc` does not show them.
    pub blind_total: u64,
    /// Workers that the kernel did not let be made.
    pub not_forked_total: u64,
    /// Times the zygote was lost and replaced.
    pub zygote_restarts_total: u64,
    /// Times the zygote was replaced because it had made enough workers, or was old.
    pub zygote_renewals_total: u64,
    /// Process id of the zygote; none while it is being replaced.
    pub zygote_pid: Option<u32>,
}
