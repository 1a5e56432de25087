//! Section `[runner]`.

use antares_abi::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, SCRIPT_BYTES_MAX};

use crate::{
    check::Checker,
    section::{MIB, parallelism, section},
};

section! {
/// The runner service.
"runner": RawRunner => RunnerSection {
    /// Runs at once.
    workers_max: workers = parallelism();
    /// Calls that wait for a worker, at most; more get RESOURCE_EXHAUSTED. Tenants that wait take turns.
    queue_max: count = 1_024;
    /// What a worker does after a run that went well: `per_execution` ends it, `per_artifact` lets it wait
    /// for another run of the same script and native code for the same tenant. After a transaction it waits
    /// for another one of that tenant whose native code and shared cells it has loaded; not with
    /// `groups_apart`, nor after a second run, a transaction of more than 1 MiB beside its shared cells, or
    /// one that took more than 32 MiB of memory.
    reuse: reuse = "per_artifact".to_owned();
    /// Runs, or transactions, after which a worker is replaced.
    reuse_runs_max: positive = 10_000;
    /// Workers that wait for another run at once, at most, beside those that run; 0 for none.
    idle_workers_max: at_most(1_024) = 16;
    /// The compiler service, such as `http://antares-compiler:50051`, or `https://...`, or several with
    /// commas between; empty where both run in one process.
    compiler_url as compiler_urls: urls;
    /// How often the names of the compiler service are looked up: each address that a name has is a compiler
    /// by itself, and equal scripts go to the same one. 0 leaves names alone.
    compiler_resolve_ms as compiler_resolve: time_or_none;
    /// PEM file with the authorities of the compiler service's certificate; empty for the system's.
    compiler_ca: file;
    /// PEM file with the certificate that the compiler service is shown; empty for that of `[tls]`, if there
    /// is one.
    compiler_certificate: file;
    /// PEM file with its private key.
    compiler_key: file;
    /// File with a bearer token that the compiler service is shown; empty for none.
    compiler_token_file: file;
    /// How long a connection to the compiler service may take.
    compiler_connect_ms_max as compiler_connect_time_max: time = 2_000;
    /// Of a hundred calls for scripts and native code, so many may be made by the next compiler too, when the
    /// first one takes longer than 95 of a hundred did; 0 for none.
    compiler_hedge_percent: at_most(100) = 10;
    /// Longest inline ELF.
    script_bytes_max: positive = SCRIPT_BYTES_MAX;
    /// Number of arguments.
    args_max: positive = 1_024;
    /// All arguments together.
    args_bytes_max: positive = MIB;
    /// Inputs of one batch.
    batch_runs_max: positive = 1_024;
    /// The caller's `request_id`.
    request_id_bytes_max: positive = 128;
    /// Cycle limit where the request has none.
    max_cycles_default: positive = CYCLES_MAX_DEFAULT;
    /// Highest cycle limit.
    max_cycles_max: positive = 1_000_000_000_000;
    /// Wall time of a run: default and cap.
    deadline_ms_max as deadline_max: time = DEADLINE_MS_DEFAULT;
    /// Wall time of a whole call (queue, compile and run) where the caller sets no shorter one.
    call_ms_max as call_time_max: time = 300_000;
    /// A session whose inputs all have their answers, and that sends none for so long, is ended.
    session_idle_ms_max as session_idle_max: time = 60_000;
    /// Debug output of a run that its answer has: default and cap. What is beyond it is left out and counted;
    /// the verdict is the same.
    debug_bytes_max: positive = DEBUG_BYTES_MAX;
    /// Scripts and artifacts kept ready in memory: whole pages, and one page more for each.
    ready_bytes_max: positive = 256 * MIB;
    /// Scripts and artifacts kept ready in memory, each of which takes a file descriptor.
    ready_entries_max: positive = 1_024;
    /// Data of cells that transactions name by digest, kept in memory: whole pages, and one page more for
    /// each.
    hot_cells_bytes_max: positive = 256 * MIB;
    /// Cells whose data is kept in memory, each of which takes a file descriptor.
    hot_cells_entries_max: positive = 1_024;
    /// Cycles between the samples of profiles, on average; 0 for no profiles.
    sample_cycles: one_in = 2_097_152;
    /// How long profiles are kept.
    profile_keep_ms as profile_keep: time = 3_600_000;
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

impl RawRunner {
    pub(crate) fn agree(&self, checker: &mut Checker) {
        if self.max_cycles_default > self.max_cycles_max {
            checker.note("runner.max_cycles_default", "is more than runner.max_cycles_max");
        }
        if self.deadline_ms_max > self.call_ms_max {
            checker.note("runner.deadline_ms_max", "is more than runner.call_ms_max");
        }
    }
}

impl Default for RunnerSection {
    fn default() -> Self {
        RawRunner::default().check(&mut Checker::default())
    }
}
