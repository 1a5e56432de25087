//! Servers that share a tier: each has what another compiled. Damaged, forged or missing entries cost a
//! compile.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_pool::worker_path;
use antares_proto::v1::{self, CacheUse, Tier};
use antares_tests::{guests, s3};
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, reason, stored},
    server::{Server, until},
};

fn sections(folder: &Path, more: &str) -> String {
    // A read may take long on a slow machine.
    format!("[shared]\nurl = \"{}\"\nget_ms_max = 60000\n{more}", s3::url(folder))
}

fn request(elf: &[u8]) -> v1::CompileRequest {
    v1::CompileRequest {
        script_sha256: Sha256Digest::of(elf).to_string(),
        least: v1::CodeTier::Full.into(),
        ..v1::CompileRequest::default()
    }
}

async fn compile(server: &Server, elf: &[u8]) -> v1::CompileResponse {
    let mut client = Client::connect(server).await;
    client.compiler.compile(request(elf)).await.unwrap().into_inner()
}

/// Uploads and compiles on one server, and waits until both are in the shared tier.
async fn made_by(server: &Server, elf: &[u8]) -> v1::CompileResponse {
    Client::connect(server).await.upload(elf).await.unwrap();
    let made = compile(server, elf).await;
    until("all is written", || server.metric("antares_tier_writes_waiting") == 0.0);
    assert_eq!(made.cache(), CacheUse::Miss);
    made
}

fn refused(server: &Server, reason: &str) -> f64 {
    server.metric(&format!("antares_artifacts_refused_total{{reason=\"{reason}\"}}"))
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
    let [one, two, tier] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let elf = guests::bytes("exit-imc").unwrap();
    let first = Server::start_with(&one, &sections(tier.path(), ""));
    let made = made_by(&first, &elf).await;
    assert!(made.compile_ms > 0 || made.cache() == CacheUse::Miss);
    let second = Server::start_with(&two, &sections(tier.path(), ""));
    // The second server was not given the script.
    let found = compile(&second, &elf).await;
    assert_eq!((found.cache(), found.compile_ms), (CacheUse::Hit, 0));
    assert_eq!(found.artifact_key, made.artifact_key);
    assert_eq!(reads(&second, "shared", "hit"), 1.0);
    let mut client = Client::connect(&second).await;
    let answer = client.execute(stored(&elf, &["-3"], Tier::Native)).await.unwrap();
    assert_eq!(exit_code(&answer), Some(-3));
    assert!(answer.tiers.unwrap().native_cycles > 0);
    assert_eq!(second.metric("antares_compiles_total{result=\"done\"}"), 0.0);
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
    let [data, tier] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let elf = guests::bytes("exit-imc").unwrap();
    let server = Server::start_with(&data, &sections(tier.path(), ""));
    made_by(&server, &elf).await;
    assert!(object(tier.path(), &elf).exists());
    let digest = Sha256Digest::of(&elf).to_string();
    let (status, reported) = antares(&["rm", &digest, "--server", &server.address]);
    assert_eq!(status, Some(0), "{reported}");
    assert!(!object(tier.path(), &elf).exists());
    let mut client = Client::connect(&server).await;
    let error = client.compiler.compile(request(&elf)).await.unwrap_err();
    assert_eq!(reason(&error), "SCRIPT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_tier_that_is_damaged_or_gone_costs_a_compile() {
    let [one, tier] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let elf = guests::bytes("exit-imc").unwrap();
    let first = Server::start_with(&one, &sections(tier.path(), ""));
    let made = made_by(&first, &elf).await;
    let path = object(tier.path(), &elf);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (what, bytes) in
        [("cut", whole[..whole.len() / 2].to_vec()), ("flipped", flipped), ("empty", Vec::new())]
    {
        fs::write(&path, bytes).unwrap();
        let two = tempfile::tempdir().unwrap();
        let second = Server::start_with(&two, &sections(tier.path(), ""));
        let again = compile(&second, &elf).await;
        assert_eq!((again.cache(), &again.artifact_key), (CacheUse::Miss, &made.artifact_key), "{what}");
        assert!(reads(&second, "shared", "damaged") >= 1.0, "{what}");
        until("it is whole again", || second.metric("antares_tier_writes_waiting") == 0.0);
        assert_eq!(fs::read(&path).unwrap().len(), whole.len(), "{what}");
    }
    // A tier that always fails: a file is in the place of its folder.
    fs::remove_dir_all(tier.path().join("v1")).unwrap();
    fs::write(tier.path().join("v1"), b"in the way").unwrap();
    let two = tempfile::tempdir().unwrap();
    let second = Server::start_with(&two, &sections(tier.path(), ""));
    let mut client = Client::connect(&second).await;
    client.upload(&elf).await.unwrap();
    assert_eq!(compile(&second, &elf).await.cache(), CacheUse::Miss);
    assert_eq!(compile(&second, &elf).await.cache(), CacheUse::Hit);
    assert!(reads(&second, "shared", "failed") + reads(&second, "shared", "skipped") >= 1.0);
    assert!(second.is_ready(), "the shared tier is nothing that the service needs");
    fs::remove_file(tier.path().join("v1")).unwrap();
    until("what waits goes up when it is back", || object(tier.path(), &elf).exists());
}

fn new_keys(folder: &Path) {
    let mut command = Command::new(worker_path("antares").unwrap());
    let output = command.args(["keys", "generate", "--keys"]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn signing(folder: &TempDir) -> String {
    format!("[signing]\nkeys = \"{}\"\n", folder.path().join("keys").display())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_keys_are_given_only_what_they_have_signed_is_taken() {
    let [one, tier, ours, theirs] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let elf = guests::bytes("exit-imc").unwrap();
    new_keys(&ours.path().join("keys"));
    new_keys(&theirs.path().join("keys"));
    let first = Server::start_with(&one, &sections(tier.path(), &signing(&theirs)));
    made_by(&first, &elf).await;
    // A server with the same keys accepts it.
    let two = tempfile::tempdir().unwrap();
    let friend = Server::start_with(&two, &sections(tier.path(), &signing(&theirs)));
    assert_eq!(compile(&friend, &elf).await.cache(), CacheUse::Hit);
    // A server with other keys does not, and stores its own.
    let three = tempfile::tempdir().unwrap();
    let stranger = Server::start_with(&three, &sections(tier.path(), &signing(&ours)));
    let mut client = Client::connect(&stranger).await;
    let key = compile(&friend, &elf).await.artifact_key;
    let request = v1::GetArtifactRequest { artifact_key: key };
    let status = client.compiler.get_artifact(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    assert_eq!(refused(&stranger, "key_unknown"), 1.0);
    assert_eq!(compile(&stranger, &elf).await.cache(), CacheUse::Miss);
    assert_eq!(refused(&stranger, "key_unknown"), 2.0);
    until("all is written", || stranger.metric("antares_tier_writes_waiting") == 0.0);
    let four = tempfile::tempdir().unwrap();
    let friend = Server::start_with(&four, &sections(tier.path(), &signing(&ours)));
    assert_eq!(compile(&friend, &elf).await.cache(), CacheUse::Hit);
}

fn antares(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(worker_path("antares").unwrap());
    let output = command.args(words).envs(s3::environment()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn people_warm_a_server_and_look_at_the_tier() {
    let [one, two, tier, scripts] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let server = Server::start_with(&one, &sections(tier.path(), ""));
    let (elf, other) = (guests::bytes("exit-imc").unwrap(), guests::bytes("fib-imc").unwrap());
    fs::write(scripts.path().join("exit"), &elf).unwrap();
    fs::write(scripts.path().join("fib"), &other).unwrap();
    let (folder, url) = (scripts.path().to_str().unwrap(), s3::url(tier.path()));
    let (digest, nobody) = (Sha256Digest::of(&elf).to_string(), Sha256Digest::of(b"nobody").to_string());
    let (status, reported) = antares(&["warm", folder, &digest, "--server", &server.address]);
    assert_eq!(
        (status, reported.matches(" compiled in ").count(), reported.lines().count()),
        (Some(0), 2, 2),
        "{reported}"
    );
    let (status, reported) = antares(&["warm", folder, &nobody, "--server", &server.address]);
    assert_eq!((status, reported.matches("was compiled before").count()), (Some(1), 2), "{reported}");
    assert!(reported.contains("3/3") && reported.contains("not stored"), "{reported}");
    assert_eq!(antares(&["warm", "/nowhere", "--server", &server.address]).0, Some(2));
    assert_eq!(antares(&["warm", folder, "--server", "127.0.0.1:1"]).0, Some(3));
    until("all is written", || server.metric("antares_tier_writes_waiting") == 0.0);
    server.stop();
    let (status, reported) = antares(&["cache", "ls", "--shared", &url]);
    assert!(status == Some(0) && reported.contains(&digest) && reported.lines().count() == 3, "{reported}");
    assert_eq!(antares(&["cache", "ls", "--artifacts", "--shared", &url]).1.lines().count(), 3);
    let copy = scripts.path().join("copy");
    let get = |key: &str| antares(&["cache", "get", key, "--shared", &url, "-o", copy.to_str().unwrap()]).0;
    assert_eq!((get(&digest), fs::read(&copy).unwrap() == elf, get(&nobody)), (Some(0), true, Some(1)));
    let second = Server::start_with(&two, &sections(tier.path(), ""));
    let (status, reported) = antares(&["cache", "warm", "--shared", &url, "--server", &second.address]);
    assert_eq!((status, reported.matches("was compiled before").count()), (Some(0), 2), "{reported}");
    let (status, reported) = antares(&["cache", "gc", "--older-than", "20000", "--shared", &url]);
    assert!(status == Some(0) && reported.starts_with("0 entries"), "{reported}");
    let (status, reported) = antares(&["cache", "ls", "--shared", "http://somewhere/else"]);
    assert!(status == Some(2) && reported.contains("s3://bucket/prefix"), "{reported}");
}
