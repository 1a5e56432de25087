//! Control groups of workers: missing ones, fake ones, and with `ANTARES_TEST_CGROUP` real ones.

use std::{env, fs, path::Path, time::Instant};

use antares_pool::{GroupConfig, Layer, LayerStatus, Pool, PoolConfig, Verdict};

use crate::hostile::{self, assert_works, attempt, is_lost, is_ok, worker};

/// Memory limit of a worker in these tests: less than a compile child may put into memory files (a twelfth of 1
/// GiB in each).
const MEMORY_BYTES_MAX: u64 = 64 << 20;

fn start(folder: &Path) -> Pool {
    let group = GroupConfig { folder: folder.to_owned(), memory_bytes_max: MEMORY_BYTES_MAX };
    Pool::start(PoolConfig { group: Some(group), ..PoolConfig::new(worker(), 2) }).unwrap()
}

fn status(pool: &Pool) -> LayerStatus {
    hostile::status(pool, Layer::ControlGroup)
}

#[test]
fn a_host_without_them_is_reported_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let without_memory = folder.path().join("cpu");
    fs::create_dir(&without_memory).unwrap();
    fs::write(without_memory.join("cgroup.controllers"), "cpu pids\n").unwrap();
    for folder in [&folder.path().join("none"), folder.path(), &without_memory] {
        let pool = start(folder);
        let status = status(&pool);
        assert!(!status.active && status.detail.contains(folder.to_str().unwrap()), "{status}");
        assert_works(&pool);
    }
    let pool = hostile::start(1, &[]).unwrap();
    assert_eq!(status(&pool).detail, "not asked for");
}

/// A worker that cannot enter its group does not do its job elsewhere.
#[test]
fn a_worker_outside_of_its_group_gets_no_job() {
    let folder = tempfile::tempdir().unwrap();
    // Files in this folder are writable, so it passes for a group until a worker starts.
    fs::write(folder.path().join("cgroup.controllers"), "memory\n").unwrap();
    let pool = start(folder.path());
    assert!(status(&pool).active);
    let limit = fs::read_dir(folder.path())
        .unwrap()
        .find_map(|entry| fs::read_to_string(entry.ok()?.path().join("memory.max")).ok());
    assert_eq!(limit.unwrap(), MEMORY_BYTES_MAX.to_string());
    assert_works(&pool);
    // From now on, groups cannot be created.
    fs::remove_dir_all(folder.path()).unwrap();
    let verdict = attempt(&pool, "run", "nothing", &[]);
    assert!(matches!(verdict, Verdict::WorkerLost { .. }), "{verdict:?}");
}

/// Address space limits do not count memory files; groups do.
#[test]
fn memory_files_count_in_a_control_group() {
    let Some(folder) = env::var_os("ANTARES_TEST_CGROUP") else {
        return println!("skipped: ANTARES_TEST_CGROUP names no control group in which groups may be made");
    };
    let pool = start(Path::new(&folder));
    let status = status(&pool);
    println!("{status}");
    assert!(status.active, "{status}");
    let time = |pool: &Pool| {
        let began = Instant::now();
        for _ in 0..20 {
            assert_works(pool);
        }
        began.elapsed() / 20
    };
    let without = hostile::start(2, &[]).unwrap();
    println!("a worker: {:?} with a group, {:?} without", time(&pool), time(&without));
    let verdict = attempt(&pool, "compile", "take-memory-files", &[]);
    assert!(is_lost(&verdict, "control group"), "{verdict:?}");
    drop(pool);
    let left = fs::read_dir(&folder).unwrap().filter_map(Result::ok);
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("antares-worker")).collect();
    assert!(left.is_empty(), "{left:?}");
    // Without a group, file limits permit the same.
    let verdict = attempt(&without, "compile", "take-memory-files", &[]);
    assert!(is_ok(&verdict), "{verdict:?}");
}
