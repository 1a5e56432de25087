//! The journey of a script through both services: its tiers, what is stored of it, and a runner whose compiler
//! is elsewhere or absent.

use antares_abi::Sha256Digest;
use antares_chain::{elf, exits};
use antares_proto::v1::{
    self, CacheUse, CodeTier, ExecuteResponse, Tier, get_script_response,
    operation_service_client::OperationServiceClient, upload_request::Part,
};
use bytes::Bytes;
use tempfile::TempDir;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::{
    client::{Client, exit_code, inline, of_tenant, reason, serving, stored},
    identity::plain,
    server::{Server, until},
};

/// `li a7, 93; li a0, 0; ecall`.
const EXIT_0: [u32; 3] = [0x05d0_0893, 0x0000_0513, 0x73];

/// Exits 0 after `padding` no-ops: scripts with different digests and of some length.
fn padded(padding: usize) -> Vec<u8> {
    elf(&[&vec![0x13; padding][..], &EXIT_0].concat())
}

/// Counts down from `thousands` times 4096, `times` times, and exits with 6.
pub(crate) fn counts(thousands: u32, times: u32) -> Vec<u8> {
    // li a1, TIMES; lui a0, THOUSANDS; addi a0, a0, -1; bne a0, zero, -4; addi a1, a1, -1; bne a1, zero, -16
    let loops =
        [times << 20 | 0x593, thousands << 12 | 0x537, 0xfff5_0513, 0xfe05_1ee3, 0xfff5_8593, 0xfe05_98e3];
    elf(&[&loops[..], &[0x05d0_0893, 0x0060_0513, 0x73]].concat())
}

/// Generator of the code that ran.
fn code_tier(executed: &ExecuteResponse) -> CodeTier {
    executed.artifact.as_ref().unwrap().code_tier()
}

#[track_caller]
fn is(status: &Status, code: Code, expected: &str) {
    assert_eq!((status.code(), reason(status).as_str()), (code, expected), "{status}");
}

fn digest(elf: &[u8]) -> String {
    Sha256Digest::of(elf).to_string()
}

/// A runner alone, whose compiler is at `compiler`.
fn runner_of(compiler: &str) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let sections = format!("[runner]\ncompiler_url = \"http://{compiler}\"\n");
    let server = Server::start_program("antares-runner-svc", &[], &folder, &sections);
    (folder, server)
}

fn compiler_alone() -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_program("antares-compiler-svc", &[], &folder, "");
    (folder, server)
}

fn full_compiles(server: &Server) -> f64 {
    server.metric("antares_follower_compiles_total{result=\"done\"}")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_has_the_baseline_and_a_later_one_the_full_tier() {
    let (_data, server, mut client) = serving("").await;
    for (before, tier) in [(0.0, Tier::Native), (1.0, Tier::Auto)] {
        let elf = padded(tier as usize);
        client.upload(&elf).await.unwrap();
        let first = client.execute(stored(&elf, &[], tier)).await.unwrap();
        assert_eq!((code_tier(&first), exit_code(&first)), (CodeTier::Baseline, Some(0)));
        assert_eq!(first.artifact.as_ref().unwrap().cache(), CacheUse::Miss);
        until("the full compile follows", || full_compiles(&server) > before);
        let later = client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
        assert_eq!((&later.verdict, later.fallback.as_str()), (&first.verdict, ""));
        assert_eq!((code_tier(&later), later.tiers.unwrap().interpreted_cycles), (CodeTier::Full, 0));
    }
    for runs in ["full", "baseline"] {
        assert_eq!(server.metric(&format!("antares_native_runs_total{{code_tier=\"{runs}\"}}")), 2.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_under_way_keeps_its_code() {
    for doublings in 0..7 {
        let elf = counts(500_000, 1 << doublings);
        let (_data, server, mut client) = serving("").await;
        let mut request = inline(&elf, &[], Tier::Native);
        request.limits = Some(v1::RunLimits { max_cycles: Some(1_000_000_000_000), ..Default::default() });
        let (mut other, long) = (client.clone(), request.clone());
        let long = tokio::spawn(async move { other.execute(long).await.unwrap() });
        until("the full compile has ended", || full_compiles(&server) == 1.0);
        // Otherwise the run was shorter than the compile.
        if !long.is_finished() {
            let (full, long) = (client.execute(request).await.unwrap(), long.await.unwrap());
            assert_eq!((code_tier(&long), code_tier(&full)), (CodeTier::Baseline, CodeTier::Full));
            assert_eq!((exit_code(&long), long.verdict), (Some(6), full.verdict));
            return;
        }
    }
    panic!("a full compile of eight instructions takes minutes");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_only_what_is_stored_causes_no_compile() {
    let (_data, server, mut client) = serving("").await;
    let elf = exits(3);
    let request = |least: i32, stored_only| v1::CompileRequest {
        script_sha256: digest(&elf),
        least,
        stored_only,
        ..Default::default()
    };
    let compiler = client.compiler.clone();
    let ask = |least: CodeTier| {
        let (mut client, request) = (compiler.clone(), request(least.into(), true));
        async move { client.compile(request).await }
    };
    let tiers = [CodeTier::Baseline, CodeTier::Full];
    is(&ask(tiers[0]).await.unwrap_err(), Code::NotFound, "SCRIPT_NOT_FOUND");
    client.upload(&elf).await.unwrap();
    for least in tiers {
        is(&ask(least).await.unwrap_err(), Code::NotFound, "ARTIFACT_NOT_FOUND");
    }
    let tried = || {
        ["baseline_compiles", "compiles"]
            .map(|name| server.metric(&format!("antares_{name}_total{{result=\"done\"}}")))
    };
    assert_eq!(tried(), [0.0; 2]);
    client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
    until("the full compile follows", || full_compiles(&server) == 1.0);
    for least in tiers {
        let found = ask(least).await.unwrap().into_inner();
        assert_eq!((found.cache(), found.code_tier()), (CacheUse::Hit, CodeTier::Full));
    }
    assert_eq!(tried(), [1.0; 2]);
    let start = v1::StartCompileRequest { compile: Some(request(0, true)), priority: 0 };
    let mut operations = OperationServiceClient::new(plain(&server).await);
    let status = operations.start_compile(start).await.unwrap_err();
    assert_eq!(status.message(), "stored_only is for calls of Compile");
    let status = client.compiler.compile(request(77, false)).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "least has no value 77"));
}

/// By then the inline script is stored as if it had been uploaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_run_begins_before_its_long_compile_here_and_elsewhere() {
    let (_data, both, _) = serving("").await;
    let (_compilers, compiler) = compiler_alone();
    let (_runners, elsewhere) = runner_of(&compiler.address);
    let elf = padded(40_000);
    for (runner, compiler) in [(&both, &both), (&elsewhere, &compiler)] {
        let mut client = Client::connect(runner).await;
        let first = client.execute(inline(&elf, &[], Tier::Auto)).await.unwrap();
        let second = client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
        assert_eq!((exit_code(&first), first.fallback.as_str()), (Some(0), "compiling"));
        assert_eq!(first.artifact.unwrap().key, "");
        assert_eq!((second.fallback.as_str(), second.tiers.unwrap().interpreted_cycles), ("", 0));
        assert_eq!(compiler.metric("antares_baseline_compiles_total{result=\"done\"}"), 1.0);
    }
}

async fn upload_as(client: &Client, header: v1::BlobHeader, bytes: &[u8]) -> Result<(), Status> {
    let chunks = bytes.chunks(1 << 16).map(|chunk| Part::Chunk(Bytes::copy_from_slice(chunk)));
    let parts: Vec<_> = std::iter::once(Part::Header(header)).chain(chunks).collect();
    let parts = parts.into_iter().map(|part| v1::UploadRequest { part: Some(part) });
    client.compiler.clone().upload(tokio_stream::iter(parts)).await.map(drop)
}

async fn script_at(client: &Client, elf: &[u8]) -> Result<Vec<u8>, Status> {
    let get = v1::GetScriptRequest { script_sha256: digest(elf) };
    let mut parts = client.compiler.clone().get_script(get).await?.into_inner();
    let mut bytes = Vec::new();
    while let Some(message) = parts.message().await? {
        if let Some(get_script_response::Part::Chunk(chunk)) = message.part {
            bytes.extend_from_slice(&chunk);
        }
    }
    Ok(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_need_the_runner_s_address_alone() {
    let (_compilers, compiler) = compiler_alone();
    let (_runners, runner) = runner_of(&compiler.address);
    let (mut client, channel) = (Client::connect(&runner).await, plain(&runner).await);
    let elf = padded(300_000);
    is(&script_at(&client, &elf).await.unwrap_err(), Code::NotFound, "SCRIPT_NOT_FOUND");
    let header = |offset| v1::BlobHeader {
        sha256: digest(&elf),
        size_bytes: elf.len() as u64,
        offset,
        ..Default::default()
    };
    let cut = upload_as(&client, header(0), &elf[..1_000]).await.unwrap_err();
    is(&cut, Code::InvalidArgument, "SIZE_MISMATCH");
    upload_as(&client, header(1_000), &elf[1_000..]).await.unwrap();
    assert!(script_at(&client, &elf).await.unwrap() == elf);
    let compile = Some(v1::CompileRequest { script_sha256: digest(&elf), ..Default::default() });
    let mut operations = OperationServiceClient::new(channel.clone());
    let started = v1::StartCompileRequest { compile, ..Default::default() };
    let name = operations.start_compile(started).await.unwrap().into_inner().name;
    operations.wait_operation(v1::WaitOperationRequest { name, ..Default::default() }).await.unwrap();
    let executed = client.execute(stored(&elf, &[], Tier::Native)).await.unwrap();
    assert_eq!(exit_code(&executed), Some(0));
    let ask = v1::FindMissingRequest { script_sha256: vec!["a".repeat(40 << 20)] };
    let long = client.compiler.find_missing(ask).await.unwrap_err();
    is(&long, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    compiler.stop();
    let gone = script_at(&client, &elf).await.unwrap_err();
    is(&gone, Code::Unavailable, "SOURCE_UNAVAILABLE");
    assert!(gone.get_details_retry_info().is_some());
    let watch = HealthCheckRequest { service: "antares.v1.CompilerService".to_owned() };
    let mut health = HealthClient::new(channel.clone()).watch(watch).await.unwrap().into_inner();
    while health.next().await.unwrap().unwrap().status != 2 {}
    let all = HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(all.into_inner().status, 1, "it runs scripts all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_without_its_compiler_interprets_what_it_has() {
    let (_data, runner) = runner_of("127.0.0.1:1");
    let mut client = Client::connect(&runner).await;
    let auto = client.execute(inline(&exits(5), &[], Tier::Auto)).await.unwrap();
    assert_eq!((exit_code(&auto), auto.fallback.as_str()), (Some(5), "source_unavailable"));
    for request in [inline(&exits(5), &[], Tier::Native), stored(&exits(5), &[], Tier::Interpreter)] {
        let status = client.execute(request).await.unwrap_err();
        is(&status, Code::Unavailable, "SOURCE_UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_script_is_refused_natively_and_interpreted_as_the_vm_does() {
    let (_data, server, mut client) = serving("").await;
    let elf = &exits(0)[..100];
    for _ in 0..2 {
        let status = client.execute(inline(elf, &[], Tier::Native)).await.unwrap_err();
        is(&status, Code::InvalidArgument, "SCRIPT_INVALID");
    }
    // The second refusal came from memory.
    assert_eq!(server.metric("antares_baseline_compiles_total{result=\"refused\"}"), 1.0);
    let auto = client.execute(inline(elf, &[], Tier::Auto)).await.unwrap();
    let interpreted = client.execute(inline(elf, &[], Tier::Interpreter)).await.unwrap();
    assert_eq!((auto.fallback.as_str(), &auto.verdict), ("compile_refused", &interpreted.verdict));
    assert_eq!(auto.verdict.unwrap().outcome(), v1::Outcome::Error);
}

/// A query for scripts counts as a use.
#[tokio::test(flavor = "multi_thread")]
async fn to_ask_for_a_script_is_to_use_it() {
    // Eleven scripts of 96 KiB do not fit: the store starts to evict below 1 MiB.
    let sections = "[cache]\nbudget_bytes = 1048576\n[compiler]\nscript_bytes_max = 262144\n";
    let (_data, _server, mut client) = serving(sections).await;
    let scripts: Vec<_> = (0..24).map(|number| padded((96 << 10) / 4 + number)).collect();
    let missing = async |asked: &[usize]| {
        let script_sha256 = asked.iter().map(|at| digest(&scripts[*at])).collect();
        let request = v1::FindMissingRequest { script_sha256 };
        client.compiler.clone().find_missing(request).await.unwrap().into_inner().missing_sha256
    };
    for (at, elf) in scripts.iter().enumerate() {
        client.clone().upload(elf).await.unwrap();
        if at > 0 {
            assert!(missing(&[0]).await.is_empty(), "after {at} more");
        }
    }
    assert_eq!(missing(&[0, 1]).await, [digest(&scripts[1])], "nobody asked for the second");
    assert!(client.upload(&scripts[0]).await.unwrap().already_stored);
}

/// All times in responses to a tenant are multiples of 100 us.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_coarse_times() {
    let (_data, _server, mut client) = serving("").await;
    let are_coarse = |timings: Option<v1::Timings>| {
        let v1::Timings { fetch_us, queue_us, load_us, run_us, wall_us, .. } = timings.unwrap();
        assert!(wall_us > 0);
        [fetch_us, queue_us, load_us, run_us, wall_us].iter().all(|time| time % 100 == 0)
    };
    let run = inline(&exits(0), &[], Tier::Auto);
    for _ in 0..3 {
        let one = client.runner.execute(of_tenant("a", run.clone())).await.unwrap().into_inner();
        assert!(are_coarse(one.timings), "{one:?}");
    }
    let batch = v1::ExecuteBatchRequest {
        script: run.script,
        inputs: vec![v1::Input::default(); 2],
        ..Default::default()
    };
    let batch = client.runner.execute_batch(of_tenant("a", batch)).await.unwrap().into_inner();
    assert!(are_coarse(batch.timings), "{batch:?}");
    assert!(batch.results.iter().all(|result| result.run_us % 100 == 0), "{batch:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_falls_silent_is_ended_and_leaves_its_place() {
    let (_data, _server, mut client) = serving("[tuned]\nupload_idle_ms = 200\nuploads_max = 1\n").await;
    let elf = exits(0);
    let header = v1::BlobHeader { sha256: digest(&elf), size_bytes: elf.len() as u64, ..Default::default() };
    let first = v1::UploadRequest { part: Some(Part::Header(header)) };
    let silent = tokio_stream::iter([first]).chain(tokio_stream::pending());
    is(&client.compiler.upload(silent).await.unwrap_err(), Code::Aborted, "UPLOAD_IDLE");
    client.upload(&elf).await.unwrap();
}

/// Response of a reflection version to a request.
macro_rules! reflected {
    ($version:ident, $channel:expr, $message:ident($text:expr)) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let message_request = Some(MessageRequest::$message($text));
        let ask = ServerReflectionRequest { host: String::new(), message_request };
        let mut client = ServerReflectionClient::new($channel.clone());
        let mut answers =
            client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
        match answers.message().await.unwrap().unwrap().message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                list.service.into_iter().map(|one| one.name).collect()
            }
            MessageResponse::FileDescriptorResponse(_) => vec!["a file".to_owned()],
            other => panic!("{other:?}"),
        }
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_details_of_errors_are_described_in_both_versions() {
    let (_data, server, _) = serving("").await;
    let channel = plain(&server).await;
    let new: Vec<String> = reflected!(v1, channel, ListServices(String::new()));
    let old: Vec<String> = reflected!(v1alpha, channel, ListServices(String::new()));
    for service in ["Compiler", "Runner", "Profile", "Store"].map(|name| format!("antares.v1.{name}Service"))
    {
        assert!(new.contains(&service) && old.contains(&service), "{service}: {new:?} {old:?}");
    }
    for name in ["google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo", "antares.v1.Script"]
    {
        let described: Vec<String> = reflected!(v1, channel, FileContainingSymbol(name.to_owned()));
        assert_eq!(described, ["a file"], "{name}");
    }
}
