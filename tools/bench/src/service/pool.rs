//! The pool without gRPC: round trips, resets, new workers, deadlines; and batches compared with the bare
//! machine in one loop.

use std::{
    fs,
    time::{Duration, Instant},
};

use antares_pool::{
    Layer, Pool, PoolConfig, Sealed, Verdict,
    job::{BatchJob, RunJob, RunOutcome, RunReport, Tier},
    worker_path,
};
use antares_vm::{Limits, Machine, Outcome};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;

use super::{Results, scripts::Script};
use crate::{
    engine::{CYCLES_MAX, Engine},
    programs::OPTIONS,
};

const WORKER: &str = "antares-run-worker";
/// Timeout for operations whose time is not measured.
const WAIT_MAX: Duration = Duration::from_secs(60);
const ROUND_TRIPS: usize = 4_000;
/// Pause before each script that is new to the pool.
const BETWEEN_NEW: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_millis(20);
/// Wall time of a side per round of the comparison with the bare machine. Short, so that both sides meet the
/// same load of other processes.
const SIDE_TIME: Duration = Duration::from_millis(20);

/// Programs for the comparison with the bare machine, about 1 ms per run: arithmetic in registers, tables,
/// dependent loads. `limit_store_bypass` slows down loads after stores to late-known addresses;
/// `limit_indirect_branches` slows down indirect branches.
pub(super) const PROGRAMS: [(&str, &str); 12] = [
    ("keccak", "keccak-imc"),
    ("secp256k1", "secp256k1-imc"),
    ("rsa1024", "rsa1024-imc"),
    ("mldsa", "mldsa-imc"),
    ("sha256", "sha256-imc"),
    ("blake2b", "blake2b-imc"),
    ("lz4", "lz4-imc"),
    ("sort", "sort-imc"),
    ("chase", "chase-imc"),
    ("interpreter", "interpreter-imc"),
    ("blocks", "blocks-imc"),
    ("lua", "lua-imc"),
];

struct Loaded {
    elf: Sealed,
    library: Sealed,
}

impl Loaded {
    fn of(script: &Script) -> Result<Self> {
        Ok(Self { elf: Sealed::new("elf", &script.elf)?, library: Sealed::new("library", &script.library)? })
    }

    fn run(&self, pool: &Pool, args: &[&str], within: Duration) -> Result<Verdict<RunReport>> {
        Ok(pool.run(&job(args), &self.elf, Some(&self.library), Instant::now() + within)?)
    }

    /// Runs the script; expects an exit without a bailout.
    fn run_well(&self, pool: &Pool, args: &[&str]) -> Result<RunReport> {
        match self.run(pool, args, WAIT_MAX)? {
            Verdict::Done(report) if matches!(report.outcome, RunOutcome::Exit(_)) => {
                ensure!(report.restarted.is_none(), "left native code: {report:?}");
                Ok(report)
            }
            other => bail!("the worker gave {other:?}"),
        }
    }
}

fn job(args: &[&str]) -> RunJob {
    RunJob {
        options: OPTIONS,
        tier: Tier::Native,
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        cycles_max: CYCLES_MAX,
        debug_bytes_max: 1 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    }
}

fn start(workers_max: usize) -> Result<Pool> {
    Ok(Pool::start(PoolConfig::new(worker_path(WORKER)?, workers_max))?)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let started = Instant::now();
    let answer = work()?;
    Ok((answer, started.elapsed()))
}

pub(super) fn measure(rounds: usize, results: &mut Results) -> Result<()> {
    let trivial = Script::trivial()?;
    round_trips(&trivial, rounds, results)?;
    resets(rounds, results)?;
    new_workers(&trivial, rounds, results)?;
    deadlines(&trivial, rounds, results)?;
    controls(results)?;
    against_bare("trivial", &trivial, 1, 20 + 20 * rounds, results)?;
    let secp256k1 = Script::guest("secp256k1-imc")?;
    against_bare("secp256k1_once", &secp256k1, 1, 20 + 20 * rounds, results)?;
    for (name, guest) in PROGRAMS {
        let script = Script::guest(guest)?;
        let repetitions = repetitions_for(&script, Duration::from_millis(1))?;
        against_bare(name, &script, repetitions, 20 + 20 * rounds, results)?;
    }
    Ok(())
}

/// Records the machine's mitigations of speculation and their state: ratios mean little without them.
fn controls(results: &mut Results) -> Result<()> {
    for status in start(1)?.layers() {
        if let Layer::StoreBypass | Layer::IndirectBranches | Layer::CoreScheduling = status.layer {
            let state = match (status.active, &*status.detail) {
                (true, detail) => format!("on ({detail})"),
                (false, detail) if detail.starts_with("offered") => "offered here, off".to_owned(),
                (false, detail) => format!("not offered here ({detail})"),
            };
            results.record(status.layer.name(), f64::from(u8::from(status.active)), state);
        }
    }
    Ok(())
}

/// Round trip from the caller to a warm worker, and the part of it outside the machine.
fn round_trips(trivial: &Script, rounds: usize, results: &mut Results) -> Result<()> {
    let (pool, script) = (start(2)?, Loaded::of(trivial)?);
    let (mut whole, mut beside) = (Vec::new(), Vec::new());
    for index in 0..ROUND_TRIPS * rounds + 100 {
        let (report, time) = timed(|| script.run_well(&pool, &[]))?;
        if index >= 100 {
            whole.push(time);
            beside.push(time.saturating_sub(Duration::from_micros(report.load_us + report.run_us)));
        }
    }
    results.latency("worker_round_trip", whole);
    results.latency("worker_round_trip_without_run", beside);
    let zygote = pool.stats().zygote_pid.context("there is no zygote")?;
    let children = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children"))?;
    let is_running = |worker: &&str| {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
        status.contains("Seccomp_filters:\t3")
    };
    let worker = children.split_whitespace().find(is_running).context("no worker rests")?;
    // Reading this file requires privileges.
    if let Ok(smaps) = fs::read_to_string(format!("/proc/{worker}/smaps_rollup")) {
        results.record("idle_worker_private_kib", kibibytes(&smaps, "Private_Dirty:")?, "");
        results.record("idle_worker_rss_kib", kibibytes(&smaps, "Rss:")?, "");
    }
    Ok(())
}

fn kibibytes(smaps: &str, name: &str) -> Result<f64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix(name)).context("smaps without a field")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Resets a machine that a script has written to.
fn resets(rounds: usize, results: &mut Results) -> Result<()> {
    for (name, pages) in [("reset_64_kib", 14), ("reset_4_mib", 990)] {
        let script = Script::dirtying(pages)?;
        let library = antares_tests::native::load(&script.library)?;
        let (mut machine, elf) = (Machine::new()?, Bytes::from(script.elf));
        let script = antares_vm::RunScript {
            elf: &elf,
            args: &[],
            vm_version: OPTIONS.vm_version,
            isa: OPTIONS.isa.0,
        };
        let limits = Limits { cycles_max: CYCLES_MAX, debug_bytes_max: 0 };
        let mut times = Vec::new();
        for _ in 0..500 * rounds {
            let report = machine.run(&script, &limits, Tier::Native, Some(&library))?;
            ensure!(matches!(report.outcome, Outcome::Exit(0)), "{report:?}");
            let started = Instant::now();
            machine.clear();
            times.push(started.elapsed());
        }
        results.latency(name, times);
    }
    Ok(())
}

/// Starts a worker for a new script, and a zygote with its namespaces.
fn new_workers(trivial: &Script, rounds: usize, results: &mut Results) -> Result<()> {
    let (pool, library) = (start(2)?, Sealed::new("library", &trivial.library)?);
    let (mut apart, mut in_a_row) = (Vec::new(), Vec::new());
    for index in 0..400 * rounds {
        // An ELF may have arbitrary data after its segments.
        let elf = [&trivial.elf[..], &index.to_le_bytes()].concat();
        let script = Loaded { elf: Sealed::new("elf", &elf)?, library: library.try_clone()? };
        let is_apart = index.is_multiple_of(2);
        if is_apart {
            // During this pause the zygote prepares a child.
            std::thread::sleep(BETWEEN_NEW);
        }
        let time = timed(|| script.run_well(&pool, &[]))?.1;
        if is_apart { apart.push(time) } else { in_a_row.push(time) }
    }
    results.latency("new_artifact", apart);
    results.latency("new_artifact_at_once_after", in_a_row);
    let zygotes: Result<Vec<_>> = (0..10 * rounds).map(|_| Ok(timed(|| start(2))?.1)).collect();
    results.latency("new_zygote", zygotes?);
    Ok(())
}

/// Time from the deadline of an endless script to the response of the next one in the only slot.
fn deadlines(trivial: &Script, rounds: usize, results: &mut Results) -> Result<()> {
    let (pool, endless) = (start(1)?, Loaded::of(&Script::endless()?)?);
    let trivial = Loaded::of(trivial)?;
    let mut times = Vec::new();
    for _ in 0..20 * rounds {
        let deadline = Instant::now() + DEADLINE;
        let verdict = pool.run(&job(&[]), &endless.elf, Some(&endless.library), deadline)?;
        ensure!(verdict == Verdict::DeadlineExceeded, "{verdict:?}");
        trivial.run_well(&pool, &[])?;
        times.push(deadline.elapsed());
    }
    results.latency("deadline_to_free_slot", times);
    Ok(())
}

/// Repetitions with which a run of `script` takes `time`.
pub(super) fn repetitions_for(script: &Script, time: Duration) -> Result<u32> {
    let mut engine = Engine::new(script.elf.clone(), &script.library)?;
    let mut repetitions = 1_u32;
    loop {
        engine.run(repetitions)?;
        if timed(|| engine.run(repetitions))?.1 >= time || repetitions > 1 << 20 {
            return Ok(repetitions);
        }
        repetitions = repetitions + repetitions / 4 + 1;
    }
}

/// Alternates batches in a worker with the same runs on a machine in this process.
fn against_bare(
    name: &str,
    script: &Script,
    repetitions: u32,
    rounds: usize,
    results: &mut Results,
) -> Result<()> {
    let (pool, loaded) = (start(1)?, Loaded::of(script)?);
    let mut engine = Engine::new(script.elf.clone(), &script.library)?;
    engine.run(repetitions)?;
    let once = timed(|| engine.run(repetitions))?.1;
    let runs = (SIDE_TIME.as_nanos() / once.as_nanos().max(1)).clamp(8, 1_024);
    let runs = usize::try_from(runs)?;
    let args = vec![repetitions.to_string().into_bytes()];
    let RunJob { options, tier, cycles_max, debug_bytes_max, .. } = job(&[]);
    let batch = BatchJob {
        options,
        tier,
        inputs: vec![args; runs],
        cycles_max,
        debug_bytes_max,
        output_bytes_max: 8 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let mut bare = || timed(|| (0..runs).try_for_each(|_| engine.run(repetitions).map(|_| ())));
    let sandboxed = || {
        let (end, time) = timed(|| {
            Ok(pool.batch(&batch, &loaded.elf, Some(&loaded.library), Instant::now() + WAIT_MAX)?)
        })?;
        ensure!(end.reports.len() == runs, "{:?}", end.verdict);
        Ok(time)
    };
    // Start the worker.
    sandboxed()?;
    let (mut bare_times, mut sandboxed_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // Each side goes first once and last once.
        bare_times.push(bare()?.1);
        sandboxed_times.extend([sandboxed()?, sandboxed()?]);
        bare_times.push(bare()?.1);
    }
    let (bare, sandboxed) = (undisturbed(bare_times), undisturbed(sandboxed_times));
    results.record(format!("{name}_bare_us"), bare * 1e6 / runs as f64, "");
    results.record(name, bare / sandboxed, "of bare");
    Ok(())
}

/// Time of a side without disturbance, in seconds: the tenth percentile, because other load only adds time.
fn undisturbed(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 10).map_or(f64::NAN, Duration::as_secs_f64)
}
