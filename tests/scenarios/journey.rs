//! The journey of a script through both services: its tiers, what is stored of it, and a runner whose compiler
//! is elsewhere or absent.

use antares_chain::{elf, exits};
use antares_proto::v1::{
    self, CacheUse, CodeTier, ExecuteResponse, Tier, VerifyOutcome, VerifyTransactionResponse,
    upload_request::Part,
};
use ckb_types::core::ScriptHashType;
use tempfile::TempDir;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::{
    client::{
        Client, assembled, compile, digest, exit_code, header, inline, is, locked, of_tenant, serving,
        stored, verification,
    },
    identity::plain,
    server::{Server, alone, until},
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

/// A runner alone, whose compiler is at `compiler`.
pub(crate) fn runner_of(compiler: &str) -> (TempDir, Server) {
    alone("antares-runner-svc", &format!("[runner]\ncompiler_url = \"http://{compiler}\"\n"))
}

fn full_compiles(server: &Server) -> f64 {
    server.result("follower_compiles_total", "done")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_has_the_baseline_and_a_later_one_the_full_tier() {
    let (_data, server, client) = serving("").await;
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
        let (_data, server, client) = serving("").await;
        let mut request = inline(&elf, &[], Tier::Native);
        request.limits = Some(v1::RunLimits { max_cycles: Some(1_000_000_000_000), ..Default::default() });
        let (other, long) = (client.clone(), request.clone());
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
    let request = |least: i32, stored_only| v1::CompileRequest { least, stored_only, ..compile(&elf) };
    let compiler = client.compiler.clone();
    let ask = async |least: CodeTier| compiler.clone().compile(request(least.into(), true)).await;
    let tiers = [CodeTier::Baseline, CodeTier::Full];
    is(&ask(tiers[0]).await.unwrap_err(), Code::NotFound, "SCRIPT_NOT_FOUND");
    client.upload(&elf).await.unwrap();
    for least in tiers {
        is(&ask(least).await.unwrap_err(), Code::NotFound, "ARTIFACT_NOT_FOUND");
    }
    let tried = || ["baseline_compiles_total", "compiles_total"].map(|name| server.result(name, "done"));
    assert_eq!(tried(), [0.0; 2]);
    client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
    until("the full compile follows", || full_compiles(&server) == 1.0);
    for least in tiers {
        let found = ask(least).await.unwrap().into_inner();
        assert_eq!((found.cache(), found.code_tier()), (CacheUse::Hit, CodeTier::Full));
    }
    assert_eq!(tried(), [1.0; 2]);
    let start = v1::StartCompileRequest { compile: Some(request(0, true)), priority: 0 };
    let status = client.operations.start_compile(start).await.unwrap_err();
    assert_eq!(status.message(), "stored_only is for calls of Compile");
    let status = client.compiler.compile(request(77, false)).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "least has no value 77"));
}

/// By then the inline script is stored as if it had been uploaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_run_begins_before_its_long_compile_here_and_elsewhere() {
    let (_data, both, _) = serving("").await;
    let (_compilers, compiler) = alone("antares-compiler-svc", "");
    let (_runners, elsewhere) = runner_of(&compiler.address);
    let elf = padded(40_000);
    for (runner, compiler) in [(&both, &both), (&elsewhere, &compiler)] {
        let client = Client::connect(runner).await;
        let first = client.execute(inline(&elf, &[], Tier::Auto)).await.unwrap();
        let second = client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
        assert_eq!((exit_code(&first), first.fallback.as_str()), (Some(0), "compiling"));
        assert_eq!(first.artifact.unwrap().key, "");
        assert_eq!((second.fallback.as_str(), second.tiers.unwrap().interpreted_cycles), ("", 0));
        assert_eq!(compiler.result("baseline_compiles_total", "done"), 1.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_need_the_runner_s_address_alone() {
    let (_compilers, compiler) = alone("antares-compiler-svc", "");
    let (_runners, runner) = runner_of(&compiler.address);
    let (mut client, channel) = (Client::connect(&runner).await, plain(&runner).await);
    let elf = padded(300_000);
    is(&client.script(&elf).await.unwrap_err(), Code::NotFound, "SCRIPT_NOT_FOUND");
    let cut = client.upload_as(header(&elf), &elf[..1_000]).await.unwrap_err();
    is(&cut, Code::InvalidArgument, "SIZE_MISMATCH");
    let rest = v1::BlobHeader { offset: 1_000, ..header(&elf) };
    client.upload_as(rest, &elf[1_000..]).await.unwrap();
    assert!(client.script(&elf).await.unwrap() == elf);
    let started = v1::StartCompileRequest { compile: Some(compile(&elf)), ..Default::default() };
    let name = client.operations.start_compile(started).await.unwrap().into_inner().name;
    client.operations.wait_operation(v1::WaitOperationRequest { name, ..Default::default() }).await.unwrap();
    let executed = client.execute(stored(&elf, &[], Tier::Native)).await.unwrap();
    assert_eq!(exit_code(&executed), Some(0));
    let ask = v1::FindMissingRequest { script_sha256: vec!["a".repeat(40 << 20)] };
    let long = client.compiler.find_missing(ask).await.unwrap_err();
    is(&long, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    compiler.stop();
    let gone = client.script(&elf).await.unwrap_err();
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
    let client = Client::connect(&runner).await;
    let auto = client.execute(inline(&exits(5), &[], Tier::Auto)).await.unwrap();
    assert_eq!((exit_code(&auto), auto.fallback.as_str()), (Some(5), "source_unavailable"));
    for request in [inline(&exits(5), &[], Tier::Native), stored(&exits(5), &[], Tier::Interpreter)] {
        let status = client.execute(request).await.unwrap_err();
        is(&status, Code::Unavailable, "SOURCE_UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_script_is_refused_natively_and_interpreted_as_the_vm_does() {
    let (_data, server, client) = serving("").await;
    let elf = &exits(0)[..100];
    for _ in 0..2 {
        let status = client.execute(inline(elf, &[], Tier::Native)).await.unwrap_err();
        is(&status, Code::InvalidArgument, "SCRIPT_INVALID");
    }
    // The second refusal came from memory.
    assert_eq!(server.result("baseline_compiles_total", "refused"), 1.0);
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
    let (_data, _server, client) = serving(sections).await;
    let scripts: Vec<_> = (0..24).map(|number| padded((96 << 10) / 4 + number)).collect();
    let missing = async |asked: &[usize]| {
        let script_sha256 = asked.iter().map(|at| digest(&scripts[*at])).collect();
        let request = v1::FindMissingRequest { script_sha256 };
        client.compiler.clone().find_missing(request).await.unwrap().into_inner().missing_sha256
    };
    for (at, elf) in scripts.iter().enumerate() {
        client.upload(elf).await.unwrap();
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
    let first = v1::UploadRequest { part: Some(Part::Header(header(&elf))) };
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

/// A countdown from `t1`, followed by 170 KB of code.
const CODE: &str = "loop: addi t1, t1, -1\nbnez t1, loop\nli t0, 0\n\
     code:\n.rept 14000\nadd a0, a0, a1\nxor a1, a1, a0\nslli a1, a1, 3\nbeq a0, a1, 1f\naddi a0, a0, 3\n1:\n.endr\n\
     end:\nli a0, 0\nli a7, 93\necall\n";

/// A transaction whose lock executes 170 KB of code, with a small program as another cell.
fn transaction() -> Vec<u8> {
    let large = assembled(&format!("li t1, 1\n{CODE}"));
    let small = assembled("li a7, 93\necall\n");
    locked(&[large.into(), small.into()], ScriptHashType::Data2)
}

async fn verify(client: &Client, transaction: &[u8], tier: Tier) -> VerifyTransactionResponse {
    let answer = client.verify(verification(transaction, tier)).await.unwrap();
    assert_eq!(answer.outcome(), VerifyOutcome::Ok, "{answer:?}");
    answer
}

/// Why the programs of a transaction had no native code; empty for those that had.
fn fallbacks(answer: &VerifyTransactionResponse) -> Vec<&str> {
    for program in &answer.programs {
        let has_code = program.artifact.as_ref().is_some_and(|artifact| !artifact.key.is_empty());
        assert_eq!(has_code, program.fallback.is_empty(), "{answer:?}");
    }
    answer.programs.iter().map(|program| program.fallback.as_str()).collect()
}

/// Cycles of the one group, native and interpreted.
fn split(answer: &VerifyTransactionResponse) -> [u64; 2] {
    let tiers = answer.groups[0].tiers.as_ref().unwrap();
    [tiers.native_cycles, tiers.interpreted_cycles]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_verification_does_not_wait_for_a_long_compile() {
    let (_data, server, client) = serving("").await;
    let transaction = transaction();
    let first = verify(&client, &transaction, Tier::Auto).await;
    assert_eq!(fallbacks(&first), ["compiling", ""]);
    assert_eq!(split(&first)[0], 0, "{first:?}");
    assert_eq!(server.metric("antares_fallbacks_total{reason=\"compiling\"}"), 1.0);
    // Of the small program, and of the large one, without another request for it.
    until("both libraries are ready", || server.metric("antares_ready_entries") == 2.0);
    let native = verify(&client, &transaction, Tier::Auto).await;
    assert_eq!(fallbacks(&native), ["", ""]);
    assert_eq!(split(&native)[1], 0, "{native:?}");
    assert_eq!(first.cycles, native.cycles);
    assert_eq!(native.cycles, verify(&client, &transaction, Tier::Interpreter).await.cycles);
}
