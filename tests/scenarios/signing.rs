//! Tampered native code in the cache: forged, swapped, truncated, signed by a revoked key, or itself revoked.
//! It never runs, is compiled again at once, and is counted by reason.

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_cache::{Cache, CacheConfig, Put, Space};
use antares_proto::v1::{CacheUse, Tier};
use antares_tests::guests;
use antares_trust::Manifest;
use tempfile::TempDir;
use tonic::Code;

use crate::{
    client::{Client, digest, exit_code, is, serving, stored},
    contained::{CONSTANT, mistake_a_constant, spoil_claiming},
    server::{Server, antares, ended, eventually, until},
};

/// One compile per script, so that its generator is known.
const SECTIONS: &str = "[compiler]\nbaseline = false\n";

fn key(elf: &[u8]) -> Sha256Digest {
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full)
}

/// Replaces the entry of `elf` by the result of `change`, with a matching digest of the cache.
fn change(data: &TempDir, elf: &[u8], change: impl FnOnce(&Cache, Vec<u8>) -> Vec<u8>) {
    let cache = Cache::open(CacheConfig::new(Server::store(data), 1 << 30)).unwrap();
    let entry = cache.get(Space::Artifact, key(elf).0).unwrap();
    let changed = change(&cache, entry);
    assert!(cache.remove(Space::Artifact, key(elf).0));
    assert_eq!(cache.put(Space::Artifact, key(elf).0, &changed).unwrap(), Put::Stored);
}

/// `entry` with a changed byte, whose place depends on the length.
fn flipped(mut entry: Vec<u8>, at: impl Fn(usize) -> usize) -> Vec<u8> {
    let at = at(entry.len());
    entry[at] ^= 1;
    entry
}

fn keys(data: &TempDir, words: &[&str]) -> String {
    let (status, text) = ended(antares(&["keys"]).args(words).arg("--keys").arg(Server::keys(data)));
    assert_eq!(status, Some(0), "{text}");
    text.trim().to_owned()
}

pub(crate) fn refused(server: &Server, reason: &str) -> f64 {
    server.metric(&format!("antares_artifacts_refused_total{{reason=\"{reason}\"}}"))
}

/// Runs natively; returns the exit code, and whether it was compiled for this run.
async fn run_with(client: &Client, elf: &[u8], args: &[&str]) -> (Option<i32>, bool) {
    let answer = client.execute(stored(elf, args, Tier::Native)).await.unwrap();
    assert!(answer.tiers.as_ref().is_some_and(|tiers| tiers.native_cycles > 0));
    (exit_code(&answer), answer.artifact.unwrap().cache() == CacheUse::Miss)
}

/// Whether it was compiled for this run.
async fn run(client: &Client, elf: &[u8]) -> bool {
    let (code, was_compiled) = run_with(client, elf, &["-3"]).await;
    assert_eq!(code, Some(-3));
    was_compiled
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_put_into_the_cache_is_compiled_again() {
    let (elf, other) = (guests::bytes("exit-imc").unwrap(), guests::bytes("fib-imc").unwrap());
    let (data, server, client) = serving(SECTIONS).await;
    client.upload(&elf).await.unwrap();
    client.upload(&other).await.unwrap();
    assert!(run(&client, &elf).await && !run(&client, &elf).await);
    client.execute(stored(&other, &["10"], Tier::Native)).await.unwrap();
    server.stop();
    let other_key = key(&other).0;
    type Change = Box<dyn FnOnce(&Cache, Vec<u8>) -> Vec<u8>>;
    let changes: [(&str, Change); 6] = [
        // A changed byte of code, with all keyless digests updated.
        ("other_bytes", Box::new(|_, entry| flipped(entry, |length| length / 2))),
        ("signature", Box::new(|_, entry| flipped(entry, |length| length - 10))),
        ("other_artifact", Box::new(move |cache, _| cache.get(Space::Artifact, other_key).unwrap())),
        ("malformed", Box::new(|_, entry| entry[..entry.len() - 1].to_vec())),
        // Without the signature.
        ("malformed", Box::new(|_, entry| entry[..entry.len() - 300].to_vec())),
        ("malformed", Box::new(|_, _| Vec::new())),
    ];
    for (reason, how) in changes {
        change(&data, &elf, how);
        let server = Server::start_with(&data, SECTIONS);
        let client = Client::connect(&server).await;
        assert!(run(&client, &elf).await, "{reason}");
        assert!(refused(&server, reason) >= 1.0, "{reason}");
        assert!(!run(&client, &elf).await, "{reason}");
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_under_a_server_and_what_a_revoked_one_signed_is_compiled_again() {
    let elf = guests::bytes("exit-imc").unwrap();
    let (data, server, client) = serving(SECTIONS).await;
    client.upload(&elf).await.unwrap();
    assert!(run(&client, &elf).await);
    let listed = keys(&data, &["list"]);
    let old = listed.split_whitespace().next().unwrap().to_owned();
    assert!(listed.contains("signs"), "{listed}");
    // Code signed by the old key is valid while the key is trusted.
    let new = keys(&data, &["rotate"]);
    assert_ne!(new, old);
    assert!(!run(&client, &elf).await);
    keys(&data, &["revoke", &old]);
    eventually("the old key is revoked", async || run(&client, &elf).await).await;
    until("it is counted", || refused(&server, "key_revoked") >= 1.0);
    assert!(!run(&client, &elf).await);
    assert!(keys(&data, &["list"]).contains(&format!("{old}  revoked")));
}

/// Exit code of the script, and of its native code with a changed constant.
const RIGHT: i32 = 77;
const WRONG: i32 = 78;

/// The exit code of a native run, and whether it was compiled for it.
async fn reported(server: &Server, elf: &[u8]) -> (Option<i32>, bool) {
    run_with(&Client::connect(server).await, elf, &[]).await
}

/// A store with the native code of the script, after its server has stopped.
async fn compiled() -> (TempDir, Vec<u8>) {
    let data = tempfile::tempdir().unwrap();
    let elf = guests::assemble(CONSTANT).unwrap();
    let server = Server::start_with(&data, SECTIONS);
    Client::connect(&server).await.upload(&elf).await.unwrap();
    assert_eq!(reported(&server, &elf).await, (Some(RIGHT), true));
    server.stop();
    (data, elf)
}

#[tokio::test(flavor = "multi_thread")]
async fn native_code_that_is_not_for_here_and_now_is_never_run() {
    let (data, elf) = compiled().await;
    type Claim = fn(&mut Manifest);
    let claims: [(&str, Claim); 5] = [
        ("other_engine", |manifest| manifest.engine -= 1),
        ("other_engine", |manifest| manifest.engine += 1),
        ("other_cpu", |manifest| manifest.cpu = "x86-64-v9".to_owned()),
        ("other_cpu", |manifest| manifest.features += ",+another"),
        ("expired", |manifest| manifest.not_after = 1),
    ];
    for (reason, claim) in claims {
        // This code would be visible, had it run.
        spoil_claiming(&data, &elf, mistake_a_constant, claim);
        let server = Server::start_with(&data, SECTIONS);
        assert_eq!(reported(&server, &elf).await, (Some(RIGHT), true), "{reason}");
        assert!(refused(&server, reason) >= 1.0, "{reason}");
        assert_eq!(reported(&server, &elf).await, (Some(RIGHT), false), "{reason}");
        server.stop();
    }
    // Only its manifest prevented the run.
    let digest = spoil_claiming(&data, &elf, mistake_a_constant, |_| {});
    let server = Server::start_with(&data, SECTIONS);
    assert_eq!(reported(&server, &elf).await, (Some(WRONG), false));
    server.stop();
    keys(&data, &["revoke", &digest.to_string()]);
    let server = Server::start_with(&data, SECTIONS);
    assert_eq!(reported(&server, &elf).await, (Some(RIGHT), true), "revoked");
    assert!(refused(&server, "digest_revoked") >= 1.0);
    server.stop();
}

/// Runs without native code, in every call.
async fn is_only_interpreted(server: &Server, elf: &[u8]) {
    let client = Client::connect(server).await;
    let answer = client.execute(stored(elf, &[], Tier::Auto)).await.unwrap();
    assert_eq!((exit_code(&answer), answer.tiers.unwrap().native_cycles), (Some(RIGHT), 0));
    for _ in 0..3 {
        let status = client.execute(stored(elf, &[], Tier::Native)).await.unwrap_err();
        is(&status, Code::FailedPrecondition, "ARTIFACT_REVOKED");
    }
}

/// Revoking a script's digest revokes all its native code, from either generator, even if entries are
/// restored.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_revoked_script_runs_natively() {
    let (data, elf) = compiled().await;
    keys(&data, &["revoke", &digest(&elf)]);
    let server = Server::start_with(&data, "");
    for _ in 0..2 {
        is_only_interpreted(&server, &elf).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_compiler_makes_again_of_a_revoked_artifact_is_not_run() {
    let (data, elf) = compiled().await;
    // Unchanged.
    let digest = spoil_claiming(&data, &elf, |_| 1, |_| {});
    keys(&data, &["revoke", &digest.to_string()]);
    // Compiles are reproducible: the same bytes result, so only the interpreter remains.
    let server = Server::start_with(&data, SECTIONS);
    is_only_interpreted(&server, &elf).await;
    // It is not compiled again for each call: refused once as stored, and once as compiled.
    assert_eq!(refused(&server, "digest_revoked"), 2.0);
}
