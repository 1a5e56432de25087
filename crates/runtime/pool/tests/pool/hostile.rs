//! A pool of hostile workers, and the tests' messages to it.

use std::{
    path::PathBuf,
    sync::Once,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_pool::{
    Layer, LayerStatus, Pool, PoolConfig, PoolError, Sealed, Verdict,
    job::{RunJob, RunReport, Tier},
};

/// Maximum time of an attempt, unless the test is about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Workers must not inherit open descriptors from the test runner, so that results do not depend on it.
static NOTHING_INHERITED: Once = Once::new();

/// Path of the hostile worker.
pub(crate) fn worker() -> PathBuf {
    NOTHING_INHERITED.call_once(|| {
        // SAFETY: nothing is closed here, and descriptors of the standard library are not inherited anyway.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
    });
    example("hostile-worker")
}

/// Path of a program that `cargo test` builds as an example.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let missing = "run all tests of antares-pool, or build its examples";
    assert!(path.is_file(), "{} is missing: {missing}", path.display());
    path
}

/// A pool of `workers_max` hostile workers, on a host that may lack some layers.
pub(crate) fn start(workers_max: usize, allow_degraded: &[Layer]) -> Result<Pool, PoolError> {
    Pool::start(PoolConfig {
        allow_degraded: allow_degraded.to_vec(),
        ..PoolConfig::new(worker(), workers_max)
    })
}

/// The job for an attempt.
pub(crate) fn job(stage: &str, attempt: &str, numbers: &[u64]) -> RunJob {
    let words = [stage, attempt].map(str::to_owned).into_iter();
    let args = words.chain(numbers.iter().map(ToString::to_string)).map(String::into_bytes).collect();
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    RunJob {
        options,
        tier: Tier::Auto,
        args,
        cycles_max: 1,
        debug_bytes_max: 4096,
        sample_cycles: 0,
        sample_salt: 0,
    }
}

/// Sends an attempt with an arbitrary ELF.
pub(crate) fn send(pool: &Pool, job: &RunJob, within: Duration) -> Result<Verdict<RunReport>, PoolError> {
    let elf = Sealed::new("elf", b"not an elf").unwrap();
    pool.run(job, &elf, None, Instant::now() + within)
}

/// The result of an attempt.
pub(crate) fn attempt(pool: &Pool, stage: &str, attempt: &str, numbers: &[u64]) -> Verdict<String> {
    let verdict = send(pool, &job(stage, attempt, numbers), PATIENCE).unwrap();
    verdict.map(|report| report.debug.iter().collect())
}

/// Whether the attempt succeeded, with whatever it got.
pub(crate) fn is_ok(verdict: &Verdict<String>) -> bool {
    matches!(verdict, Verdict::Done(said) if said.starts_with("ok"))
}

/// Whether the worker died for the reason `why`.
pub(crate) fn is_lost(verdict: &Verdict<String>, why: &str) -> bool {
    matches!(verdict, Verdict::WorkerLost { detail } if detail.contains(why))
}

/// Whether the kernel killed the worker for its system call.
pub(crate) fn is_violation(verdict: &Verdict<String>) -> bool {
    matches!(verdict, Verdict::SandboxViolation { .. })
}

/// The pool goes on.
#[track_caller]
pub(crate) fn assert_works(pool: &Pool) {
    assert_eq!(attempt(pool, "run", "nothing", &[]), Verdict::Done("ok".to_owned()));
}

/// What the pool says of a layer.
pub(crate) fn status(pool: &Pool, layer: Layer) -> LayerStatus {
    pool.layers().iter().find(|status| status.layer == layer).unwrap().clone()
}
