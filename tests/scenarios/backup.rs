//! docs/backup.md as a drill: the data is copied, everything is lost, and the copy serves.

use std::{fs, path::Path, process::Command};

use antares_abi::Sha256Digest;
use antares_pool::worker_path;
use antares_proto::v1::{self, CacheUse, Tier};
use antares_tests::guests;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, stored},
    identity::plain,
    server::{Server, until},
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
    let mut command = Command::new(worker_path("antares").unwrap());
    let output = command.args(["keys", "list", "--keys"]).arg(keys).output().unwrap();
    String::from_utf8(output.stdout).unwrap().contains(&format!("{name}  revoked"))
}

/// Exit code of a run of `elf`, and whether its native code was cached; none if it ran without any.
async fn run(client: &mut Client, elf: &[u8], argument: &str) -> (Option<i32>, Option<CacheUse>) {
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
    let mut client = Client::connect(&server).await;
    for (elf, argument) in [(&good, "-3"), (&bad, "10")] {
        client.upload(elf).await.unwrap();
        client.execute(stored(elf, &[argument], Tier::Native)).await.unwrap();
    }
    let expected = run(&mut client, &bad, "10").await.0;
    server.stop();
    copy(&Server::store(&data), &copied);

    // After the copy, a script's code is revoked. Then the machine is lost.
    let server = Server::start_with(&data, &sections(&keys));
    let name = Sha256Digest::of(&bad).to_string();
    let mut client = Client::connect(&server).await;
    let mut admin = v1::admin_service_client::AdminServiceClient::new(plain(&server).await);
    admin.revoke(v1::RevokeRequest { name: name.clone() }).await.unwrap();
    assert_eq!(run(&mut client, &bad, "10").await, (expected, None));
    server.stop();
    fs::remove_dir_all(data.path()).unwrap();

    let data: TempDir = tempfile::tempdir().unwrap();
    copy(&copied, &Server::store(&data));
    let server = Server::start_with(&data, &sections(&keys));
    let mut client = Client::connect(&server).await;
    // Nothing is uploaded or compiled again.
    assert_eq!(run(&mut client, &good, "-3").await, (Some(-3), Some(CacheUse::Hit)));
    assert!(is_revoked(&keys, &name));
    assert_eq!(run(&mut client, &bad, "10").await, (expected, None), "revoked stays revoked");
    server.stop();

    // Without the keys, the scripts are still there, and are compiled again.
    fs::remove_dir_all(&keys).unwrap();
    let server = Server::start_with(&data, &sections(&keys));
    let mut client = Client::connect(&server).await;
    let refused = || server.metric("antares_artifacts_refused_total{reason=\"key_unknown\"}") >= 1.0;
    client.execute(stored(&good, &["-3"], Tier::Native)).await.unwrap();
    until("what another key signed is refused", refused);
    assert_eq!(run(&mut client, &good, "-3").await, (Some(-3), Some(CacheUse::Hit)));
}
