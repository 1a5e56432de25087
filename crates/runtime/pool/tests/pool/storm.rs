//! Kills workers and zygotes at random while callers of several tenants work. There must be no wrong answer, no
//! more lost jobs than kills explain, and no leftovers.

use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use antares_pool::{Pool, PoolError, Sealed, Verdict};
use rustix::process::{Signal, kill_process};

use crate::{
    hostile::{PATIENCE, job, start},
    processes::{alone, children, eventually, pid, zygote},
};

const TENANTS: [&str; 4] = ["a", "b", "c", "d"];
/// One in this many kills is a zygote's.
const ZYGOTE_ONE_IN: u64 = 20;

/// A deterministic pseudo-random generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Numbers of open descriptors and of mapped channels to workers in this process.
fn possessions() -> (usize, usize) {
    let open = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (open, maps.lines().filter(|line| line.contains("antares-line")).count())
}

fn is_killed(number: u32) -> bool {
    kill_process(pid(number), Signal::KILL).is_ok()
}

/// Results of callers.
#[derive(Default)]
struct Met {
    done: AtomicU64,
    lost: AtomicU64,
    wrong: AtomicU64,
}

/// Works for `tenant` until `over` is set; each job has its own number, which the answer must contain.
fn work(pool: &Pool, tenant: usize, over: &AtomicBool, met: &Met) {
    let pool = pool.of_tenant(TENANTS[tenant]);
    let elf = Sealed::new("elf", TENANTS[tenant].as_bytes()).unwrap();
    for index in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let number = index * 10 + tenant as u64;
        // Some are busy when the kill happens.
        let attempt = if index.is_multiple_of(3) { "echo-late" } else { "echo" };
        let answer = pool.run(&job("run", attempt, &[number]), &elf, None, Instant::now() + PATIENCE);
        let count = match answer {
            Ok(Verdict::Done(report)) if report.debug.iter().eq([number.to_string()]) => &met.done,
            Ok(Verdict::WorkerLost { .. }) | Err(PoolError::ZygoteLost) => &met.lost,
            other => {
                println!("{other:?}");
                &met.wrong
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn storm(kills: u64, seed: u64) {
    let pool = start(TENANTS.len(), &[]).unwrap();
    let (over, met) = (AtomicBool::new(false), Met::default());
    let mut random = Random(seed);
    let (mut workers, mut zygotes) = (0, 0);
    let before = possessions();
    thread::scope(|scope| {
        for tenant in 0..TENANTS.len() {
            let (pool, over, met) = (&pool, &over, &met);
            scope.spawn(move || work(pool, tenant, over, met));
        }
        let deadline = Instant::now() + PATIENCE;
        while workers + zygotes < kills {
            thread::sleep(Duration::from_micros(500 + random.below(4_000)));
            // A busy machine has fewer answers than pauses.
            if met.done.load(Ordering::Relaxed) <= workers + zygotes && Instant::now() < deadline {
                continue;
            }
            let Some(zygote) = pool.stats().zygote_pid else { continue };
            if random.below(ZYGOTE_ONE_IN) == 0 {
                zygotes += u64::from(is_killed(zygote));
                continue;
            }
            let children = children(zygote);
            if !children.is_empty() {
                let index = random.below(children.len() as u64);
                let worker = children.iter().nth(usize::try_from(index).unwrap());
                workers += u64::from(is_killed(*worker.unwrap()));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let [done, lost, wrong] = [&met.done, &met.lost, &met.wrong].map(|count| count.load(Ordering::Relaxed));
    println!(
        "seed {seed}: {workers} workers and {zygotes} zygotes killed, {done} answers, {lost} lost, {wrong} wrong"
    );
    assert_eq!(wrong, 0);
    assert!(done > kills, "{done} answers");
    // A worker has at most one job, and a zygote's end loses all.
    assert!(lost <= workers + zygotes * TENANTS.len() as u64, "{lost} lost");
    eventually("a zygote", || pool.stats().zygote_pid.is_some());
    // Only idle workers remain, and each of them is known.
    let zygote = zygote(&pool);
    eventually("those that rest", || {
        children(zygote).len() == pool.stats().resting && pool.stats().busy == 0
    });
    assert_eq!(children(std::process::id()), BTreeSet::from([zygote]));
    let rest = pool.stats().resting;
    drop(pool);
    let after = possessions();
    println!("{before:?} before, {after:?} after, {rest} rested");
    assert_eq!(after.1, 0, "lines that nobody uses");
    // The pool's own socket is closed, too.
    assert!(after.0 < before.0, "{before:?} {after:?}");
    assert!(children(std::process::id()).is_empty());
}

#[test]
fn a_hundred_kills_cost_no_more_than_their_own_jobs() {
    alone("storm::a_hundred_kills_cost_no_more_than_their_own_jobs", || storm(100, 7));
}

#[test]
#[ignore = "takes most of a minute"]
fn a_thousand_kills_cost_no_more_than_their_own_jobs() {
    alone("storm::a_thousand_kills_cost_no_more_than_their_own_jobs", || storm(1_000, 11));
}
