//! Zygotes are replaced while jobs run, without an effect on the jobs.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use antares_pool::{Cancel, Pool, PoolConfig, PoolError, Renewal, Sealed, Until, Verdict};

use crate::{
    hostile::{self, PATIENCE, attempt, job, worker},
    processes::{children, eventually, stat, zygote},
};

const NEVER: Renewal = Renewal { workers_max: u64::MAX, age_max: Duration::MAX };

fn start(workers_max: usize, renewal: Renewal) -> Pool {
    Pool::start(PoolConfig { renewal, ..PoolConfig::new(worker(), workers_max) }).unwrap()
}

fn renewals(pool: &Pool) -> u64 {
    pool.stats().zygote_renewals_total
}

/// Start address of the worker binary in process `number`.
fn base(number: u32) -> String {
    let maps = fs::read_to_string(format!("/proc/{number}/maps")).unwrap();
    maps.lines().find(|line| line.contains("hostile-worker")).unwrap().split('-').next().unwrap().to_owned()
}

/// The address of a worker's channel is useless in another worker, even of the same zygote.
#[test]
fn workers_share_memory_with_their_supervisor_at_addresses_of_their_own() {
    let pool = hostile::start(1, &[]).unwrap();
    let addresses: std::collections::BTreeSet<String> = (0..8)
        .map(|_| match attempt(&pool, "run", "shared-address", &[]) {
            Verdict::Done(address) => address,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(addresses.len(), 8, "{addresses:?}");
}

#[test]
fn jobs_go_on_while_zygotes_are_renewed() {
    let pool = start(4, Renewal { workers_max: 5, ..NEVER });
    let (first, at) = (zygote(&pool), base(zygote(&pool)));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["nothing", "nothing", "stay"] {
            let (pool, is_over) = (&pool, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(attempt(pool, "run", name, &[]), Verdict::Done("ok".to_owned()));
                }
            });
        }
        eventually("renewed often", || renewals(&pool) >= 10 || pool.stats().lost_total > 0);
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = pool.stats();
    assert_eq!((stats.lost_total, stats.zygote_restarts_total), (0, 0));
    eventually("the first one is gone", || stat(first).is_none());
    match fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap().trim() {
        "0" => println!("skipped: this machine gives all processes the same addresses"),
        _ => eventually("another layout", || pool.stats().zygote_pid.is_some_and(|now| base(now) != at)),
    }
}

#[test]
fn an_old_zygote_s_workers_finish_and_none_is_left() {
    let pool = start(2, Renewal { workers_max: 1, ..NEVER });
    let first = zygote(&pool);
    thread::scope(|scope| {
        let cancel = Cancel::new();
        let (elf, until) =
            (Sealed::new("elf", b"x").unwrap(), Until::new(Instant::now() + PATIENCE, &cancel));
        let running = scope.spawn({
            let pool = &pool;
            move || pool.run(&job("run", "loop", &[]), &elf, None, until)
        });
        eventually("renewed", || renewals(&pool) == 1);
        // The first zygote's worker continues, and zygotes are not replaced one after the other.
        for _ in 0..20 {
            assert_eq!(attempt(&pool, "run", "stay", &[]), Verdict::Done("ok".to_owned()));
        }
        assert_eq!((renewals(&pool), stat(first).unwrap().1), (1, false));
        assert!(!running.is_finished());
        cancel.cancel();
        assert!(matches!(running.join().unwrap(), Err(PoolError::Cancelled)));
    });
    eventually("the first one is gone", || stat(first).is_none());
    // The due renewal was only postponed, and idle workers of the old zygote end.
    eventually("renewed again", || renewals(&pool) == 2);
    eventually("nobody rests", || pool.stats().resting == 0 && children(zygote(&pool)).is_empty());
    assert_eq!(children(std::process::id()).iter().filter(|number| **number == first).count(), 0);
}

#[test]
fn an_idle_zygote_is_renewed_when_it_is_old() {
    let pool = start(1, Renewal { age_max: Duration::from_millis(20), ..NEVER });
    let first = zygote(&pool);
    eventually("renewed twice", || renewals(&pool) >= 2);
    eventually("the first one is gone", || stat(first).is_none());
    assert_eq!(attempt(&pool, "run", "nothing", &[]), Verdict::Done("ok".to_owned()));
    assert_eq!(pool.stats().zygote_restarts_total, 0);
}
