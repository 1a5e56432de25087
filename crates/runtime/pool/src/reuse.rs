//! Which jobs may share a worker, and how long workers and zygotes are used.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;

use crate::{channel::Channel, job::Tier};

/// Maximum total busy time of a worker: far below its limit of processor time, which would end it in the middle
/// of a job.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// How workers are used again: for jobs of the same tenant with the same script and the same native code, and
/// for transactions of the same tenant whose native code and shared cells the worker has; only after a run that came to its own end in one tier;
/// after anything else (an error, a limit, a tier given up, a deadline, a violation) it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Runs after which a worker is replaced.
    pub runs_max: u64,
    /// Maximum idle workers, in addition to those that work; 0 gives each job a worker of its own.
    pub idle_max: usize,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { runs_max: 10_000, idle_max: 16 }
    }
}

/// When a zygote is replaced by a newly executed one. Workers have the same addresses as their zygote, and thus
/// as each other. Workers of the old zygote finish their jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// After this many workers.
    pub workers_max: u64,
    /// After this time.
    pub age_max: Duration,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { workers_max: 10_000, age_max: Duration::from_secs(3600) }
    }
}

/// Properties that jobs must share to share a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) tenant: Arc<str>,
    pub(crate) work: Work,
}

/// The data that a worker has loaded, or that a job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A script, and its native code.
    Run { script: Sha256Digest, library: Option<Sha256Digest> },
    /// Shared data of transactions: native code, each with its ELF if that accompanies it and is not in a cell;
    /// and cell data.
    Verify { tier: Tier, libraries: Vec<(Sha256Digest, Option<Sha256Digest>)>, cells: Vec<Sha256Digest> },
}

impl Kind {
    /// Whether a worker of this kind can do a job of kind `wanted`.
    fn suits(&self, wanted: &Self) -> bool {
        let has_all = match (&self.work, &wanted.work) {
            (
                Work::Verify { tier, libraries, cells },
                Work::Verify { tier: wanted_tier, libraries: native, cells: data },
            ) => {
                let has_native = native.iter().all(|library| libraries.contains(library));
                tier == wanted_tier && has_native && data.iter().all(|cell| cells.contains(cell))
            }
            (work, wanted) => work == wanted,
        };
        has_all && self.tenant == wanted.tenant
    }
}

/// A worker that may be reused.
#[derive(Clone, Debug)]
pub(crate) struct Warm {
    pub(crate) ticket: u64,
    /// Number of its current job.
    pub(crate) turn: u64,
    pub(crate) channel: Arc<Channel>,
    pub(crate) kind: Kind,
    /// Maximum bytes of debug output for which it has memory.
    pub(crate) debug_bytes_max: u64,
    pub(crate) runs: u64,
    pub(crate) busy: Duration,
}

impl Warm {
    /// Whether it can do a job of `kind` with this much debug output.
    pub(crate) fn suits(&self, kind: &Kind, debug_bytes: u64) -> bool {
        self.kind.suits(kind) && debug_bytes <= self.debug_bytes_max
    }

    /// Records a job of `runs` runs that started at `since`. Returns whether the worker may do another one.
    pub(crate) fn record(&mut self, runs: u64, since: Instant, reuse: &Reuse) -> bool {
        self.runs = self.runs.saturating_add(runs);
        self.busy += since.elapsed();
        self.runs < reuse.runs_max && self.busy < BUSY_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_tenant_script_and_code_share_a_worker() {
        let kind = |tenant: &str, script, library: Option<u8>| Kind {
            tenant: tenant.into(),
            work: Work::Run {
                script: Sha256Digest([script; 32]),
                library: library.map(|library| Sha256Digest([library; 32])),
            },
        };
        let channel = Arc::new(Channel::create().unwrap().0);
        let mut warm = Warm {
            ticket: 1,
            turn: 0,
            channel,
            kind: kind("a", 1, Some(2)),
            debug_bytes_max: 10,
            runs: 0,
            busy: Duration::ZERO,
        };
        assert!(warm.suits(&kind("a", 1, Some(2)), 10));
        assert!(!warm.suits(&kind("a", 1, Some(2)), 11));
        for other in [kind("b", 1, Some(2)), kind("a", 2, Some(2)), kind("a", 1, Some(1)), kind("a", 1, None)]
        {
            assert!(!warm.suits(&other, 0), "{other:?}");
        }
        let with = |tenant: &str, tier, libraries: &[(u8, Option<u8>)], cells: &[u8]| {
            let digest = |number: u8| Sha256Digest([number; 32]);
            let library = |(library, elf): &(u8, Option<u8>)| (digest(*library), elf.map(digest));
            let libraries = libraries.iter().map(library).collect();
            let cells = cells.iter().map(|cell| digest(*cell)).collect();
            Kind { tenant: tenant.into(), work: Work::Verify { tier, libraries, cells } }
        };
        let transaction = |tenant: &str, tier, cells: &[u8]| with(tenant, tier, &[], cells);
        let has = with("a", Tier::Auto, &[(7, None), (8, Some(9))], &[1, 2, 3]);
        // A library with an accompanying ELF differs from one of a cell.
        for libraries in [&[][..], &[(7, None)], &[(8, Some(9)), (7, None)]] {
            assert!(has.suits(&with("a", Tier::Auto, libraries, &[1])), "{libraries:?}");
        }
        for (libraries, cells) in
            [(&[(8, None)][..], &[1][..]), (&[(7, Some(9))], &[1]), (&[], &[9]), (&[], &[7])]
        {
            assert!(!has.suits(&with("a", Tier::Auto, libraries, cells)), "{libraries:?}, {cells:?}");
        }
        for fewer in [&[][..], &[3], &[2, 1], &[1, 2, 3]] {
            assert!(has.suits(&transaction("a", Tier::Auto, fewer)), "{fewer:?}");
            assert!(!has.suits(&transaction("b", Tier::Auto, fewer)));
            assert!(!has.suits(&transaction("a", Tier::Interpreter, fewer)));
        }
        assert!(!has.suits(&transaction("a", Tier::Auto, &[1, 4])));
        assert!(!has.suits(&kind("a", 1, None)) && !kind("a", 1, None).suits(&has));
        let reuse = Reuse { runs_max: 3, ..Reuse::default() };
        assert!(warm.record(2, Instant::now(), &reuse));
        assert!(!warm.record(1, Instant::now(), &reuse));
        let mut warm = Warm { runs: 0, ..warm };
        assert!(!warm.record(1, Instant::now() - BUSY_MAX, &reuse));
    }
}
