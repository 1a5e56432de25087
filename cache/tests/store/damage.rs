//! Tests of a cache on a faulty disk: flipped bits, lost and truncated files.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use antares_cache::{Cache, CacheConfig, CacheError, CacheState, Put};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use tempfile::TempDir;

use crate::entries::{self, MIB, present, put};

const ENTRIES: u64 = 24;

fn config(dir: &Path, budget_bytes: u64) -> CacheConfig {
    CacheConfig { open_timeout: Duration::from_secs(5), ..entries::config(dir, budget_bytes) }
}

/// The directory of a closed cache with all entries.
fn pristine() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    let cache = Cache::open(config(dir.path(), 64 * MIB)).expect("the cache opens");
    for number in 0..ENTRIES {
        assert_eq!(put(&cache, number), Put::Stored);
    }
    dir
}

/// All files below `dir`, relative to it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(dir).expect("below").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn copy_of(original: &Path) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    for file in files(original) {
        let target = copy.path().join(&file);
        fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        fs::copy(original.join(&file), target).expect("copied");
    }
    copy
}

/// Opens a damaged cache and uses it: it must never return wrong bytes or fail, and must be complete again
/// after all entries are put once more. Returns how many entries survived.
#[track_caller]
fn survives(dir: &Path, what: &str) -> u64 {
    let cache = Cache::open(config(dir, 64 * MIB)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let survived = (0..ENTRIES).filter(|&number| present(&cache, number, what)).count() as u64;
    let missing: Vec<_> = (0..ENTRIES).filter(|&number| !present(&cache, number, what)).collect();
    for &number in &missing {
        assert!(!matches!(put(&cache, number), Put::Rejected(_)), "{what}: {:?}", cache.stats());
    }
    assert!((0..ENTRIES).all(|number| present(&cache, number, what)), "{what}: {:?}", cache.stats());
    let stats = cache.stats();
    assert_eq!(stats.blobs, 0, "{what}");
    assert_ne!(stats.state, CacheState::Unavailable, "{what}");
    drop(cache);
    let cache =
        Cache::open(config(dir, 64 * MIB)).unwrap_or_else(|error| panic!("{what}, opened again: {error}"));
    let is_whole = (0..ENTRIES).all(|number| present(&cache, number, what));
    assert!(is_whole, "{what}, opened again: {:?}", cache.stats());
    survived
}

#[test]
fn a_flipped_bit_anywhere_costs_at_most_entries() {
    let original = pristine();
    let mut random = SmallRng::seed_from_u64(4);
    let mut lost = 0;
    for file in files(original.path()) {
        let length = fs::metadata(original.path().join(&file)).expect("there").len();
        let flips = if length > 100_000 { 30 } else { 6 };
        for _ in 0..if length == 0 { 0 } else { flips } {
            let copy = copy_of(original.path());
            let path = copy.path().join(&file);
            let mut bytes = fs::read(&path).expect("read");
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
            fs::write(&path, bytes).expect("written");
            lost +=
                ENTRIES - survives(copy.path(), &format!("bit flipped at byte {at} of {}", file.display()));
        }
    }
    println!("entries lost to flipped bits: {lost}");
    assert!(lost > 0, "no flip hit anything: the test does not test");
}

#[test]
fn files_that_are_cut_zeroed_or_gone_cost_at_most_entries() {
    let original = pristine();
    for file in files(original.path()) {
        let bytes = fs::read(original.path().join(&file)).expect("read");
        let half = &bytes[..bytes.len() / 2];
        let damaged = [
            ("emptied", Some(Vec::new())),
            ("cut in half", Some(half.to_vec())),
            ("short of a byte", Some(bytes[..bytes.len().saturating_sub(1)].to_vec())),
            ("zeroed", Some(vec![0; bytes.len()])),
            ("half zeroed", Some([half, &vec![0; bytes.len() - half.len()]].concat())),
            ("all ones", Some(vec![0xff; bytes.len()])),
            ("gone", None),
        ];
        for (how, content) in damaged {
            let copy = copy_of(original.path());
            let path = copy.path().join(&file);
            match content {
                Some(content) => fs::write(&path, content).expect("written"),
                None => fs::remove_file(&path).expect("removed"),
            }
            survives(copy.path(), &format!("{} {how}", file.display()));
        }
    }
}

/// A kill while sled opens leaves an unfinished snapshot that is newer than the complete one.
#[test]
fn a_snapshot_that_was_not_finished_costs_nothing() {
    let dir = pristine();
    let half = [0x5a; 32 << 10];
    fs::write(dir.path().join("store-000001/snap.7FFFFFFFFFFFFFFF.generating"), half).expect("written");
    let cache = Cache::open(config(dir.path(), 64 * MIB)).expect("the cache opens");
    assert_eq!(cache.state(), CacheState::Ready);
    assert!((0..ENTRIES).all(|number| present(&cache, number, "")), "{:?}", cache.stats());
}

#[test]
fn a_store_that_never_comes_back_from_opening_is_set_aside() {
    let dir = pristine();
    fs::write(dir.path().join("OPENING"), "1 2\n").expect("written");
    drop(Cache::open(config(dir.path(), 64 * MIB)).expect("two lost tries may be chance"));
    fs::write(dir.path().join("OPENING"), "1 3\n").expect("written");
    let cache = Cache::open(config(dir.path(), 64 * MIB)).expect("opens with an empty store");
    let stats = cache.stats();
    assert_eq!((stats.state, stats.set_aside, stats.entries.artifact), (CacheState::Rebuilt, 1, 0));
    assert_eq!(put(&cache, ENTRIES), Put::Stored);
    drop(cache);
    fs::write(dir.path().join("OPENING"), "2 3\n").expect("written");
    drop(Cache::open(config(dir.path(), 64 * MIB)).expect("opens with an empty store"));
    let kept = fs::read_dir(dir.path()).expect("a folder").filter(|entry| {
        entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with("quarantine-")
    });
    assert_eq!(kept.count(), 1, "one is kept");
}

/// As after an upgrade or a rollback of the server.
#[test]
fn a_store_of_another_format_is_set_aside() {
    let dir = pristine();
    {
        let theirs = sled::open(dir.path().join("store-000001")).expect("opens");
        let meta = theirs.open_tree("meta").expect("a tree");
        meta.insert(b"format_version", &4_u64.to_le_bytes()).expect("written");
        theirs.flush().expect("flushed");
    }
    let cache = Cache::open(config(dir.path(), 64 * MIB)).expect("the cache opens");
    let stats = cache.stats();
    assert_eq!((stats.state, stats.set_aside), (CacheState::Rebuilt, 1), "{stats:?}");
    assert!((0..ENTRIES).all(|number| !present(&cache, number, "")), "{stats:?}");
    assert_eq!(put(&cache, ENTRIES), Put::Stored);
}

#[test]
fn a_directory_that_is_no_directory_is_a_clear_error() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, b"").expect("written");
    match Cache::open(config(&path, MIB)) {
        Err(error @ CacheError::Io { .. }) => assert!(error.to_string().contains("file"), "{error}"),
        other => panic!("expected an error, got {:?}", other.map(|_| "a cache")),
    }
}

#[test]
fn garbage_in_place_of_an_open_store_is_noticed_without_a_read() {
    let dir = pristine();
    let cache = Cache::open(config(dir.path(), 64 * MIB)).expect("the cache opens");
    for number in 0..200 {
        put(&cache, number);
        assert!(number % 20 > 0 || cache.inspect(), "what sled writes is no damage");
    }
    assert!(cache.rebuild() && cache.inspect());
    assert_eq!(cache.state(), CacheState::Ready);
    let store = fs::read_dir(dir.path()).expect("a folder").filter_map(|entry| {
        let path = entry.expect("an entry").path().join("db");
        path.exists().then_some(path)
    });
    let path = store.max().expect("a store");
    let length = fs::metadata(&path).expect("there").len();
    let mut file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
    std::io::copy(&mut std::io::repeat(0xa5).take(length), &mut file).expect("overwritten");
    // Reads only the state, as a health check does.
    let deadline = Instant::now() + Duration::from_secs(30);
    while cache.state() != CacheState::Rebuilt {
        assert!(Instant::now() < deadline, "{:?}", cache.stats());
        thread::sleep(Duration::from_millis(50));
    }
    let stats = cache.stats();
    assert!(stats.set_aside == 1 && stats.store_errors >= 1, "{stats:?}");
    assert_eq!(put(&cache, 1000), Put::Stored);
    assert!(cache.inspect());
}
