//! docs/backup.md as a drill: the data is copied, everything is lost, and the copy serves.

use std::{fs, path::Path, process::Command};

use antares_proto::v1::{self, CacheUse, Tier};
use antares_tests::guests;
use tempfile::TempDir;

use crate::{
    client::{Client, digest, exit_code, stored},
    server::{Server, antares, ended, until},
    signing::refused,
};

/// One compile per script, and keys outside the copy of the cache.
fn sections(keys: &Path) -> String {
    format!("[compiler]\nbaseline = false\n[signing]\nkeys = {keys:?}\n")
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

fn is_revoked(keys: &Path, name: &str) -> bool {
    let listed = ended(antares(&["keys", "list", "--keys"]).arg(keys)).1;
    listed.contains(&format!("{name}  revoked"))
}

/// Exit code of a run of `elf`, and whether its native code was cached; none if it ran without any.
async fn run(client: &Client, elf: &[u8], argument: &str) -> (Option<i32>, Option<CacheUse>) {
    let answer = client.execute(stored(elf, &[argument], Tier::Auto)).await.unwrap();
    let is_native = answer.tiers.as_ref().is_some_and(|tiers| tiers.native_cycles > 0);
    (exit_code(&answer), answer.artifact.filter(|_| is_native).map(|artifact| artifact.cache()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_serves_when_everything_is_lost_and_brings_no_revoked_code_back() {
    let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (keys, copied) = (elsewhere.path().join("keys"), elsewhere.path().join("store"));
    let (good, bad) = (guests::bytes("exit-imc").unwrap(), guests::bytes("fib-imc").unwrap());
    let server = Server::start_with(&data, &sections(&keys));
    let client = Client::connect(&server).await;
    for (elf, argument) in [(&good, "-3"), (&bad, "10")] {
        client.upload(elf).await.unwrap();
        client.execute(stored(elf, &[argument], Tier::Native)).await.unwrap();
    }
    let expected = run(&client, &bad, "10").await.0;
    server.stop();
    copy(&Server::store(&data), &copied);

    // After the copy, a script's code is revoked. Then the machine is lost.
    let server = Server::start_with(&data, &sections(&keys));
    let name = digest(&bad);
    let mut client = Client::connect(&server).await;
    client.admin.revoke(v1::RevokeRequest { name: name.clone() }).await.unwrap();
    assert_eq!(run(&client, &bad, "10").await, (expected, None));
    server.stop();
    fs::remove_dir_all(data.path()).unwrap();

    let data: TempDir = tempfile::tempdir().unwrap();
    copy(&copied, &Server::store(&data));
    let server = Server::start_with(&data, &sections(&keys));
    let client = Client::connect(&server).await;
    // Nothing is uploaded or compiled again.
    assert_eq!(run(&client, &good, "-3").await, (Some(-3), Some(CacheUse::Hit)));
    assert!(is_revoked(&keys, &name));
    assert_eq!(run(&client, &bad, "10").await, (expected, None), "revoked stays revoked");
    server.stop();

    // Without the keys, the scripts are still there, and are compiled again.
    fs::remove_dir_all(&keys).unwrap();
    let server = Server::start_with(&data, &sections(&keys));
    let client = Client::connect(&server).await;
    client.execute(stored(&good, &["-3"], Tier::Native)).await.unwrap();
    until("what another key signed is refused", || refused(&server, "key_unknown") >= 1.0);
    assert_eq!(run(&client, &good, "-3").await, (Some(-3), Some(CacheUse::Hit)));
}
