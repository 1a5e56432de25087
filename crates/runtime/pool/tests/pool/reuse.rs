//! Reused workers: which jobs share one, when it is replaced, and the cost of its end.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use antares_pool::{Pool, PoolConfig, Reuse, Sealed, Verdict, job::RunJob};
use rustix::process::{Signal, kill_process};

use crate::{
    hostile::{self, PATIENCE, assert_works, attempt, job, send, start, worker},
    processes::{children, eventually, kill, pid, zygote},
};

/// Runs a job in a worker that offers reuse. Returns the workers that exist afterwards.
#[track_caller]
fn stay(pool: &Pool) -> BTreeSet<u32> {
    assert_eq!(attempt(pool, "run", "stay", &[]), Verdict::Done("ok".to_owned()));
    children(zygote(pool))
}

#[test]
fn a_worker_that_stays_does_the_next_job_of_its_kind() {
    let pool = start(2, &[]).unwrap();
    let first = stay(&pool);
    assert_eq!((first.len(), pool.stats().resting, pool.stats().busy), (1, 1, 0));
    assert_eq!(stay(&pool), first);
    // Another tenant with the same script gets another worker; so does another script.
    let other = pool.of_tenant("other");
    assert_eq!(stay(&other).len(), 2);
    assert_eq!(stay(&other).len(), 2);
    let elf = Sealed::new("elf", b"another").unwrap();
    pool.run(&job("run", "stay", &[]), &elf, None, Instant::now() + PATIENCE).unwrap();
    assert_eq!(children(zygote(&pool)).len(), 3);
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (3, 2, 3));
    // More debug output than its memory permits.
    let large = RunJob { debug_bytes_max: 2 << 20, ..job("run", "stay", &[]) };
    send(&pool, &large, PATIENCE).unwrap();
    assert_eq!(pool.stats().spawned_total, 4);
}

#[test]
fn a_worker_that_went_wrong_does_no_other_job() {
    let pool = start(1, &[]).unwrap();
    for (round, (name, within)) in
        [("segv", PATIENCE), ("panic", PATIENCE), ("socket", PATIENCE), ("loop", Duration::from_millis(50))]
            .into_iter()
            .enumerate()
    {
        let before = stay(&pool);
        let verdict = send(&pool, &job("run", name, &[]), within).unwrap();
        assert!(!matches!(verdict, Verdict::Done(_)), "{name}: {verdict:?}");
        assert_eq!(hostile::is_violation(&verdict.map(|_| String::new())), name == "socket");
        assert!(stay(&pool).is_disjoint(&before), "{name}");
        assert_eq!(pool.stats().reused_total, round as u64 + 1, "{name}");
        let resting = *children(zygote(&pool)).first().unwrap();
        kill(resting);
        eventually("nobody rests", || pool.stats().resting == 0);
    }
    // A report of an error or of a restart prevents reuse.
    let (elf, library) = (Sealed::new("elf", b"elf").unwrap(), Sealed::new("library", b"none").unwrap());
    for name in ["trapped", "restarted"] {
        let until = Instant::now() + PATIENCE;
        let verdict = pool.run(&job("run", name, &[]), &elf, Some(&library), until).unwrap();
        assert!(matches!(verdict, Verdict::Done(_)), "{name}: {verdict:?}");
    }
    assert_eq!(pool.stats().resting, 0);
}

#[test]
fn workers_are_used_again_as_configured() {
    let start = |reuse| Pool::start(PoolConfig { reuse, ..PoolConfig::new(worker(), 2) }).unwrap();
    let pool = start(Reuse { idle_max: 0, ..Reuse::default() });
    stay(&pool);
    stay(&pool);
    assert_eq!((pool.stats().spawned_total, pool.stats().resting), (2, 0));
    let pool = start(Reuse { runs_max: 3, ..Reuse::default() });
    for _ in 0..7 {
        stay(&pool);
    }
    assert_eq!((pool.stats().spawned_total, pool.stats().reused_total), (3, 4));
    let pool = start(Reuse { idle_max: 2, ..Reuse::default() });
    for tenant in ["a", "b", "c", "d", "a", "d"] {
        stay(&pool.of_tenant(tenant));
    }
    assert_eq!((pool.stats().spawned_total, pool.stats().reused_total), (5, 1));
    eventually("two rest", || children(zygote(&pool)).len() == 2);
}

#[test]
fn a_worker_that_was_stopped_between_jobs_is_replaced_and_costs_nobody_an_answer() {
    let pool = start(2, &[]).unwrap();
    let stopped = stay(&pool);
    for worker in &stopped {
        kill_process(pid(*worker), Signal::STOP).unwrap();
    }
    let asked = Instant::now();
    stay(&pool);
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    eventually("the stopped one is gone", || children(zygote(&pool)).is_disjoint(&stopped));
    assert_eq!((pool.stats().lost_total, pool.stats().deadline_total), (0, 0));
}

#[test]
fn spoiled_shared_memory_ends_the_worker_alone() {
    let pool = start(2, &[]).unwrap();
    // The worker's own report repairs the positions, unless they are checked before.
    let verdict = send(&pool, &job("run", "spoil", &[]), PATIENCE).unwrap();
    assert!(matches!(verdict, Verdict::Done(_) | Verdict::FalseReport { .. }), "{verdict:?}");
    assert_works(&pool);
    let verdict = send(&pool, &job("run", "spoil-and-wait", &[]), Duration::from_millis(200)).unwrap();
    assert!(matches!(verdict, Verdict::FalseReport { .. } | Verdict::DeadlineExceeded), "{verdict:?}");
    assert_works(&pool);
}
