//! What it costs to know who calls, and whose native code it is. Printed; a bound would measure the machine.

use std::time::Instant;

use antares_abi::Sha256Digest;
use antares_tests::authorities::Authority;
use antares_trust::{Facts, Keyring};
use tonic::transport::Channel;

use crate::{
    identity::{Issuer, bearer, call, claims, is_refused, plain, shown},
    server::Server,
};

/// Median of a call on a warm connection, microseconds.
async fn median_us(channel: &Channel, authorization: &[String]) -> u128 {
    let mut times = Vec::new();
    for _ in 0..1_000 {
        let started = Instant::now();
        let status = call(channel, "antares.v1.RunnerService/GetCapabilities", authorization, None).await;
        assert!(!is_refused(&status), "{status:?}");
        times.push(started.elapsed().as_micros());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Prints what it costs; a bound would measure the machine.
#[tokio::test(flavor = "multi_thread")]
async fn what_encryption_and_a_token_cost() {
    let (ours, issuer) = (Authority::new("ours"), Issuer::new());
    let (pair, client) = (ours.issue("server", "IP:127.0.0.1"), ours.issue("client", "DNS:client"));
    let tls = format!("[tls]\ncertificate = {:?}\nkey = {:?}\n", pair.certificate, pair.key);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let open = Server::start(&folders[0]);
    let closed = Server::start_with(&folders[1], &format!("{tls}{}", issuer.section()));
    let token = bearer(&issuer.sign(&claims("user/x", |_| {})));
    let plain = plain(&open).await;
    let encrypted = shown(&closed, &ours.certificate(), &client).await;
    for _ in 0..2 {
        let (without, with) = (median_us(&plain, &[]).await, median_us(&encrypted, &token).await);
        println!("a call takes {without} us, with TLS and a token {with} us");
    }
}

/// Prints what a manifest costs, beside the digest of the bytes that a loader takes in any case.
#[test]
fn what_a_signature_costs() {
    let folder = tempfile::tempdir().unwrap();
    let keyring = Keyring::open_or_make(folder.path()).unwrap();
    let digest = Sha256Digest::of(b"artifact");
    let facts =
        Facts { key: Sha256Digest::of(b"key"), script: Sha256Digest::of(b"script"), digest, length: 8 };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..1_000 {
        let started = Instant::now();
        let signed = keyring.sign(&facts, u64::MAX).unwrap();
        times[0].push(started.elapsed());
        let started = Instant::now();
        keyring.verify(&signed, &facts).unwrap();
        times[1].push(started.elapsed());
    }
    let [sign, verify] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("a signature takes {sign:?}, its check {verify:?}");
}
