//! Tests of a cache on a healthy disk: put and get, budget, pins, failures, locks, clocks, many threads.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use antares_cache::{Cache, CacheConfig, CacheError, CacheState, Owner, Pinned, Put, Rejection, Space};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::entries::MIB;

fn config(dir: &Path, budget_bytes: u64) -> CacheConfig {
    CacheConfig { allow_any_filesystem: true, free_bytes_min: 0, ..CacheConfig::new(dir, budget_bytes) }
}

fn open(dir: &TempDir) -> Cache {
    Cache::open(config(dir.path(), 64 * MIB)).expect("the cache opens")
}

/// A new cache, and its directory.
fn fresh(budget_bytes: u64) -> (TempDir, Cache) {
    let dir = TempDir::new().expect("a directory");
    let cache = Cache::open(config(dir.path(), budget_bytes)).expect("the cache opens");
    (dir, cache)
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SmallRng::seed_from_u64(seed).fill(&mut bytes[..]);
    bytes
}

fn key(number: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

fn put(cache: &Cache, number: u64, bytes: &[u8]) -> Put {
    cache.put(Space::Artifact, key(number), bytes).expect("an artifact may have any key")
}

fn get(cache: &Cache, number: u64) -> Option<Vec<u8>> {
    cache.get(Space::Artifact, key(number))
}

#[test]
fn what_is_put_is_got_also_after_a_restart() {
    let dir = TempDir::new().expect("a directory");
    let lengths = [0, 1, 4027, 4028, 4029, 100_000, 3 << 20];
    let mut cache = open(&dir);
    for (number, &length) in (0..).zip(&lengths) {
        assert_eq!(put(&cache, number, &noise(number, length)), Put::Stored);
        assert_eq!(put(&cache, number, b"other bytes, same key"), Put::AlreadyThere);
    }
    for restarted in [false, true] {
        if restarted {
            drop(cache);
            cache = open(&dir);
        }
        for (number, &length) in (0..).zip(&lengths) {
            assert_eq!(get(&cache, number).as_deref(), Some(&noise(number, length)[..]), "{length} bytes");
        }
        let stats = cache.stats();
        assert_eq!(stats.entries.artifact, lengths.len() as u64);
        assert_eq!(stats.logical_bytes, lengths.iter().sum::<usize>() as u64);
        assert_eq!((stats.blobs, stats.corrupt, stats.hits.artifact), (0, 0, lengths.len() as u64));
        assert_eq!(stats.state, CacheState::Ready);
    }
}

#[test]
fn spaces_do_not_mix_and_scripts_must_fit_their_key() {
    let (_dir, cache) = fresh(64 * MIB);
    put(&cache, 1, b"artifact");
    assert_eq!(cache.get(Space::Script, key(1)), None);
    assert!(!cache.contains(Space::Script, key(1)));
    assert!(cache.contains(Space::Artifact, key(1)));
    let refused = cache.put(Space::Script, key(1), b"script");
    assert!(matches!(refused, Err(CacheError::WrongDigest { .. })), "{refused:?}");
    assert_eq!(cache.stats().misses.script, 1);
}

#[test]
fn the_budget_holds_and_the_recently_used_stay() {
    let (dir, cache) = fresh(3 * MIB);
    let favourite = noise(0, 50_000);
    put(&cache, 0, &favourite);
    put(&cache, 1_000, b"somebody relies on it");
    for number in 1..100 {
        assert_eq!(put(&cache, number, &noise(number, 50_000)), Put::Stored);
        assert_eq!(get(&cache, 0).as_deref(), Some(&favourite[..]), "used all the time, evicted never");
        assert!(cache.record_use(Space::Artifact, key(1_000)), "used all the time, evicted never");
        assert!(cache.stats().charged_bytes <= 3 * MIB);
    }
    assert!(cache.stats().evictions > 50);
    assert!(get(&cache, 1).is_none() && !cache.record_use(Space::Artifact, key(1)));
    drop(cache);
    // The order of use survives a restart.
    let cache = Cache::open(config(dir.path(), 3 * MIB)).expect("the cache opens");
    for number in 100..110 {
        put(&cache, number, &noise(number, 50_000));
    }
    assert!(cache.contains(Space::Artifact, key(0)));
}

#[test]
fn uploads_that_nobody_runs_push_out_neither_native_code_nor_scripts_that_are_run() {
    let (_dir, cache) = fresh(4 * MIB);
    let script = |number: u64| noise(1_000 + number, 50_000);
    let digest = |bytes: &[u8]| -> [u8; 32] { Sha256::digest(bytes).into() };
    let upload = |number| {
        let bytes = script(number);
        cache.put(Space::Script, digest(&bytes), &bytes).expect("its own digest")
    };
    for number in 0..5 {
        put(&cache, number, &noise(number, 50_000));
        upload(number);
        assert!(cache.get(Space::Script, digest(&script(number))).is_some());
    }
    for number in 5..100 {
        assert_eq!(upload(number), Put::Stored);
    }
    for number in 0..5 {
        assert!(cache.contains(Space::Artifact, key(number)), "artifact {number}");
        assert!(cache.contains(Space::Script, digest(&script(number))), "script {number}");
    }
    let stats = cache.stats();
    assert_eq!(stats.charged.script + stats.charged.artifact, stats.charged_bytes);
    assert!(stats.evictions > 50 && stats.charged_bytes > 2 * MIB, "{stats:?}");
}

#[test]
fn a_directory_that_is_gone_is_reported() {
    for replaced in [false, true] {
        let (dir, cache) = fresh(64 * MIB);
        assert_eq!(cache.state(), CacheState::Ready);
        fs::remove_dir_all(dir.path()).expect("removed");
        if replaced {
            fs::create_dir(dir.path()).expect("made");
            fs::write(dir.path().join("LOCK"), "another one").expect("written");
        }
        assert_eq!(cache.state(), CacheState::Lost);
        assert_eq!(cache.stats().state, CacheState::Lost);
    }
}

#[test]
fn what_needs_the_place_of_pinned_entries_is_rejected() {
    let (_dir, cache) = fresh(MIB);
    for number in 0..4 {
        assert_eq!(put(&cache, number, &noise(number, 60_000)), Put::Stored);
    }
    let pin = |is_pinned| {
        (0..2).for_each(|number| {
            assert_eq!(cache.pin(Space::Artifact, key(number), is_pinned), Pinned::Done);
        })
    };
    pin(true);
    assert_eq!(put(&cache, 9, &noise(9, 240_000)), Put::Rejected(Rejection::BudgetInUse));
    assert!((0..2).all(|number| get(&cache, number).is_some()));
    pin(false);
    assert_eq!(put(&cache, 9, &noise(9, 240_000)), Put::Stored);
    assert_eq!(cache.stats().rejected, 1);
}

#[test]
fn what_can_never_fit_is_rejected() {
    let dir = TempDir::new().expect("a directory");
    let mut config = CacheConfig { entry_bytes_max: 1000, ..config(dir.path(), MIB) };
    let cache = Cache::open(config.clone()).expect("the cache opens");
    assert_eq!(put(&cache, 1, &[0; 1001]), Put::Rejected(Rejection::TooLarge));
    assert_eq!(put(&cache, 2, &[0; 1000]), Put::Stored);
    drop(cache);
    config.entry_bytes_max = 64 * MIB;
    let cache = Cache::open(config.clone()).expect("the cache opens");
    assert_eq!(put(&cache, 3, &noise(3, 400_000)), Put::Rejected(Rejection::TooLarge));
    drop(cache);
    config.free_bytes_min = u64::MAX / 2;
    let cache = Cache::open(config).expect("the cache opens");
    assert_eq!(cache.state(), CacheState::NoSpace);
    assert_eq!(put(&cache, 4, b"small"), Put::Rejected(Rejection::DiskFull));
    assert_eq!(get(&cache, 2).as_deref(), Some(&[0; 1000][..]), "reads go on with a full disk");
}

#[test]
fn a_second_process_learns_who_holds_the_directory() {
    let dir = TempDir::new().expect("a directory");
    let _cache = open(&dir);
    let second = CacheConfig { lock_wait: Duration::from_millis(50), ..config(dir.path(), MIB) };
    match Cache::open(second) {
        Err(error @ CacheError::Locked { .. }) => {
            let expected = format!("process {}", std::process::id());
            assert!(error.to_string().contains(&expected), "{error}");
        }
        other => panic!("expected Locked, got {:?}", other.map(|_| "a cache")),
    }
}

#[test]
fn failures_are_remembered_for_their_time_whatever_the_clock_does() {
    const NOW: u64 = 1_800_000_000;
    const TWO_YEARS: u64 = 2 * 365 * 24 * 3600;
    let dir = TempDir::new().expect("a directory");
    let clock = Arc::new(AtomicU64::new(NOW));
    let config = CacheConfig { clock: Some(clock.clone()), failures_max: 3, ..config(dir.path(), MIB) };
    let mut cache = Cache::open(config.clone()).expect("the cache opens");
    let remembered = |cache: &Cache| cache.get_failure(key(1)).map(|failure| failure.reason);
    cache.put_failure(key(1), "invalid", "no entry point", Duration::from_secs(600));
    put(&cache, 1, b"entries do not care about clocks");
    for (now, expected) in [
        (NOW, true),
        (NOW + 599, true),
        (NOW + 600, false),
        (NOW - TWO_YEARS, false),
        (NOW + TWO_YEARS, false),
        (0, false),
        (NOW - 30, true),
    ] {
        clock.store(now, Ordering::Relaxed);
        assert_eq!(remembered(&cache).is_some(), expected, "at {now}");
        put(&cache, now, b"another");
        assert_eq!(get(&cache, 1).as_deref(), Some(&b"entries do not care about clocks"[..]));
    }
    clock.store(NOW, Ordering::Relaxed);
    drop(cache);
    cache = Cache::open(config).expect("the cache opens");
    assert_eq!(remembered(&cache).as_deref(), Some("invalid"), "a restart forgets nothing");
    for number in 2..20 {
        cache.put_failure(key(number), "timeout", "", Duration::from_secs(700));
    }
    assert_eq!(cache.stats().failures, 3, "their number is bounded");
    assert_eq!(remembered(&cache), None, "the one that expires first made place");
}

#[test]
fn many_threads_read_and_write_while_the_budget_evicts_and_a_rebuild_runs() {
    let (_dir, cache) = fresh(8 * MIB);
    let work = |thread: u64| {
        let mut random = SmallRng::seed_from_u64(thread);
        for round in 0..60 {
            let number = random.random_range(0..60);
            let expected = noise(number, 1000 + 2000 * usize::try_from(number).expect("small"));
            match get(&cache, number) {
                Some(bytes) => assert!(bytes == expected, "entry {number} has other bytes"),
                None => assert!(!matches!(put(&cache, number, &expected), Put::Rejected(_))),
            }
            if thread == 0 && round % 20 == 10 {
                assert!(cache.rebuild());
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || work(thread));
        }
    });
    let stats = cache.stats();
    assert_eq!((stats.corrupt, stats.store_errors, stats.rejected, stats.blobs), (0, 0, 0, 0));
    assert!(stats.rebuilds >= 3);
    assert_eq!(cache.sweep(), 0, "no chunk is left behind");
}

/// Size of a test campaign in MiB, from an environment variable.
fn mebibytes(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default) * MIB
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn many_times_the_budget_leaves_a_bounded_disk() {
    let budget = mebibytes("ANTARES_CACHE_BUDGET_MIB", 10);
    let written_max = mebibytes("ANTARES_CACHE_WRITTEN_MIB", 100);
    let (_dir, cache) = fresh(budget);
    let mut random = SmallRng::seed_from_u64(8);
    let (mut written, mut disk_most, mut number, mut early) = (0, 0, 0, 0);
    while written < written_max {
        number += 1;
        let length = random.random_range(1..400_000);
        assert_eq!(put(&cache, number, &noise(number, length)), Put::Stored);
        written += length as u64;
        let stats = cache.stats();
        assert_eq!(stats.blobs, 0);
        assert!(number % 16 > 0 || cache.inspect(), "what sled writes is no damage");
        disk_most = disk_most.max(stats.disk_bytes);
        if early == 0 && written > written_max / 4 {
            early = resident_bytes();
        }
    }
    let (stats, late) = (cache.stats(), resident_bytes());
    println!(
        "{} MiB written in {number} entries, most on disk {disk_most}, now {}, rebuilds {}, live {}; {} MiB resident after a quarter, {} at the end",
        written >> 20,
        stats.disk_bytes,
        stats.rebuilds,
        stats.charged_bytes,
        early >> 20,
        late >> 20
    );
    // Writes between two measurements of the disk exceed the bound for a moment.
    let most = 2 * budget + budget / 64;
    assert!(disk_most <= most, "{disk_most} bytes on disk for a budget of {budget}");
    assert!(stats.charged_bytes > budget / 2, "the budget is used: {stats:?}");
    assert_eq!((stats.corrupt, stats.store_errors), (0, 0));
}

#[test]
fn beyond_the_hard_limit_what_was_set_aside_goes_and_then_nothing_more_is_stored() {
    let (dir, cache) = fresh(8 * MIB);
    assert_eq!(put(&cache, 1, b"first"), Put::Stored);
    let aside = dir.path().join("quarantine-1-1");
    fs::create_dir(&aside).expect("made");
    fs::write(aside.join("db"), vec![1; 20 << 20]).expect("written");
    assert_eq!(put(&cache, 2, b"second"), Put::Stored);
    assert!(!aside.exists(), "it made place");
    fs::write(dir.path().join("stranger"), vec![1; 20 << 20]).expect("written");
    assert_eq!(put(&cache, 3, b"third"), Put::Rejected(Rejection::DiskFull));
    assert_eq!(get(&cache, 2).as_deref(), Some(&b"second"[..]));
    fs::remove_file(dir.path().join("stranger")).expect("removed");
    assert_eq!(put(&cache, 3, b"third"), Put::Stored);
}

#[test]
fn one_owner_that_stores_much_pushes_out_its_own() {
    let (_dir, cache) = fresh(64 * MIB);
    let put_of = |owner, seed| {
        let bytes = noise(seed, 512 << 10);
        let key: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(cache.put_of(owner, Space::Script, key, &bytes).expect("its digest"), Put::Stored);
        key
    };
    let owner = |peer| Some(Owner { peer, tenant: 0 });
    let modest: Vec<_> = (0..8).map(|number| put_of(owner(1), number)).collect();
    for number in 100..180 {
        put_of(owner(2), number);
    }
    assert!(cache.stats().evictions > 40, "{:?}", cache.stats());
    assert!(modest.iter().all(|key| cache.contains(Space::Script, *key)), "{:?}", cache.stats());
}

#[test]
fn what_is_pinned_stays_across_eviction_rebuild_and_restart_and_what_is_removed_is_gone() {
    let (dir, mut cache) = fresh(64 * MIB);
    assert_eq!(cache.pin(Space::Artifact, key(0), true), Pinned::Absent);
    for number in 0..3 {
        put(&cache, number, &noise(number, 512 << 10));
    }
    assert_eq!(cache.pin(Space::Artifact, key(0), true), Pinned::Done);
    assert_eq!(cache.pin(Space::Artifact, key(1), true), Pinned::Done);
    assert!(cache.remove(Space::Artifact, key(1)) && !cache.remove(Space::Artifact, key(1)));
    assert_eq!(get(&cache, 1), None);
    for restarted in [false, true] {
        if restarted {
            assert!(cache.rebuild());
            drop(cache);
            cache = open(&dir);
        }
        let base = if restarted { 200 } else { 100 };
        for number in base..base + 60 {
            put(&cache, number, &noise(number, 512 << 10));
        }
        assert!(get(&cache, 0).is_some() && get(&cache, 2).is_none());
    }
    let listed = cache.list(Space::Artifact, None, usize::MAX);
    let pinned = listed.iter().filter(|entry| entry.is_pinned).map(|entry| entry.key);
    assert_eq!(pinned.collect::<Vec<_>>(), [key(0)]);
    assert_eq!(cache.list(Space::Artifact, Some(listed[1].key), 1), [listed[2]]);
    let full = (0..60).find(|at| cache.pin(Space::Artifact, listed[*at].key, true) == Pinned::NoRoom);
    assert!(full.is_some_and(|at| at > 5), "{full:?}");
    assert_eq!(cache.pin(Space::Artifact, key(0), false), Pinned::Done);
}

#[test]
fn bytes_on_their_way_in_are_hashed_and_leave_no_name() {
    let (dir, cache) = fresh(64 * MIB);
    let names = || fs::read_dir(dir.path()).expect("it is there").count();
    let (before, bytes) = (names(), noise(7, 300_000));
    let mut incoming = cache.incoming().expect("a file");
    for piece in bytes.chunks(77_777) {
        incoming.add(piece).expect("room");
    }
    assert_eq!((incoming.bytes(), incoming.sha256()), (300_000, <[u8; 32]>::from(Sha256::digest(&bytes))));
    assert!(incoming.read(64).expect("the head") == bytes[..64]);
    // Reading does not move the write position.
    incoming.add(&bytes).expect("room");
    assert!(incoming.read(u64::MAX).expect("all") == [&bytes[..], &bytes].concat());
    assert_eq!(names(), before);
    assert!(cache.has_free(1) && !cache.has_free(u64::MAX));
}
