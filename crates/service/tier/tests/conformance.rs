//! Conformance tests of the shared tier on S3.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[allow(dead_code, unreachable_pub, reason = "each test needs a part of it")]
#[path = "../../../../tests/src/s3.rs"]
mod s3;

use antares_tier::{BreakerState, HEAD_BYTES, Shared, SharedConfig, Space, StoreLocation, TierError};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

fn noise(number: u64, length: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(length + 32);
    let mut block = Sha256::digest(number.to_le_bytes());
    while bytes.len() < length {
        bytes.extend_from_slice(&block);
        block = Sha256::digest(block);
    }
    bytes.truncate(length);
    bytes.into()
}

fn key(number: u64) -> [u8; 32] {
    Sha256::digest(number.to_be_bytes()).into()
}

/// Checks the contract of a tier.
async fn conforms(tier: &Shared) {
    for (number, length) in (0..).zip([0, 1, 4096, 1 << 20, 9 << 20]) {
        let (key, bytes) = (key(number), noise(number, length));
        assert_eq!(tier.get(Space::Artifact, key).await, Ok(None), "before");
        assert_eq!(tier.put(Space::Artifact, key, bytes.clone()).await, Ok(()), "{length} bytes");
        assert_eq!(tier.get(Space::Artifact, key).await, Ok(Some(bytes.clone())), "{length} bytes");
        assert_eq!(tier.get(Space::Script, key).await, Ok(None), "spaces do not mix");
        assert_eq!(tier.put(Space::Artifact, key, bytes.clone()).await, Ok(()), "once more");
        assert_eq!(tier.get(Space::Artifact, key).await, Ok(Some(bytes)), "once more");
        assert_eq!(tier.remove(Space::Artifact, key).await, Ok(()));
        assert_eq!(tier.get(Space::Artifact, key).await, Ok(None), "removed");
        assert_eq!(tier.remove(Space::Artifact, key).await, Ok(()), "what is gone may be removed");
    }
    let script = noise(0, 30_000);
    let digest: [u8; 32] = Sha256::digest(&script).into();
    assert_eq!(tier.put(Space::Script, digest, script.clone()).await, Ok(()));
    assert_eq!(tier.get(Space::Script, digest).await, Ok(Some(script)));
    let many = (100..116).map(|number| async move {
        tier.put(Space::Artifact, key(number), noise(number, 50_000)).await?;
        tier.get(Space::Artifact, key(number)).await.map(|got| got == Some(noise(number, 50_000)))
    });
    for equal in futures_util::future::join_all(many).await {
        assert_eq!(equal, Ok(true), "many at once");
    }
}

/// A bucket backed by the files below `folder`.
fn place(folder: &Path) -> StoreLocation {
    StoreLocation::s3_at(s3::endpoint(), &s3::bucket(folder)).expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_promises_of_a_tier() {
    let folder = tempfile::tempdir().expect("a folder");
    // A long deadline, because the machine may be slow.
    let patient = SharedConfig { get_time_max: Duration::from_secs(60), ..SharedConfig::default() };
    let shared = Shared::open(place(&folder.path().join("objects")), patient);
    conforms(&shared).await;
    let mut listed = Vec::new();
    let list = shared.list(Space::Script, |entry| {
        listed.push(entry.bytes);
        true
    });
    list.await.expect("listed");
    assert_eq!(listed, [30_000]);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn objects_that_were_cut_changed_or_moved_are_misses_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = Shared::open(place(folder.path()), SharedConfig::default());
    let bytes = noise(1, 10_000);
    let mut damaged = 0;
    for length in [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 9_999] {
        shared.put(Space::Artifact, key(1), bytes.clone()).await.expect("written");
        let path = files(folder.path()).pop().expect("one");
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..length]).expect("cut");
        assert_eq!(shared.get(Space::Artifact, key(1)).await, Ok(None), "{length}");
        damaged += 1;
        assert_eq!(shared.stats().damaged, damaged);
        assert!(!shared.knows(Space::Artifact, key(1)), "it is written again");
    }
    shared.put(Space::Artifact, key(1), bytes.clone()).await.expect("written");
    let one = files(folder.path()).pop().expect("one");
    shared.put(Space::Artifact, key(2), noise(2, 10)).await.expect("written");
    let two = files(folder.path()).into_iter().find(|path| *path != one).expect("two");
    fs::copy(&one, &two).expect("another's object");
    assert_eq!(shared.get(Space::Artifact, key(2)).await, Ok(None));
    fs::write(&two, vec![0; (64 << 20) + HEAD_BYTES + 1]).expect("too long");
    assert_eq!(shared.get(Space::Artifact, key(2)).await, Ok(None));
    assert_eq!(shared.stats().damaged, damaged + 2);
    assert_eq!(shared.get(Space::Artifact, key(1)).await, Ok(Some(bytes)));
    assert_eq!(shared.breaker(), BreakerState::Closed, "the tier is well");
}

/// A store that fails every request: a file blocks its folder.
fn broken(folder: &Path) -> (Shared, PathBuf) {
    let place = place(folder);
    let path = folder.join("v1");
    fs::write(&path, b"in the way").expect("written");
    let config = SharedConfig { queue_max: 8, queue_bytes_max: 1_000, ..SharedConfig::default() };
    (Shared::open(place, config), path)
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_tier_that_fails_is_left_alone_and_what_waits_goes_up_when_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (shared, in_the_way) = broken(folder.path());
    for number in 0..20 {
        shared.offer(Space::Artifact, key(number), noise(number, 100), true);
        shared.offer(Space::Artifact, key(number), noise(number, 100), true);
    }
    let uploads = shared.stats().uploads;
    assert_eq!((uploads.waiting, uploads.waiting_bytes, uploads.dropped), (8, 800, 24));
    until("the breaker opens", || shared.breaker() == BreakerState::Open).await;
    let refused = shared.get(Space::Artifact, key(0)).await;
    assert!(matches!(refused, Err(TierError::LeftAlone)), "{refused:?}");
    assert!(shared.stats().skipped > 0 && !shared.flush(Duration::from_millis(1)).await);
    fs::remove_file(in_the_way).expect("removed");
    assert!(shared.flush(Duration::from_secs(120)).await, "{:?}", shared.stats());
    let uploads = shared.stats().uploads;
    assert_eq!((uploads.done, uploads.waiting, uploads.waiting_bytes, uploads.expired), (8, 0, 0, 0));
    assert!(uploads.retried > 0);
    for number in 0..8 {
        assert_eq!(shared.get(Space::Artifact, key(number)).await, Ok(Some(noise(number, 100))));
    }
    shared.offer(Space::Artifact, key(0), Bytes::from_static(b"other"), false);
    assert!(shared.flush(Duration::from_secs(120)).await);
    assert_eq!(shared.stats().uploads.present, 1, "what is there stays");
    shared.offer(Space::Artifact, key(0), Bytes::from_static(b"new"), true);
    assert!(shared.flush(Duration::from_secs(120)).await);
    assert_eq!(shared.get(Space::Artifact, key(0)).await, Ok(Some(Bytes::from_static(b"new"))));
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_costs_its_deadline_and_then_nothing() {
    // Connections stay in the backlog forever.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let place = StoreLocation::s3_at(&format!("http://{address}"), "bucket").expect("a client");
    let config = SharedConfig { get_time_max: Duration::from_millis(50), ..SharedConfig::default() };
    let shared = Shared::open(place, config);
    for _ in 0..3 {
        let late = shared.get(Space::Artifact, key(0)).await;
        assert!(matches!(late, Err(TierError::Deadline(50))), "{late:?}");
    }
    assert_eq!(shared.breaker(), BreakerState::Open);
    assert!(matches!(shared.get(Space::Artifact, key(0)).await, Err(TierError::LeftAlone)));
    assert_eq!((shared.stats().late, shared.stats().skipped), (3, 1));
}
