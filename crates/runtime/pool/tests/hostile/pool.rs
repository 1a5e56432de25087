//! A pool of hostile workers, and jobs for them.

use std::{
    path::PathBuf,
    sync::Once,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_pool::{
    Layer, Pool, PoolConfig, PoolError, Sealed, Verdict,
    job::{RunJob, RunReport, Tier},
};

/// Time limit of an attempt, unless the test is about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Closes inherited descriptors for workers, so that results do not depend on the environment of the tests.
static NOTHING_INHERITED: Once = Once::new();

/// Path of the hostile worker, which `cargo test` builds as an example.
pub(crate) fn worker() -> PathBuf {
    NOTHING_INHERITED.call_once(|| {
        // SAFETY: nothing is closed here, and descriptors made by the standard library are not inherited
        // anyway.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
    });
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/hostile-worker");
    assert!(
        path.is_file(),
        "{} is missing: run all tests of antares-pool, or build its examples",
        path.display()
    );
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

/// Runs an attempt with an ELF of `elf`.
pub(crate) fn send(pool: &Pool, job: &RunJob, within: Duration) -> Result<Verdict<RunReport>, PoolError> {
    let elf = Sealed::new("elf", b"not an elf").unwrap();
    pool.run(job, &elf, None, Instant::now() + within)
}

/// Result of an attempt.
pub(crate) fn attempt(pool: &Pool, stage: &str, attempt: &str, numbers: &[u64]) -> Verdict<String> {
    let verdict = send(pool, &job(stage, attempt, numbers), PATIENCE).unwrap();
    verdict.map(|report| report.debug.iter().collect())
}

/// Whether the kernel killed the worker for its system call.
pub(crate) fn is_violation(verdict: &Verdict<String>) -> bool {
    matches!(verdict, Verdict::SandboxViolation { .. })
}
