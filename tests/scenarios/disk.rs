//! `antares serve` on a disk that is full, fails or is slow, and without descriptors: clients get their
//! answers with the documented status, and the server recovers without a restart.

#[allow(dead_code, reason = "each test needs a part of it")]
#[path = "../../cache/tests/store/plan.rs"]
mod plan;

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use antares_proto::v1::Tier;
use antares_tests::guests;
use plan::{Disk, EACCES, EDQUOT, EIO, ENOSPC, EROFS, FOR_GOOD, NAMES, READS, SYNCS, WRITES};
use rustix::{
    fs::{major, minor},
    process::{Pid, Resource, Rlimit, getrlimit, prlimit},
};
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::{
    client::{Client, exit_code, inline, reason, serving, times},
    server::{Server, antares, ended, eventually, percentile, until},
};

/// End of the range of failing operations; each fault costs a server some compiles.
const FAULTS: u64 = 40;

/// A server whose store is on `disk`.
fn start(disk: &Disk, data: &TempDir, sections: &str) -> Server {
    fs::create_dir_all(Server::store(data)).unwrap();
    let variables = disk.environment(&Server::store(data));
    let text: String =
        variables.iter().map(|(name, value)| format!("{name}={}\n", value.display())).collect();
    fs::write(data.path().join("environment"), text).unwrap();
    Server::start_with(data, sections)
}

/// A guest modified into a different script with equal behaviour.
fn variant(number: u64) -> Vec<u8> {
    [guests::bytes("exit-imc").unwrap(), number.to_le_bytes().to_vec()].concat()
}

/// Statuses that clients of a failing store may see, as documented in the proto files.
#[track_caller]
fn is_documented(status: &Status, what: &str) {
    let known = [(Code::ResourceExhausted, "STORE_FULL"), (Code::NotFound, "SCRIPT_NOT_FOUND")];
    assert!(known.contains(&(status.code(), reason(status).as_str())), "{what}: {status:?}");
}

/// Runs and compiles during a fault: every inline script is answered, whatever the store does.
async fn goes_on(client: &Client, number: u64, what: &str) {
    let elf = variant(number);
    let answer = client.execute(inline(&elf, &["5"], Tier::Native)).await;
    assert_eq!(exit_code(&answer.unwrap_or_else(|status| panic!("{what}: {status}"))), Some(5), "{what}");
    if let Err(status) = client.upload(&variant(number + 1)).await {
        is_documented(&status, what);
    }
    match client.compile(&variant(number + 1)).await {
        Ok(compiled) => assert!(compiled.artifact_bytes > 0, "{what}"),
        Err(status) => is_documented(&status, what),
    }
}

/// New artifacts are stored again.
async fn stores_again(client: &Client, number: u64, what: &str) {
    let elf = variant(number);
    eventually(&format!("{what}: new artifacts are stored"), async || match client.upload(&elf).await {
        Ok(_) => client.compile(&elf).await.is_ok_and(|compiled| compiled.stored),
        Err(status) => {
            is_documented(&status, what);
            false
        }
    })
    .await;
}

/// For each of these operations: one fault in the range `once`, then some permanent ones.
async fn at_each(kinds: u64, errno: u64, once: std::ops::Range<u64>) {
    let (disk, data) = (Disk::new(), tempfile::tempdir().unwrap());
    let server = start(&disk, &data, "[compiler]\nbaseline = false\n");
    let client = Client::connect(&server).await;
    let kept = variant(0);
    client.upload(&kept).await.unwrap();
    assert!(client.compile(&kept).await.unwrap().stored);
    let (mut failed, mut number) = (0, 1);
    for (first, count) in
        once.step_by(3).map(|first| (first, 1)).chain([(1, FOR_GOOD), (3, FOR_GOOD), (8, FOR_GOOD)])
    {
        let what = format!("error {errno} at operation {first}, {count} times");
        disk.fail(kinds, first, count, errno);
        goes_on(&client, number, &what).await;
        failed += disk.failed();
        disk.behave(kinds);
        stores_again(&client, number + 2, &what).await;
        number += 3;
        // Earlier data may be gone, but is never wrong.
        let answer = client.execute(inline(&kept, &["7"], Tier::Native)).await;
        assert_eq!(exit_code(&answer.unwrap_or_else(|status| panic!("{what}: {status}"))), Some(7), "{what}");
        until("the server is ready", || server.is_ready());
    }
    assert!(failed > 5, "nothing failed: the test does not test");
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_no_answer() {
    at_each(WRITES | NAMES, ENOSPC, 1..FAULTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_costs_no_answer() {
    at_each(WRITES | SYNCS | NAMES, EIO, 1..FAULTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_refuses_costs_no_answer() {
    for errno in [EACCES, EROFS, EDQUOT] {
        at_each(WRITES | NAMES, errno, 1..4).await;
    }
}

/// A file system of its own under the store of a server.
struct Volume(PathBuf);

impl Volume {
    /// None, with a message, if none can be mounted.
    fn mount(data: &TempDir) -> Option<Self> {
        let (folder, image) = (Server::store(data), data.path().join("image"));
        fs::create_dir_all(&folder).unwrap();
        File::create(&image).unwrap().set_len(128 << 20).unwrap();
        command("mkfs.ext4 -q -N 4096", &image).unwrap();
        let mount = format!("mount -o loop,errors=remount-ro {}", image.display());
        let mounted = command(&mount, &folder);
        let skipped = |error| println!("skipped: a file system of its own is root's to mount: {error}");
        mounted.map_err(skipped).ok().map(|()| Self(folder))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = command("umount -l", &self.0);
    }
}

/// Runs the command with `folder` appended.
fn command(words: &str, folder: &Path) -> Result<(), String> {
    let mut words = words.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).arg(folder).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Uses up all space of `folder`.
fn fill(folder: &Path) {
    let mut ballast = File::create(folder.join("ballast")).unwrap();
    while ballast.write_all(&[0; 4096]).is_ok() {}
}

/// Leaves less space than a store needs at first, but enough to open one.
fn crowd(folder: &Path) {
    fill(folder);
    let ballast = File::options().write(true).open(folder.join("ballast")).unwrap();
    ballast.set_len(ballast.metadata().unwrap().len() - (16 << 20)).unwrap();
}

/// As the kernel does after an error of the disk.
fn turn_read_only(folder: &Path) {
    let device = rustix::fs::stat(folder).unwrap().st_dev;
    let device = fs::read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).unwrap();
    let trigger = Path::new("/sys/fs/ext4").join(device.file_name().unwrap()).join("trigger_fs_error");
    fs::write(trigger, "an error of the disk").unwrap();
}

fn remount(how: &str, folder: &Path) {
    command(&format!("mount -o remount,{how}"), folder).unwrap();
}

/// Leaves no inode for another file.
fn use_inodes(folder: &Path) {
    let files = folder.join("files");
    fs::create_dir(&files).unwrap();
    (0..).map(|number: u32| files.join(number.to_string())).find(|path| File::create(path).is_err());
}

fn free_inodes(folder: &Path) {
    fs::remove_dir_all(folder.join("files")).unwrap();
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// Overwrites all stored data except keys.
fn damage(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.ends_with("keys") => {}
            path if path.is_dir() => damage(&path),
            path => fs::write(&path, vec![0xa5; fs::read(&path).unwrap().len()]).unwrap(),
        }
    }
}

fn free(folder: &Path) {
    fs::remove_file(folder.join("ballast")).unwrap();
}

/// A fault of a volume, the resulting `antares_cache_state`, and the repair that needs no restart, if there is
/// one.
type Failing = (&'static str, fn(&Path), &'static str, Option<fn(&Path)>);

const FAILING: [Failing; 11] = [
    ("almost full at the start", crowd, "no_space", Some(free)),
    ("full at the start", fill, "no_space", Some(free)),
    ("without inodes at the start", use_inodes, "unavailable", Some(free_inodes)),
    ("read-only at the start", |at| remount("ro", at), "unavailable", Some(|at| remount("rw", at))),
    ("damaged at the start", damage, "rebuilt", None),
    ("empty at the start", empty, "ready", None),
    ("full", fill, "ready", Some(free)),
    ("without inodes", use_inodes, "ready", Some(free_inodes)),
    ("read-only", turn_read_only, "unavailable", None),
    ("emptied", empty, "lost", None),
    ("unmounted", |at| command("umount -l", at).unwrap(), "lost", None),
];

#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_fail_cost_no_answer() {
    let docs = include_str!("../../docs/operations.md");
    for (name, breaks, state, mends) in FAILING {
        let row = docs.lines().find(|line| line.starts_with(&format!("| {name} |")));
        assert!(row.is_some_and(|row| row.contains(&format!("| `{state}`"))), "{name}: {row:?}");
        let (is_at_start, is_serving) =
            (name.ends_with("at the start"), !["no_space", "lost"].contains(&state));
        let data = tempfile::tempdir().unwrap();
        let Some(volume) = Volume::mount(&data) else { return };
        // As in the chart, the keys are on the volume.
        let sections = format!(
            "[cache]\nbudget_bytes = 1048576\n[compiler]\nscript_bytes_max = 524288\n[signing]\nkeys = {:?}\n",
            volume.0.join("keys")
        );
        let start = || Server::start_unread(&[], &data, &sections).0;
        let mut server = start();
        if is_at_start {
            stores_again(&Client::connect(&server).await, 0, name).await;
            assert_eq!(server.stop(), Some(0));
            breaks(&volume.0);
            server = start();
        }
        let client = Client::connect(&server).await;
        if !is_at_start {
            stores_again(&client, 0, name).await;
            breaks(&volume.0);
        }
        goes_on(&client, 10, name).await;
        let is_reported = || server.metric(&format!("antares_cache_state{{state=\"{state}\"}}")) > 0.0;
        until(&format!("{name}: it is {state}"), || is_reported() && server.is_ready() == is_serving);
        goes_on(&client, 20, name).await;
        let script = data.path().join("script");
        fs::write(&script, variant(40)).unwrap();
        let mut run = antares(&["run", "--server", &server.address, script.to_str().unwrap(), "--", "0"]);
        assert_eq!(ended(&mut run).0, Some(0), "{name}: the command brings its script");
        if let Some(mends) = mends {
            mends(&volume.0);
            until(&format!("{name}: all serves"), || server.is_ready());
            stores_again(&client, 30, name).await;
        }
        assert_eq!(server.stop(), Some(0), "{name}");
        println!("{name}: {state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_does_not_slow_down_what_is_at_hand() {
    const RUNS: usize = 300;
    /// Disk operations during the runs, 200 ms each.
    const OPERATIONS: u64 = 12;
    let (disk, data) = (Disk::new(), tempfile::tempdir().unwrap());
    let server = start(&disk, &data, "");
    let client = Client::connect(&server).await;
    let elf = variant(0);
    client.upload(&elf).await.unwrap();
    assert!(client.compile(&elf).await.unwrap().stored);
    times(&client, &elf, RUNS).await;
    let mut before = times(&client, &elf, RUNS).await;
    disk.delay(WRITES | SYNCS | NAMES | READS, 200_000);
    // A client stores a script, and waits for the disk.
    let other = Client::connect(&server).await;
    let storing = tokio::spawn(async move {
        for number in 1_u64.. {
            let _ = other.upload(&variant(number)).await;
            let _ = other.compile(&variant(number)).await;
        }
    });
    until("the disk is slow", || disk.seen() > 0);
    let mut during = times(&client, &elf, RUNS).await;
    while disk.seen() < OPERATIONS {
        during.extend(times(&client, &elf, RUNS).await);
    }
    storing.abort();
    let (before, during) = (percentile(&mut before, 99), percentile(&mut during, 99));
    println!("p99 {before:?} and {during:?}, {} slow operations", disk.seen());
    disk.behave(WRITES);
    // One disk operation would be visible.
    assert!(during < Duration::from_millis(150).max(2 * before), "{during:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_descriptors_are_used_up_refuses_and_comes_back() {
    let (_data, server, client) = serving("").await;
    let elf = variant(0);
    assert_eq!(exit_code(&client.execute(inline(&elf, &["3"], Tier::Native)).await.unwrap()), Some(3));
    let open = server.possessions()[0];
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let limit = |files: u64| {
        let limit = Rlimit { current: Some(files), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(pid, Resource::Nofile, limit).unwrap().current
    };
    let before = limit(open);
    for number in 1..20 {
        let started = Instant::now();
        let answer = client.execute(inline(&variant(number), &["3"], Tier::Auto)).await;
        assert!(started.elapsed() < Duration::from_secs(180), "it hangs: {:?}", started.elapsed());
        match answer {
            Ok(answer) => assert_eq!(exit_code(&answer), Some(3)),
            Err(status) => {
                assert!(matches!(status.code(), Code::ResourceExhausted | Code::Unavailable), "{status:?}")
            }
        }
    }
    limit(before.unwrap());
    until("it is ready", || server.is_ready());
    let fresh = Client::connect(&server).await;
    for number in 20..24 {
        let answer = fresh.execute(inline(&variant(number), &["3"], Tier::Native)).await.unwrap();
        assert_eq!(exit_code(&answer), Some(3));
    }
    assert_eq!(server.stop(), Some(0));
}
