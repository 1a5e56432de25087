//! Tests of stores that refuse, lie, hang or never end: each failure has a kind and is bounded.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

#[allow(dead_code, unreachable_pub, reason = "each test needs a part of it")]
#[path = "../../../../tests/src/s3.rs"]
mod s3;

use antares_tier::{FailureKind, Shared, SharedConfig, Space, StoreLocation, TierError};
use s3::{Request, Response, code, server};

/// A long deadline, because the machine may be slow.
const PATIENCE: Duration = Duration::from_secs(120);

fn patient() -> SharedConfig {
    SharedConfig { get_time_max: PATIENCE, put_time_max: PATIENCE, ..SharedConfig::default() }
}

/// A tier in the bucket of the server at this URL.
fn at(url: &str) -> Shared {
    Shared::open(StoreLocation::s3_at(url, "bucket").unwrap(), patient())
}

fn counted(shared: &Shared, kind: FailureKind) -> u64 {
    shared.stats().failures[kind as usize]
}

#[tokio::test]
async fn what_a_store_refuses_for_is_reported_by_kind_and_is_no_miss() {
    let docs = include_str!("../../../../docs/operations.md");
    let page = || "<html><title>Sign in first</title></html>".to_owned();
    let elsewhere = Response {
        status: 307,
        headers: "location: http://127.0.0.1:9/\r\n".to_owned(),
        ..Response::default()
    };
    let cut = Response { status: 200, is_cut: true, ..Response::default() };
    for (response, kind) in [
        ((403, code("AccessDenied")).into(), FailureKind::Refused),
        ((401, String::new()).into(), FailureKind::Refused),
        ((403, code("RequestTimeTooSkewed")).into(), FailureKind::ClockSkew),
        ((301, code("PermanentRedirect")).into(), FailureKind::OtherRegion),
        (elsewhere, FailureKind::Other),
        ((404, code("NoSuchBucket")).into(), FailureKind::NoBucket),
        ((404, page()).into(), FailureKind::NoStore),
        ((200, page()).into(), FailureKind::NoStore),
        ((503, code("SlowDown")).into(), FailureKind::Throttled),
        ((503, String::new()).into(), FailureKind::ServerError),
        ((507, String::new()).into(), FailureKind::Full),
        (cut, FailureKind::Unreachable),
    ] {
        let (what, response): (_, Response) = (format!("{response:?}"), response);
        assert!(docs.contains(&format!("| `{}` | Antares", kind.into_str())), "{what}");
        let shared = at(&server(move |_| response.clone()));
        let got = shared.get(Space::Script, [1; 32]).await;
        assert!(matches!(&got, Err(TierError::Failed(failure)) if failure.kind == kind), "{what}: {got:?}");
        let stats = shared.stats();
        assert_eq!((counted(&shared, kind), stats.failed, stats.misses), (1, 1, 0), "{what}");
    }
    let shared = at(&server(|_| (404, code("NoSuchKey"))));
    assert_eq!(shared.get(Space::Script, [1; 32]).await, Ok(None), "that is a miss");
    // The listener is closed: the port is unused.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let got = at(&format!("http://{gone}")).get(Space::Script, [1; 32]).await;
    assert!(matches!(&got, Err(TierError::Failed(it)) if it.kind == FailureKind::Unreachable), "{got:?}");
}

#[tokio::test]
async fn lists_end_whatever_answers() {
    let pages = Arc::new(AtomicU64::new(0));
    let repeats = {
        let pages = pages.clone();
        move |_: &Request| {
            let token = pages.fetch_add(1, Relaxed) % 2;
            (
                200,
                format!(
                    "<ListBucketResult><NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"
                ),
            )
        }
    };
    let html = |_: &Request| (200, "<html><body>Sign in first</body></html>".to_owned());
    for address in [server(repeats), server(html)] {
        let listed = at(&address).list(Space::Script, |_| true).await;
        assert!(
            matches!(&listed, Err(TierError::Failed(it)) if it.kind == FailureKind::NoStore),
            "{listed:?}"
        );
    }
    assert_eq!(pages.load(Relaxed), 3, "two tokens, and the first one once more");
    let empty = server(|_| (200, "<ListBucketResult></ListBucketResult>".to_owned()));
    assert_eq!(at(&empty).list(Space::Script, |_| true).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_under_way_hold_no_more_than_their_budget() {
    const LONG: usize = 8 << 20;
    const READS: u8 = 24;
    let folder = tempfile::tempdir().unwrap();
    let config = SharedConfig { get_bytes_max: 2 * LONG, ..patient() };
    let place = StoreLocation::s3_at(s3::endpoint(), &s3::bucket(folder.path())).unwrap();
    let shared = Shared::open(place, config);
    for number in 0..READS {
        shared.put(Space::Artifact, [number; 32], vec![number; LONG].into()).await.unwrap();
    }
    let peak = || -> u64 {
        let text = fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let before = peak();
    // Bytes are dropped as soon as they are read, so only reads in progress hold memory.
    let reads = (0..READS).map(|number| {
        let shared = shared.clone();
        tokio::spawn(async move { shared.get(Space::Artifact, [number; 32]).await.unwrap().unwrap().len() })
    });
    for read in futures_util::future::join_all(reads).await {
        assert_eq!(read.unwrap(), LONG, "each is read in its turn");
    }
    let grown = peak().saturating_sub(before) >> 20;
    // The server in this process also holds a copy of each read in progress.
    assert!(grown < 192, "{grown} MiB, where all at once are 384 and more");
}
