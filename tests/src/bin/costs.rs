//! Measures transactions natively and in the interpreter: processor time of this thread, without compiling.
//!
//! ```sh
//! cargo run --release -p antares-tests --bin costs -- [FILE...]
//! ```
//! Without files it measures the scripts of `tests/guests/scripts` that repeat system calls.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{env, fs, time::Duration};

use antares_tests::{
    guests,
    transactions::{Native, locked_by},
};
use antares_transaction::{Environment, Mock};
use antares_verifier::{Prepared, Selection, StopHandle, TransactionLimits, TransactionReport, Verifier};
use antares_vm::Tier;
use anyhow::{Context, Result};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use rustix::time::{ClockId, clock_gettime};

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };
/// Runs of each tier; the median counts.
const RUNS: usize = 9;

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Verifies once; returns the time and the report.
fn run(mock: &Mock, environment: &Environment, tier: Tier) -> Result<(Duration, TransactionReport)> {
    let prepared = Prepared::new(mock, environment)?;
    let engine = Native::new(mock, &prepared, environment, tier)?;
    let verifier = Verifier::new(prepared, LIMITS, engine, StopHandle::new());
    let start = now();
    let report = verifier.verify(Selection::All)?;
    Ok((now() - start, report))
}

/// Scripts that repeat an expensive operation, with the hash type that selects their version.
const SCRIPTS: [(&str, ScriptHashType); 8] = [
    ("SPAWNS", ScriptHashType::Data2),
    ("TURNS", ScriptHashType::Data2),
    ("EXECS", ScriptHashType::Data1),
    ("EXECS", ScriptHashType::Data2),
    ("LOADS_ONLY", ScriptHashType::Data2),
    ("FAILING_LOADS", ScriptHashType::Data2),
    ("FAILING_EXECS", ScriptHashType::Data1),
    ("FAILING_EXECS", ScriptHashType::Data2),
];

fn transactions() -> Result<Vec<(String, Mock)>> {
    let files: Vec<String> = env::args().skip(1).collect();
    if !files.is_empty() {
        let parse = |path: String| {
            let mock = Mock::from_json(&fs::read(&path).with_context(|| path.clone())?)?;
            Ok((path.rsplit('/').next().unwrap_or(&path).to_owned(), mock))
        };
        return files.into_iter().map(parse).collect();
    }
    let script = |(case, hash_type): (&str, ScriptHashType)| {
        let deps = [guests::script(case, &[])?.into(), Bytes::from(vec![0x13; 8192])];
        Ok((format!("{case} {hash_type:?}"), locked_by(&deps, hash_type)?))
    };
    SCRIPTS.into_iter().map(script).collect()
}

fn main() -> Result<()> {
    // As in a worker: machines stay mapped.
    antares_vm::reserve_machines()?;
    println!("transaction | native ms | interpreter ms | ratio | native cycles | restarted");
    for (name, mock) in transactions()? {
        println!("{name} | {}", line(&mock, &Environment::default()).with_context(|| name.clone())?);
    }
    Ok(())
}

/// Alternates both tiers.
fn line(mock: &Mock, environment: &Environment) -> Result<String> {
    let (mut native, mut interpreter, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (time, report) = run(mock, environment, Tier::Auto)?;
        let (other_time, other) = run(mock, environment, Tier::Interpreter)?;
        anyhow::ensure!((report.outcome, report.cycles) == (other.outcome, other.cycles), "the tiers differ");
        native.push(time);
        interpreter.push(other_time);
        counts = report.groups.iter().map(|group| group.counts).collect();
    }
    let [native, interpreter] = [native, interpreter].map(|mut times| {
        times.sort_unstable();
        times[RUNS / 2].as_secs_f64() * 1e3
    });
    let native_cycles: u64 = counts.iter().map(|count| count.native_cycles).sum();
    let interpreted: u64 = counts.iter().map(|count| count.interpreted_cycles).sum();
    let share = native_cycles as f64 / (native_cycles + interpreted).max(1) as f64 * 100.0;
    let restarted = counts.iter().find_map(|count| count.restarted).unwrap_or("-");
    let ratio = native / interpreter;
    Ok(format!("{native:.2} | {interpreter:.2} | {ratio:.2} | {share:.0} % | {restarted}"))
}
