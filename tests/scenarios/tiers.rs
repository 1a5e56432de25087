//! Servers that share a tier: each has what another compiled. Damaged, forged or missing entries cost a
//! compile.

use std::{
    fs,
    path::{Path, PathBuf},
};

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_proto::v1::{self, CacheUse, Tier};
use antares_tests::{guests, s3};
use tempfile::TempDir;

use crate::{
    client::{self, Client, digest, exit_code, reason, stored},
    server::{Server, antares, ended, started, until},
    signing::refused,
};

fn sections(folder: &Path, more: &str) -> String {
    // A read may take long on a slow machine.
    format!("[shared]\nurl = \"{}\"\nget_ms_max = 60000\n{more}", s3::url(folder))
}

fn request(elf: &[u8]) -> v1::CompileRequest {
    v1::CompileRequest { least: v1::CodeTier::Full.into(), ..client::compile(elf) }
}

async fn compile(server: &Server, elf: &[u8]) -> v1::CompileResponse {
    let mut client = Client::connect(server).await;
    client.compiler.compile(request(elf)).await.unwrap().into_inner()
}

/// Uploads and compiles on one server, and waits until both are in the shared tier.
async fn made_by(server: &Server, elf: &[u8]) -> v1::CompileResponse {
    Client::connect(server).await.upload(elf).await.unwrap();
    let made = compile(server, elf).await;
    is_written(server);
    assert_eq!(made.cache(), CacheUse::Miss);
    made
}

pub(crate) fn is_written(server: &Server) {
    until("all is written", || server.metric("antares_tier_writes_waiting") == 0.0);
}

fn reads(server: &Server, tier: &str, result: &str) -> f64 {
    server.metric(&format!("antares_tier_reads_total{{result=\"{result}\",tier=\"{tier}\"}}"))
}

/// The object of the full artifact of `elf`.
fn object(folder: &Path, elf: &[u8]) -> PathBuf {
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    let key = Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full).to_string();
    folder.join("v1/artifact").join(&key[..2]).join(key)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_has_compiled_is_a_hit_on_another() {
    let [two, tier] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let elf = guests::bytes("exit-imc").unwrap();
    let (_one, first) = started(&sections(tier.path(), ""));
    let made = made_by(&first, &elf).await;
    let second = Server::start_with(&two, &sections(tier.path(), ""));
    // The second server was not given the script.
    let found = compile(&second, &elf).await;
    assert_eq!((found.cache(), found.compile_ms), (CacheUse::Hit, 0));
    assert_eq!(found.artifact_key, made.artifact_key);
    assert_eq!(reads(&second, "shared", "hit"), 1.0);
    let client = Client::connect(&second).await;
    let answer = client.execute(stored(&elf, &["-3"], Tier::Native)).await.unwrap();
    assert_eq!(exit_code(&answer), Some(-3));
    assert!(answer.tiers.unwrap().native_cycles > 0);
    assert_eq!(second.result("compiles_total", "done"), 0.0);
    // From memory; and from its own disk in a new process without the shared tier.
    assert_eq!(compile(&second, &elf).await.cache(), CacheUse::Hit);
    assert!(reads(&second, "memory", "hit") >= 1.0);
    second.stop();
    fs::remove_dir_all(tier.path().join("v1")).unwrap();
    let second = Server::start_with(&two, &sections(tier.path(), ""));
    let found = compile(&second, &elf).await;
    assert_eq!((found.cache(), found.compile_ms), (CacheUse::Hit, 0));
    // The tier lost it, and it is written again.
    until("it is there again", || object(tier.path(), &elf).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_removes_does_not_come_back_from_the_shared_tier() {
    let (tier, elf) = (tempfile::tempdir().unwrap(), guests::bytes("exit-imc").unwrap());
    let (_data, server) = started(&sections(tier.path(), ""));
    made_by(&server, &elf).await;
    assert!(object(tier.path(), &elf).exists());
    let (status, reported) = ended(&mut antares(&["rm", &digest(&elf), "--server", &server.address]));
    assert_eq!(status, Some(0), "{reported}");
    assert!(!object(tier.path(), &elf).exists());
    let error = Client::connect(&server).await.compile(&elf).await.unwrap_err();
    assert_eq!(reason(&error), "SCRIPT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_tier_that_is_damaged_or_gone_costs_a_compile() {
    let (tier, elf) = (tempfile::tempdir().unwrap(), guests::bytes("exit-imc").unwrap());
    let (_one, first) = started(&sections(tier.path(), ""));
    let made = made_by(&first, &elf).await;
    let path = object(tier.path(), &elf);
    let mut changed = fs::read(&path).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&path, &changed).unwrap();
    let (_two, second) = started(&sections(tier.path(), ""));
    let again = compile(&second, &elf).await;
    assert_eq!((again.cache(), again.artifact_key), (CacheUse::Miss, made.artifact_key));
    assert!(reads(&second, "shared", "damaged") >= 1.0);
    is_written(&second);
    assert_ne!(fs::read(&path).unwrap(), changed, "it is whole again");
    // A tier that always fails: a file is in the place of its folder.
    fs::remove_dir_all(tier.path().join("v1")).unwrap();
    fs::write(tier.path().join("v1"), b"in the way").unwrap();
    let (_three, third) = started(&sections(tier.path(), ""));
    Client::connect(&third).await.upload(&elf).await.unwrap();
    for expected in [CacheUse::Miss, CacheUse::Hit] {
        assert_eq!(compile(&third, &elf).await.cache(), expected);
    }
    assert!(reads(&third, "shared", "failed") + reads(&third, "shared", "skipped") >= 1.0);
    assert!(third.is_ready(), "the shared tier is nothing that the service needs");
}

/// A folder with new keys, and its section of the configuration.
fn new_keys() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let (status, text) = ended(antares(&["keys", "generate", "--keys"]).arg(&keys));
    assert_eq!(status, Some(0), "{text}");
    (folder, format!("[signing]\nkeys = {keys:?}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn where_keys_are_given_only_what_they_have_signed_is_taken() {
    let (tier, elf) = (tempfile::tempdir().unwrap(), guests::bytes("exit-imc").unwrap());
    let ((_ours, ours), (_theirs, theirs)) = (new_keys(), new_keys());
    let (_one, first) = started(&sections(tier.path(), &theirs));
    made_by(&first, &elf).await;
    // A server with the same keys accepts it.
    let (_two, friend) = started(&sections(tier.path(), &theirs));
    assert_eq!(compile(&friend, &elf).await.cache(), CacheUse::Hit);
    // A server with other keys does not, and stores its own.
    let (_three, stranger) = started(&sections(tier.path(), &ours));
    let mut client = Client::connect(&stranger).await;
    let key = compile(&friend, &elf).await.artifact_key;
    let request = v1::GetArtifactRequest { artifact_key: key };
    let status = client.compiler.get_artifact(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    assert_eq!(refused(&stranger, "key_unknown"), 1.0);
    assert_eq!(compile(&stranger, &elf).await.cache(), CacheUse::Miss);
    assert_eq!(refused(&stranger, "key_unknown"), 2.0);
    is_written(&stranger);
    let (_four, friend) = started(&sections(tier.path(), &ours));
    assert_eq!(compile(&friend, &elf).await.cache(), CacheUse::Hit);
}

fn said(words: &[&str]) -> (Option<i32>, String) {
    ended(&mut antares(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_warm_a_server_and_look_at_the_tier() {
    let [tier, scripts] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (_one, server) = started(&sections(tier.path(), ""));
    let (elf, other) = (guests::bytes("exit-imc").unwrap(), guests::bytes("fib-imc").unwrap());
    fs::write(scripts.path().join("exit"), &elf).unwrap();
    fs::write(scripts.path().join("fib"), &other).unwrap();
    let (folder, url) = (scripts.path().to_str().unwrap(), s3::url(tier.path()));
    let (digest, nobody) = (digest(&elf), digest(b"nobody"));
    let (status, reported) = said(&["warm", folder, &digest, "--server", &server.address]);
    assert_eq!(
        (status, reported.matches(" compiled in ").count(), reported.lines().count()),
        (Some(0), 2, 2),
        "{reported}"
    );
    let (status, reported) = said(&["warm", folder, &nobody, "--server", &server.address]);
    assert_eq!((status, reported.matches("was compiled before").count()), (Some(1), 2), "{reported}");
    assert!(reported.contains("3/3") && reported.contains("not stored"), "{reported}");
    assert_eq!(said(&["warm", "/nowhere", "--server", &server.address]).0, Some(2));
    assert_eq!(said(&["warm", folder, "--server", "127.0.0.1:1"]).0, Some(3));
    is_written(&server);
    server.stop();
    let (status, reported) = said(&["cache", "ls", "--shared", &url]);
    assert!(status == Some(0) && reported.contains(&digest) && reported.lines().count() == 3, "{reported}");
    assert_eq!(said(&["cache", "ls", "--artifacts", "--shared", &url]).1.lines().count(), 3);
    let copy = scripts.path().join("copy");
    let get = |key: &str| said(&["cache", "get", key, "--shared", &url, "-o", copy.to_str().unwrap()]).0;
    assert_eq!((get(&digest), fs::read(&copy).unwrap() == elf, get(&nobody)), (Some(0), true, Some(1)));
    let (_two, second) = started(&sections(tier.path(), ""));
    let (status, reported) = said(&["cache", "warm", "--shared", &url, "--server", &second.address]);
    assert_eq!((status, reported.matches("was compiled before").count()), (Some(0), 2), "{reported}");
    let (status, reported) = said(&["cache", "gc", "--older-than", "20000", "--shared", &url]);
    assert!(status == Some(0) && reported.starts_with("0 entries"), "{reported}");
    let (status, reported) = said(&["cache", "ls", "--shared", "http://somewhere/else"]);
    assert!(status == Some(2) && reported.contains("s3://bucket/prefix"), "{reported}");
}
