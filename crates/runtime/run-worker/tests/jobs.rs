//! A pool of run workers, and jobs for them in the interpreter.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_pool::{
    Pool, PoolConfig, Sealed, Verdict,
    job::{BatchJob, RunJob, RunReport, Tier, TransactionForm, VerifyJob},
};

/// Longer than any job takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn pool() -> Pool {
    Pool::start(PoolConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_antares-run-worker")), 2)).unwrap()
}

fn options() -> CompileOptions {
    CompileOptions { vm_version: 2, isa: Isa::of_version(2) }
}

/// A run with these arguments.
pub(crate) fn run(args: &[&[u8]]) -> RunJob {
    RunJob {
        options: options(),
        tier: Tier::Interpreter,
        args: args.iter().map(|arg| arg.to_vec()).collect(),
        cycles_max: u64::MAX,
        debug_bytes_max: 1 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    }
}

/// The report of a run without native code.
#[track_caller]
pub(crate) fn report(pool: &Pool, job: &RunJob, elf: &Sealed) -> RunReport {
    match pool.run(job, elf, None, Instant::now() + PATIENCE).unwrap() {
        Verdict::Done(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Runs with one argument each.
pub(crate) fn batch(args: &[&str]) -> BatchJob {
    BatchJob {
        options: options(),
        tier: Tier::Interpreter,
        inputs: args.iter().map(|arg| vec![arg.as_bytes().to_vec()]).collect(),
        cycles_max: u64::MAX,
        debug_bytes_max: 1 << 20,
        output_bytes_max: 8 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    }
}

/// A verification of so many bytes.
pub(crate) fn verification(form: TransactionForm, bytes: usize) -> VerifyJob {
    VerifyJob {
        form,
        tier: Tier::Interpreter,
        cycles_max: 100_000_000,
        debug_bytes_max: 1 << 20,
        transaction_bytes: bytes as u64,
        ..VerifyJob::default()
    }
}
