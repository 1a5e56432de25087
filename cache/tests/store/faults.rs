//! Tests of a cache on a disk that fails or is full: at each operation in turn, once or permanently.

use std::{
    collections::BTreeSet,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use antares_cache::{Cache, CacheState, Put};
use tempfile::TempDir;

use crate::{
    entries::{self, MIB, present},
    plan::{
        Disk, EACCES, EDQUOT, EIO, EMFILE, ENOSPC, EROFS, FOR_GOOD, NAMES, OPENS, RANGES, READS, SYNCS,
        WRITES,
    },
};

/// Environment variable of the child that runs under the interposer: its folder.
const CHILD: &str = "ANTARES_CACHE_FAULTS_CHILD";
/// How long a cache may take to recover after the disk does.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// A cache under the interposer, and the entries that it acknowledged.
struct Kept {
    cache: Cache,
    stored: BTreeSet<u64>,
}

impl Kept {
    #[track_caller]
    fn open(dir: &TempDir, what: &str) -> Self {
        let cache = Cache::open(entries::config(dir.path(), 64 * MIB));
        Self { cache: cache.unwrap_or_else(|error| panic!("{what}: {error}")), stored: BTreeSet::new() }
    }

    /// The same with `count` entries.
    #[track_caller]
    fn with(dir: &TempDir, count: u64, what: &str) -> Self {
        let mut kept = Self::open(dir, what);
        (0..count).for_each(|number| assert!(kept.put(number, what), "{what}"));
        kept
    }

    /// Closes the cache and opens it again.
    #[track_caller]
    fn reopened(self, dir: &TempDir, what: &str) -> Self {
        let Self { cache, stored } = self;
        drop(cache);
        Self { stored, ..Self::open(dir, what) }
    }

    /// Puts an entry; returns whether it was stored.
    #[track_caller]
    fn put(&mut self, number: u64, what: &str) -> bool {
        match entries::put(&self.cache, number) {
            Put::Stored | Put::AlreadyThere => self.stored.insert(number) | true,
            Put::Rejected(_) => {
                assert!(!self.stored.contains(&number) || !what.is_empty());
                false
            }
        }
    }

    /// The cache recovers without help: puts an entry until it is stored.
    #[track_caller]
    fn put_at_last(&mut self, number: u64, what: &str) {
        let deadline = Instant::now() + BACK_WITHIN;
        while !self.put(number, what) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.cache.stats());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Number of acknowledged entries that exist; panics on wrong bytes.
    #[track_caller]
    fn present(&self, what: &str) -> usize {
        self.stored.iter().filter(|number| present(&self.cache, **number, what)).count()
    }
}

/// One round: stores entries while `count` operations of `kinds` fail, starting with operation `first`.
/// Returns false if there were fewer operations.
fn round(disk: &Disk, folder: &Path, (kinds, errno): (u64, u64), first: u64, count: u64) -> bool {
    let what = format!("error {errno} at operation {first} of kinds {kinds}, {count} times");
    disk.behave(kinds);
    let dir = TempDir::new_in(folder).expect("a folder");
    let mut kept = Kept::with(&dir, 3, &what);
    disk.fail(kinds, first, count, errno);
    for number in 10..14 {
        kept.put(number, &what);
        kept.present(&what);
    }
    kept.cache.rebuild();
    kept.put(14, &what);
    let has_failed = disk.failed() > 0;
    disk.behave(kinds);
    kept.put_at_last(20, &what);
    let stats = kept.cache.stats();
    assert!(matches!(stats.state, CacheState::Ready | CacheState::Rebuilt), "{what}: {stats:?}");
    let lost = kept.stored.len() - kept.present(&what);
    let is_told = lost == 0 || stats.corrupt > 0 || stats.set_aside > 0;
    assert!(is_told, "{what}: {lost} lost without a word, {stats:?}");
    for number in 0..30 {
        assert!(kept.put(number, &what), "{what}: {:?}", kept.cache.stats());
    }
    assert_eq!(kept.present(&what), 30, "{what}");
    let kept = kept.reopened(&dir, &what);
    assert_eq!(kept.present(&what), 30, "{what}, opened again: {:?}", kept.cache.stats());
    if lost > 0 {
        println!("{what}: {lost} entries lost, {:?}", stats.state);
    }
    has_failed
}

/// Runs `rounds` in a child under the interposer.
fn under_the_disk(test: &str, rounds: impl FnOnce(&Disk, &Path)) {
    if let Ok(folder) = std::env::var(CHILD) {
        return rounds(&Disk::own(), Path::new(&folder));
    }
    let (folder, disk) = (TempDir::new().expect("a folder"), Disk::new());
    let path = folder.path().canonicalize().expect("there");
    let mut child = Command::new(std::env::current_exe().expect("our path"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, &path).envs(disk.environment(&path));
    let child = child.output().expect("the child starts");
    let said = String::from_utf8_lossy(&child.stdout);
    said.lines()
        .filter(|line| line.contains("lost") || line.contains("rounds"))
        .for_each(|line| println!("{line}"));
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{:?}\n{said}\n{errors}", child.status);
}

/// Step between two failing operations, and the number of failures; every operation with
/// `ANTARES_DISK_FAULTS=all`.
fn steps() -> [(usize, u64); 2] {
    let all = std::env::var_os("ANTARES_DISK_FAULTS").is_some();
    if all { [(1, 1), (1, FOR_GOOD)] } else { [(7, 1), (41, FOR_GOOD)] }
}

/// Fails operations in turn, once; then some of them permanently.
fn each(disk: &Disk, folder: &Path, faults: (u64, u64)) {
    let mut rounds = 0;
    for (step, count) in steps() {
        for first in (1..).step_by(step) {
            if !round(disk, folder, faults, first, count) {
                break;
            }
            rounds += 1;
        }
    }
    println!("{rounds} rounds of error {}", faults.1);
    assert!(rounds > 10, "there were few operations to fail");
}

#[test]
fn a_disk_that_is_full_at_any_write_costs_nothing_that_was_stored() {
    under_the_disk(
        "faults::a_disk_that_is_full_at_any_write_costs_nothing_that_was_stored",
        |disk, folder| {
            each(disk, folder, (WRITES | NAMES, ENOSPC));
        },
    );
}

#[test]
fn a_write_or_sync_that_fails_is_never_taken_for_done() {
    under_the_disk("faults::a_write_or_sync_that_fails_is_never_taken_for_done", |disk, folder| {
        each(disk, folder, (WRITES | SYNCS | RANGES | NAMES, EIO));
    });
}

#[test]
fn a_read_that_fails_at_the_start_costs_misses_and_no_more() {
    under_the_disk("faults::a_read_that_fails_at_the_start_costs_misses_and_no_more", |disk, folder| {
        let dir = TempDir::new_in(folder).expect("a folder");
        let Kept { cache, stored } = Kept::with(&dir, 12, "at first");
        drop(cache);
        let (mut rounds, mut lost) = (0, 0);
        for first in (1..).step_by(steps()[0].0) {
            disk.fail(READS, first, 1, EIO);
            let mut kept = Kept::open(&dir, "a failing disk may recover");
            let has_failed = disk.failed() > 0;
            disk.behave(READS);
            // It has the readable entries, or begins without a store; the others are misses.
            kept.stored.clone_from(&stored);
            lost += stored.len() - kept.present("after a read");
            kept.stored.clear();
            stored.iter().for_each(|number| kept.put_at_last(*number, "again"));
            if !has_failed {
                break;
            }
            rounds += 1;
        }
        let kept = Kept { stored, ..Kept::open(&dir, "at last") };
        assert_eq!(kept.present("at last"), 12);
        println!("{rounds} rounds, {lost} entries lost");
        assert!(rounds > 2, "no read failed");
    });
}

/// A volume that is full, read-only or failing may recover; a directory that is not ours needs an operator.
#[test]
fn a_volume_that_fails_at_the_start_is_waited_for() {
    under_the_disk("faults::a_volume_that_fails_at_the_start_is_waited_for", |disk, folder| {
        for errno in [EIO, ENOSPC, EDQUOT, EROFS, EACCES] {
            let (dir, what) = (TempDir::new_in(folder).expect("a folder"), format!("error {errno}"));
            disk.fail(WRITES | NAMES, 1, FOR_GOOD, errno);
            let opened = Cache::open(entries::config(dir.path(), 64 * MIB));
            disk.behave(WRITES);
            match opened {
                Err(error) => assert_eq!(errno, EACCES, "{error}"),
                Ok(cache) => {
                    assert_eq!((cache.state(), errno == EACCES), (CacheState::Unavailable, false), "{what}");
                    let mut kept = Kept { cache, stored: BTreeSet::new() };
                    kept.put_at_last(0, &what);
                    assert_eq!((kept.cache.state(), kept.present(&what)), (CacheState::Ready, 1), "{what}");
                }
            }
        }
        println!("rounds: 5");
    });
}

/// Inspecting files needs descriptors. Running out of them is no damage.
#[test]
fn a_process_without_descriptors_keeps_its_store() {
    under_the_disk("faults::a_process_without_descriptors_keeps_its_store", |disk, folder| {
        let dir = TempDir::new_in(folder).expect("a folder");
        let mut kept = Kept::with(&dir, 12, "at first");
        disk.fail(OPENS | NAMES, 1, FOR_GOOD, EMFILE);
        assert!(kept.cache.inspect());
        for number in 12..16 {
            kept.put(number, "without descriptors");
        }
        assert!(disk.failed() > 0);
        disk.behave(OPENS);
        let stats = kept.cache.stats();
        assert_eq!((stats.state, stats.set_aside), (CacheState::Ready, 0), "{stats:?}");
        assert_eq!(kept.present("afterwards"), kept.stored.len());
        println!("rounds: 1");
    });
}

/// Data of a failed sync is not on the disk, and no later sync writes it: Linux marks the pages as clean. So
/// until everything is rewritten, the cache acknowledges nothing, not even that an entry exists already.
#[test]
fn after_a_sync_that_fails_nothing_is_acknowledged_before_all_is_written_anew() {
    under_the_disk(
        "faults::after_a_sync_that_fails_nothing_is_acknowledged_before_all_is_written_anew",
        |disk, folder| {
            for (first, is_restarted) in (1..=6).flat_map(|first| [(first, false), (first, true)]) {
                let what = format!("sync {first}, restarted: {is_restarted}");
                let dir = TempDir::new_in(folder).expect("a folder");
                let mut kept = Kept::with(&dir, 1, &what);
                disk.fail(SYNCS, first, 1, EIO);
                let refused = (1..=6).find(|number| !kept.put(*number, &what)).expect("a sync of each");
                assert_eq!((disk.failed(), refused), (1, first), "{what}");
                disk.behave(SYNCS);
                // Reads still work.
                assert_eq!(kept.present(&what) as u64, first, "{what}");
                if is_restarted {
                    kept = kept.reopened(&dir, &what);
                }
                kept.put_at_last(refused, &what);
                assert_eq!(kept.cache.stats().rebuilds, 1, "{what}");
                assert_eq!(kept.present(&what) as u64, first + 1, "{what}");
            }
            println!("rounds: 12");
        },
    );
}

/// sled panics when it closes a store that it cannot sync. The panic must affect neither the caller nor the
/// upkeep thread.
#[test]
fn a_rebuild_that_fails_anywhere_leaves_the_store_in_use() {
    under_the_disk("faults::a_rebuild_that_fails_anywhere_leaves_the_store_in_use", |disk, folder| {
        let dir = TempDir::new_in(folder).expect("a folder");
        let mut kept = Kept::with(&dir, 3, "at first");
        let kinds = WRITES | SYNCS | RANGES | NAMES;
        let rounds = (1..).take_while(|first| {
            disk.fail(kinds, *first, FOR_GOOD, EIO);
            kept.cache.rebuild();
            let has_failed = disk.failed() > 0;
            disk.behave(kinds);
            assert_eq!(kept.present("after a rebuild"), kept.stored.len(), "operation {first}");
            has_failed
        });
        let rounds = rounds.count();
        assert!(rounds > 10, "{rounds} operations of a rebuild");
        assert!(kept.put(4, "at last"));
        println!("rounds: {rounds}");
    });
}
