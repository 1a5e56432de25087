//! The spare child that waits for its first job: it takes the next job, and its loss is harmless.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

use antares_pool::{
    Pool,
    job::{RunJob, RunOutcome},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    jobs::{self, PATIENCE, pool, report},
    memory::workers,
    short::{EXIT, FIRST_BYTE, elf},
};

/// Runs a script of `tenant`; a new tenant has no worker yet.
#[track_caller]
fn run(pool: &Pool, tenant: &str) {
    let job = RunJob { debug_bytes_max: 0, ..jobs::run(&[b"*"]) };
    let report = report(&pool.of_tenant(tenant), &job, &elf(&[&FIRST_BYTE, &EXIT]));
    assert_eq!(report.outcome, RunOutcome::Exit(42));
}

fn zygote(pool: &Pool) -> u32 {
    pool.stats().zygote_pid.unwrap()
}

/// The spare child.
#[track_caller]
fn spare(pool: &Pool) -> u32 {
    let until = Instant::now() + PATIENCE;
    loop {
        if let [spare] = workers(pool, 1)[..] {
            return spare;
        }
        assert!(Instant::now() < until, "no child waits");
        thread::sleep(Duration::from_millis(1));
    }
}

fn kill(number: u32) {
    let pid = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn the_child_that_waits_takes_the_next_job_that_has_no_worker() {
    let pool = pool();
    let mut seen = BTreeSet::new();
    for tenant in ["a", "b", "c"] {
        let waiting = spare(&pool);
        // It may still be warming up, but it receives the job.
        run(&pool, tenant);
        assert!(workers(&pool, 3).contains(&waiting), "{tenant}");
        assert!(seen.insert(waiting));
        // The tenant's worker is idle and takes this job: the next spare keeps waiting.
        let waiting = spare(&pool);
        run(&pool, tenant);
        assert_eq!(spare(&pool), waiting);
    }
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (3, 3, 3));
    // It is confined like its zygote.
    pool.inspect();
    let stats = pool.stats();
    assert_eq!((stats.inspected_total, stats.unfenced_total), (5, 0));
}

#[test]
fn nobody_depends_on_the_child_that_waits() {
    let pool = pool();
    for round in 0..20 {
        kill(spare(&pool));
        run(&pool, &format!("tenant {round}"));
    }
    let stats = pool.stats();
    println!("{stats:?}");
    assert_eq!((stats.lost_total, stats.zygote_restarts_total), (0, 0));
}

#[test]
fn the_child_that_waits_ends_with_its_zygote_and_its_pool() {
    let pool = pool();
    let gone = |pid: u32| {
        let until = Instant::now() + PATIENCE;
        while fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| !status.contains("State:\tZ"))
        {
            assert!(Instant::now() < until, "{pid} lives on");
            thread::sleep(Duration::from_millis(1));
        }
    };
    let waiting = spare(&pool);
    kill(zygote(&pool));
    gone(waiting);
    run(&pool, "a");
    let waiting = spare(&pool);
    drop(pool);
    gone(waiting);
}
