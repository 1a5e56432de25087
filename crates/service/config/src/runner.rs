//! Section `[runner]`.

use antares_abi::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, SCRIPT_BYTES_MAX};

use crate::{
    check::Checker,
    section::{MIB, parallelism, section},
};

section! {
/// The runner service.
"runner": RawRunner => RunnerSection(
    /// Maximum length of an inline script in bytes: that of the compiler.
    script_bytes_max: u64,
) {
    /// Runs at once.
    workers_max: workers = parallelism();
    /// Calls that wait for a worker, at most; more get RESOURCE_EXHAUSTED. Tenants share the workers' time.
    queue_max: count = 1_024;
    /// What a worker does after a run that went well: `per_execution` ends it, `per_artifact` lets it wait
    /// for another run of the same script and native code for the same tenant. After a transaction it waits
    /// for another one of that tenant whose native code and shared cells it has loaded; not with
    /// `groups_apart`, nor after a second run, a transaction of more than 1 MiB beside its shared cells, or
    /// one that took more than 32 MiB of memory.
    reuse: reuse = "per_artifact".to_owned();
    /// Workers that wait for another run at once, at most, beside those that run; 0 for none.
    idle_workers_max: at_most(1_024) = 16;
    /// The compiler service, such as `http://antares-compiler:50051`, or `https://...`, or several with
    /// commas between; empty where both run in one process. Names are looked up every five seconds: each
    /// address of a name is a compiler by itself, and equal scripts go to the same one.
    compiler_url as compiler_urls: urls;
    /// PEM file with the authorities of the compiler service's certificate; empty for the system's.
    compiler_ca: file;
    /// PEM file with the certificate that the compiler service is shown; empty for that of `[tls]`, if there
    /// is one.
    compiler_certificate: file;
    /// PEM file with its private key.
    compiler_key: file;
    /// File with a bearer token that the compiler service is shown; empty for none.
    compiler_token_file: file;
    /// Highest cycle limit.
    max_cycles_max: positive = 1_000_000_000_000;
    /// Wall time of a run: default and cap.
    deadline_ms_max as deadline_max: time = DEADLINE_MS_DEFAULT;
    /// Wall time of a whole call (queue, compile and run) where the caller sets no shorter one.
    call_ms_max as call_time_max: time = 300_000;
    /// Scripts and artifacts cached in memory: whole pages, and one page more for each. For each 256 KiB
    /// one of them, which takes a file descriptor.
    ready_bytes_max: positive = 256 * MIB;
    /// Data of cells that transactions name by digest, kept in memory, as with `ready_bytes_max`.
    hot_cells_bytes_max: positive = 256 * MIB;
    /// Cycles between the samples of profiles, on average; 0 for no profiles.
    sample_cycles: one_in = 2_097_152;
    /// One native run in so many, drawn by lot, is run again in the interpreter by another worker, behind the
    /// answer, and compared (outcome, cycles, output); 0 for none. A batch, or the inputs of a session that
    /// went to a worker together, are run again together, a transaction as a whole. A difference puts the
    /// artifacts into quarantine. Callers may ask for it too (`recheck` in `Execute`, `ExecuteBatch`,
    /// `VerifyTransaction`), whatever this says: their answer waits for it, and both runs count in their
    /// quotas.
    recheck_one_in: one_in = 10_000;
    /// Each script group of a transaction in a worker of its own: a script that takes its worker over cannot
    /// answer for the others of its transaction. Costs a worker's start for each group.
    groups_apart: flag;
}
}

/// Bytes of the budget per entry in memory: each entry takes a file descriptor.
const BYTES_PER_ENTRY: u64 = 256 << 10;

impl RunnerSection {
    /// Cycle limit of requests that set none.
    #[must_use]
    pub fn max_cycles_default(&self) -> u64 {
        CYCLES_MAX_DEFAULT.min(self.max_cycles_max)
    }

    /// Maximum number of scripts and artifacts ready in memory.
    #[must_use]
    pub fn ready_entries_max(&self) -> u64 {
        (self.ready_bytes_max / BYTES_PER_ENTRY).max(1)
    }

    /// Maximum number of cells with data in memory.
    #[must_use]
    pub fn hot_cells_entries_max(&self) -> u64 {
        (self.hot_cells_bytes_max / BYTES_PER_ENTRY).max(1)
    }
}

impl RawRunner {
    pub(crate) fn agree(&self, checker: &mut Checker) {
        if self.deadline_ms_max > self.call_ms_max {
            checker.record("runner.deadline_ms_max", "is more than runner.call_ms_max");
        }
    }
}

impl Default for RunnerSection {
    fn default() -> Self {
        RawRunner::default().check(&mut Checker::default(), SCRIPT_BYTES_MAX)
    }
}
