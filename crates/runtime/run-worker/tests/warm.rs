//! A reused worker: state that it retains between jobs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::{
    thread,
    time::{Duration, Instant},
};

use antares_pool::{
    Verdict,
    job::{BatchJob, RunOutcome},
};

#[path = "scripts/jobs.rs"]
#[allow(dead_code, reason = "each test needs a part of it")]
mod jobs;
#[path = "scripts/memory.rs"]
mod memory;
#[path = "scripts/short.rs"]
mod short;

use jobs::{batch, pool, run};
use memory::{find, workers};
use short::{COUNT, EXIT, FIRST_BYTE, PRINT, elf};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn runs_of_one_script_share_a_worker_and_nothing_else() {
    let pool = pool();
    let elf = elf(&[&FIRST_BYTE, &COUNT, &EXIT]);
    for (arg, code) in [(b"a", 97), (b"b", 98), (b"c", 99)] {
        let verdict = pool.run(&run(&[arg]), &elf, None, Instant::now() + PATIENCE).unwrap();
        let Verdict::Done(report) = verdict else { panic!("{verdict:?}") };
        // An earlier run would count if memory survived.
        assert_eq!(report.outcome, RunOutcome::Exit(code));
    }
    // No more output than the worker has memory for.
    let batch = BatchJob { output_bytes_max: 1 << 20, ..batch(&["d", "e"]) };
    let end = pool.batch(&batch, &elf, None, Instant::now() + PATIENCE).unwrap();
    let outcomes: Vec<_> = end.reports.into_iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [100, 101].map(RunOutcome::Exit));
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (1, 3, 1));
}

#[test]
fn a_worker_that_rests_holds_nothing_of_the_run_before() {
    let pool = pool();
    // As long as a page, so that the read buffer's end never cuts every copy.
    let canary: Vec<u8> = b"a canary that sings, ".iter().copied().cycle().take(4096).collect();
    let elf = elf(&[&PRINT, &FIRST_BYTE, &EXIT]);
    let verdict = pool.run(&run(&[&canary]), &elf, None, Instant::now() + PATIENCE).unwrap();
    let Verdict::Done(report) = verdict else { panic!("{verdict:?}") };
    assert!(report.debug.iter().eq([String::from_utf8_lossy(&canary)]));
    let [worker] = workers(&pool)[..] else { panic!("{:?}", workers(&pool)) };
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        // The report arrives before the wiping.
        match find(worker, &canary[..21], "rw") {
            None => return println!("skipped: the memory of other processes may not be read here"),
            Some(places) if places.is_empty() => break,
            Some(places) => assert!(Instant::now() < until, "found at {places:x?}"),
        }
        thread::yield_now();
    }
    // The search works: our own memory contains the canary.
    assert_ne!(find(std::process::id(), &canary[..21], "rw"), Some(Vec::new()));
}
