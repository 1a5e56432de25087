//! A worker that does job after job: what it keeps between them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_pool::{
    Pool, PoolConfig, Verdict,
    job::{BatchJob, RunJob, RunOutcome, Tier},
};

#[path = "scripts/short.rs"]
mod short;

use short::{COUNT, EXIT, FIRST_BYTE, PRINT, elf};

const PATIENCE: Duration = Duration::from_secs(30);

fn start() -> Pool {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_antares-run-worker"));
    Pool::start(PoolConfig::new(worker, 2)).unwrap()
}

fn job(args: &[&[u8]]) -> RunJob {
    RunJob {
        options: CompileOptions { vm_version: 2, isa: Isa::of_version(2) },
        tier: Tier::Interpreter,
        args: args.iter().map(|arg| arg.to_vec()).collect(),
        cycles_max: u64::MAX,
        debug_bytes_max: 1 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    }
}

/// Children of the zygote of `pool` that are in the run stage; not the one that waits for its first job.
fn workers(pool: &Pool) -> Vec<u32> {
    let zygote = pool.stats().zygote_pid.unwrap();
    let numbers = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap();
    let is_running = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.contains("Seccomp_filters:\t3")
    };
    numbers.split_whitespace().map(|number| number.parse().unwrap()).filter(is_running).collect()
}

#[test]
fn runs_of_one_script_share_a_worker_and_nothing_else() {
    let pool = start();
    let elf = elf(&[&FIRST_BYTE, &COUNT, &EXIT]);
    for (arg, code) in [(b"a", 97), (b"b", 98), (b"c", 99)] {
        let verdict = pool.run(&job(&[arg]), &elf, None, Instant::now() + PATIENCE).unwrap();
        let Verdict::Done(report) = verdict else { panic!("{verdict:?}") };
        // A run before it would count, if memory kept it.
        assert_eq!(report.outcome, RunOutcome::Exit(code));
    }
    let RunJob { options, tier, cycles_max, debug_bytes_max, .. } = job(&[]);
    let inputs = vec![vec![b"d".to_vec()], vec![b"e".to_vec()]];
    let batch = BatchJob {
        options,
        tier,
        inputs,
        cycles_max,
        debug_bytes_max,
        output_bytes_max: 1 << 20,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let end = pool.batch(&batch, &elf, None, Instant::now() + PATIENCE).unwrap();
    let outcomes: Vec<_> = end.reports.into_iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [100, 101].map(RunOutcome::Exit));
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (1, 3, 1));
}

/// Places in the writable memory of process `number` where `canary` is. None if we may not look.
fn find(number: u32, canary: &[u8]) -> Option<Vec<u64>> {
    let memory = File::open(format!("/proc/{number}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{number}/maps")).ok()?;
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.split(' ').nth(1).unwrap().starts_with("rw")) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        let mut page = vec![0; 1 << 20];
        let mut at = start;
        while at < end {
            let count = usize::try_from(end - at).unwrap().min(page.len());
            memory.read_exact_at(&mut page[..count], at).ok()?;
            let hits = page[..count].windows(canary.len()).enumerate();
            found.extend(hits.filter(|(_, window)| *window == canary).map(|(offset, _)| at + offset as u64));
            at += count as u64;
        }
    }
    Some(found)
}

#[test]
fn a_worker_that_rests_holds_nothing_of_the_run_before() {
    let pool = start();
    // As long as a page, so that no one copy of it is cut at the end of what is read at a time.
    let canary: Vec<u8> = b"a canary that sings, ".iter().copied().cycle().take(4096).collect();
    let elf = elf(&[&PRINT, &FIRST_BYTE, &EXIT]);
    let verdict = pool.run(&job(&[&canary]), &elf, None, Instant::now() + PATIENCE).unwrap();
    let Verdict::Done(report) = verdict else { panic!("{verdict:?}") };
    assert!(report.debug.iter().eq([String::from_utf8_lossy(&canary)]));
    let [worker] = workers(&pool)[..] else { panic!("{:?}", workers(&pool)) };
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        // The answer comes before the wiping.
        match find(worker, &canary[..21]) {
            None => return println!("skipped: the memory of other processes may not be read here"),
            Some(places) if places.is_empty() => break,
            Some(places) => assert!(Instant::now() < until, "found at {places:x?}"),
        }
        thread::yield_now();
    }
    // It would have been found: our own memory has it.
    assert_ne!(find(std::process::id(), &canary[..21]), Some(Vec::new()));
}
