//! Tests of a cache under kills and power loss: at every moment of its writes, with any subset of the
//! unsynced data lost, or none.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    process::Command,
    thread,
};

use antares_cache::{Cache, Put};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use tempfile::TempDir;

use crate::{
    crash::{Loss, Trace},
    entries::{MIB, config, present, put},
    plan::Disk,
};

/// Environment variable of the child whose operations are recorded: its budget and its folder.
const CHILD: &str = "ANTARES_CACHE_POWER_CHILD";
/// Power cuts per recording in `make test`; override with `ANTARES_POWER_CUTS`.
const CUTS: usize = 100;
/// Entries that the child stores.
const ENTRIES: usize = 48;

/// Stores entries in two passes, with a rebuild in each, and records each acknowledged one.
fn be_the_child(order: &str) {
    let (budget_bytes, folder) = order.split_once(' ').expect("two words");
    let folder = Path::new(folder);
    let mut acknowledged =
        OpenOptions::new().create(true).append(true).open(folder.join("acknowledged")).expect("made");
    let mut numbers = (0_u64..).take(ENTRIES);
    for _ in 0..2 {
        let budget_bytes = budget_bytes.parse().expect("a number");
        let cache = Cache::open(config(&folder.join("cache"), budget_bytes)).expect("the cache opens");
        for number in numbers.by_ref().take(ENTRIES / 2) {
            assert_eq!(put(&cache, number), Put::Stored, "{:?}", cache.stats());
            acknowledged.write_all(&[u8::try_from(number).expect("few")]).expect("written");
            if number % 16 == 11 {
                // Another rebuild may be in progress.
                cache.rebuild();
            }
        }
    }
}

/// Records what `test` does in a child.
fn recorded(test: &str, folder: &Path, budget_bytes: u64) -> Trace {
    let (disk, trace) = (Disk::new(), folder.with_extension("trace"));
    let mut child = Command::new(std::env::current_exe().expect("our path"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, format!("{budget_bytes} {}", folder.display()));
    child.envs(disk.environment(folder)).env("DISK_TRACE", &trace);
    assert!(child.status().expect("the child starts").success());
    let read = Trace::read(&trace);
    fs::remove_file(trace).expect("removed");
    read
}

/// Result of one power cut.
#[derive(Default)]
struct Seen {
    acknowledged: u64,
    lost: u64,
}

/// Opens and uses the files that a power cut left.
fn survives(folder: &Path, budget_bytes: u64, what: &str) -> Seen {
    let acknowledged = fs::read(folder.join("acknowledged")).unwrap_or_default();
    let cache = Cache::open(config(&folder.join("cache"), budget_bytes))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let is_there = |number| present(&cache, number, what);
    let lost = acknowledged.iter().filter(|number| !is_there(u64::from(**number))).count() as u64;
    assert_eq!(put(&cache, 200), Put::Stored, "{what}");
    assert!(is_there(200), "{what}: {:?}", cache.stats());
    cache.sweep();
    assert_eq!(cache.sweep(), 0, "{what}: one sweep leaves no orphan");
    Seen { acknowledged: acknowledged.len() as u64, lost }
}

fn cuts(test: &str, budget_bytes: u64) -> Option<Seen> {
    if let Ok(order) = std::env::var(CHILD) {
        be_the_child(&order);
        return None;
    }
    let folder = TempDir::new().expect("a folder");
    let from = folder.path().canonicalize().expect("there").join("recorded");
    fs::create_dir(&from).expect("made");
    let trace = recorded(test, &from, budget_bytes);
    let count = std::env::var("ANTARES_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CUTS);
    let cut = |number: usize| {
        let mut random = SmallRng::seed_from_u64(number as u64);
        let loss = [Loss::Nothing, Loss::Behind, Loss::Some, Loss::Torn][number % 4];
        let at = random.random_range(0..=trace.len());
        let left = TempDir::new().expect("a folder");
        trace.lose(at, loss, &mut random, &from, left.path());
        survives(left.path(), budget_bytes, &format!("cut {number}, before operation {at}, {loss:?}"))
    };
    let halves = thread::scope(|scope| {
        let work =
            [0, 1].map(|first| scope.spawn(move || (first..count).step_by(2).map(cut).collect::<Vec<_>>()));
        work.map(|half| half.join().expect("no cut is fatal"))
    });
    let all = halves.into_iter().flatten().fold(Seen::default(), |sum, one| Seen {
        acknowledged: sum.acknowledged + one.acknowledged,
        lost: sum.lost + one.lost,
    });
    let Seen { acknowledged, lost } = all;
    let operations = trace.len();
    println!("{count} cuts among {operations} operations: {acknowledged} entries acknowledged, {lost} lost");
    assert!(acknowledged > 0, "nothing was acknowledged: the test does not test");
    Some(all)
}

#[test]
fn what_was_acknowledged_survives_a_power_loss_at_any_moment() {
    let name = "power::what_was_acknowledged_survives_a_power_loss_at_any_moment";
    if let Some(seen) = cuts(name, 1 << 40) {
        assert_eq!(seen.lost, 0);
    }
}

#[test]
fn a_power_loss_while_entries_are_evicted_leaves_a_cache_that_works() {
    cuts("power::a_power_loss_while_entries_are_evicted_leaves_a_cache_that_works", MIB);
}
