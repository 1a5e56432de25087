//! Isolation of tenants: uploads, usage and runs of one do not affect another.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_proto::v1;
use antares_tests::guests;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_types::StatusExt as _;

use crate::{
    client::{exit_code, inline, reason, stored},
    identity::{Issuer, bearer, call, claims, now, plain},
    overload::endless,
    server::{Server, until},
};

/// Rules by which `user/NAME` is the tenant `NAME`, with all roles of a client.
const ALL_ROLES: &str = "[[auth.rules]]\ntoken = \"all/*\"\ntenant = \"*\"\nroles = [\"upload\", \"compile\", \"execute\", \"profile\"]\n";

#[derive(Clone)]
pub(crate) struct Token(pub(crate) MetadataValue<Ascii>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

pub(crate) type Wire = InterceptedService<Channel, Token>;

/// One tenant's connections.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) compiler: v1::compiler_service_client::CompilerServiceClient<Wire>,
    pub(crate) runner: v1::runner_service_client::RunnerServiceClient<Wire>,
    pub(crate) profiles: v1::profile_service_client::ProfileServiceClient<Wire>,
}

impl Tenant {
    pub(crate) async fn connect(server: &Server, issuer: &Issuer, name: &str) -> Self {
        let token = issuer.sign(&claims(&format!("all/{name}"), |_| {}));
        let wire =
            InterceptedService::new(plain(server).await, Token(format!("Bearer {token}").parse().unwrap()));
        Self {
            compiler: v1::compiler_service_client::CompilerServiceClient::new(wire.clone()),
            runner: v1::runner_service_client::RunnerServiceClient::new(wire.clone()),
            profiles: v1::profile_service_client::ProfileServiceClient::new(wire),
        }
    }

    pub(crate) async fn upload(&mut self, elf: &[u8]) -> Result<v1::UploadResponse, Status> {
        let header = v1::BlobHeader {
            sha256: Sha256Digest::of(elf).to_string(),
            size_bytes: elf.len() as u64,
            ..Default::default()
        };
        let mut parts = vec![v1::upload_request::Part::Header(header)];
        parts
            .extend(elf.chunks(64 << 10).map(|chunk| v1::upload_request::Part::Chunk(chunk.to_vec().into())));
        let parts = parts.into_iter().map(|part| v1::UploadRequest { part: Some(part) });
        Ok(self.compiler.upload(tokio_stream::iter(parts)).await?.into_inner())
    }

    pub(crate) async fn compile(&mut self, elf: &[u8]) -> Result<v1::CompileResponse, Status> {
        let script_sha256 = Sha256Digest::of(elf).to_string();
        let request = v1::CompileRequest { script_sha256, ..Default::default() };
        Ok(self.compiler.compile(request).await?.into_inner())
    }

    pub(crate) async fn is_missing(&mut self, elf: &[u8]) -> bool {
        let request = v1::FindMissingRequest { script_sha256: vec![Sha256Digest::of(elf).to_string()] };
        !self.compiler.find_missing(request).await.unwrap().into_inner().missing_sha256.is_empty()
    }

    pub(crate) async fn run(&mut self, request: v1::ExecuteRequest) -> Result<v1::ExecuteResponse, Status> {
        Ok(self.runner.execute(request).await?.into_inner())
    }

    pub(crate) async fn verify(
        &mut self,
        request: v1::VerifyTransactionRequest,
    ) -> Result<v1::VerifyTransactionResponse, Status> {
        Ok(self.runner.verify_transaction(request).await?.into_inner())
    }

    pub(crate) async fn learn(&mut self, request: v1::LearnRequest) -> Result<v1::LearnResponse, Status> {
        Ok(self.compiler.learn(request).await?.into_inner())
    }
}

pub(crate) fn start(issuer: &Issuer, data: &TempDir, sections: &str) -> Server {
    Server::start_with(data, &format!("{}{ALL_ROLES}{sections}", issuer.section()))
}

/// The quota of a refusal; asserts a retry delay where a retry helps.
#[track_caller]
fn quota_of(status: &Status) -> String {
    assert_eq!((status.code(), reason(status).as_str()), (Code::ResourceExhausted, "QUOTA"), "{status:?}");
    let details = status.get_error_details();
    let quota = details.error_info().unwrap().metadata["quota"].clone();
    // Waiting does not free the store.
    let delay = details.retry_info().and_then(|retry| retry.retry_delay);
    assert_eq!(delay.is_some(), quota != "stored_bytes_max", "{details:?}");
    let violation = &details.quota_failure().unwrap().violations[0];
    assert!(violation.subject.starts_with("tenant:"), "{violation:?}");
    quota
}

/// A guest modified into a different script with equal behaviour.
fn variant(name: &str, number: u8) -> Vec<u8> {
    let mut elf = guests::bytes(name).unwrap();
    elf.push(number);
    elf
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_uploads_is_nobody_else_s() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let mut server = start(&issuer, &data, "");
    let elf = variant("exit-imc", 1);
    let key = {
        let mut one = Tenant::connect(&server, &issuer, "one").await;
        assert!(!one.upload(&elf).await.unwrap().already_stored);
        assert!(!one.is_missing(&elf).await);
        assert_eq!(exit_code(&one.run(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap()), Some(0));
        one.compile(&elf).await.unwrap().artifact_key
    };
    for again in [false, true] {
        if again {
            // The owner of a script is remembered.
            assert_eq!(server.stop(), Some(0));
            server = start(&issuer, &data, "");
        }
        let mut one = Tenant::connect(&server, &issuer, "one").await;
        let mut two = Tenant::connect(&server, &issuer, "two").await;
        assert!(!one.is_missing(&elf).await);
        assert!(two.is_missing(&elf).await);
        let script_sha256 = Sha256Digest::of(&elf).to_string();
        let refusals = [
            two.run(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap_err(),
            two.compile(&elf).await.unwrap_err(),
            two.compiler.get_script(v1::GetScriptRequest { script_sha256 }).await.unwrap_err(),
            two.compiler
                .get_artifact(v1::GetArtifactRequest { artifact_key: key.clone() })
                .await
                .unwrap_err(),
        ];
        for status in refusals {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
        }
        assert!(
            one.compiler.get_artifact(v1::GetArtifactRequest { artifact_key: key.clone() }).await.is_ok()
        );
    }
    let mut two = Tenant::connect(&server, &issuer, "two").await;
    // The response does not reveal that another tenant has stored it.
    assert!(!two.upload(&elf).await.unwrap().already_stored);
    assert!(two.upload(&elf).await.unwrap().already_stored);
    assert!(!two.is_missing(&elf).await);
    // Native code is compiled once for all, unless tenants have separate code.
    assert_eq!(two.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
    assert_eq!(exit_code(&two.run(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap()), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_share_what_they_are_to_share_and_no_time_where_keys_are_salted() {
    let elf = variant("exit-imc", 2);
    for (section, is_shared) in
        [("[tenants]\nisolation = \"none\"\n", true), ("[tenants]\nisolation = \"code\"\n", false)]
    {
        let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
        let server = start(&issuer, &data, section);
        let mut one = Tenant::connect(&server, &issuer, "one").await;
        let mut two = Tenant::connect(&server, &issuer, "two").await;
        one.upload(&elf).await.unwrap();
        assert_eq!(one.compile(&elf).await.unwrap().cache(), v1::CacheUse::Miss);
        assert_eq!(two.is_missing(&elf).await, !is_shared);
        two.upload(&elf).await.unwrap();
        let expected = if is_shared { v1::CacheUse::Hit } else { v1::CacheUse::Miss };
        let compiled = two.compile(&elf).await.unwrap();
        assert_eq!(compiled.cache(), expected);
        for tenant in [&mut one, &mut two] {
            assert_eq!(tenant.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
            let request = v1::GetArtifactRequest { artifact_key: compiled.artifact_key.clone() };
            assert!(tenant.compiler.get_artifact(request).await.is_ok());
            let ran = tenant.run(stored(&elf, &["a"], v1::Tier::Native)).await.unwrap();
            assert_eq!(exit_code(&ran), Some(0));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_begins_when_the_cost_of_the_last_one_is_known() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let one_worker = "[quotas]\nguest_cycles_per_second = 1000000\n[runner]\nworkers_max = 1\n";
    let server = start(&issuer, &data, one_worker);
    let one = Tenant::connect(&server, &issuer, "one").await;
    let runs = (0..8).map(|_| {
        let mut runner = one.runner.clone();
        async move { runner.execute(endless(1_000)).await.map(|_| ()) }
    });
    let ended = futures_util::future::join_all(runs).await;
    let refused = ended.iter().filter(|end| end.as_ref().is_err_and(|status| reason(status) == "QUOTA"));
    assert_eq!(refused.count(), 7, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_a_tenant_s_own() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let elf = variant("exit-imc", 3);
    let most = 2 * elf.len();
    let quotas = format!(
        "[quotas]\ncalls_max = 2\nguest_cycles_per_second = 20\ncompile_seconds_per_hour = 1\nstored_bytes_max = {most}\n\
         [[quotas.tenants]]\ntenant = \"big\"\ncalls_max = 0\nguest_cycles_per_second = 0\ncompile_seconds_per_hour = 0\nstored_bytes_max = 0\n\
         [[quotas.tenants]]\ntenant = \"busy\"\ncalls_max = 0\nguest_cycles_per_second = 0\ncompile_seconds_per_hour = 1\nstored_bytes_max = 0\n"
    );
    let mut server = start(&issuer, &data, &quotas);
    let mut small = Tenant::connect(&server, &issuer, "small").await;
    let capabilities = small.runner.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.unwrap();
    let reported = capabilities.into_inner().quotas.unwrap();
    assert_eq!(
        (reported.tenant.as_str(), reported.calls_max, reported.calls_in_progress),
        ("small", Some(2), 1)
    );
    assert_eq!((reported.stored_bytes_max, reported.compile_seconds_per_hour), (Some(most as u64), Some(1)));

    // Stored bytes, also after a restart.
    small.upload(&elf).await.unwrap();
    small.upload(&elf).await.unwrap();
    small.upload(&variant("exit-imc", 4)).await.unwrap();
    server.stop();
    server = start(&issuer, &data, &quotas);
    small = Tenant::connect(&server, &issuer, "small").await;
    let mut big = Tenant::connect(&server, &issuer, "big").await;
    assert_eq!(quota_of(&small.upload(&variant("exit-imc", 5)).await.unwrap_err()), "stored_bytes_max");
    small.upload(&elf).await.unwrap();
    for number in 3..9 {
        big.upload(&variant("exit-imc", number)).await.unwrap();
    }

    // Cycles.
    let interpreted = || stored(&elf, &["a"], v1::Tier::Interpreter);
    let end = Instant::now() + crate::server::PATIENCE;
    let status = loop {
        match small.run(interpreted()).await {
            Ok(_) => assert!(Instant::now() < end, "there is no quota"),
            Err(status) => break status,
        }
    };
    assert_eq!(quota_of(&status), "guest_cycles_per_second");
    let wait = status.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(exit_code(&big.run(interpreted()).await.unwrap()), Some(0));
    tokio::time::sleep(wait).await;
    assert_eq!(exit_code(&small.run(interpreted()).await.unwrap()), Some(0));

    compile_seconds_are_used_up(&server, &issuer).await;
    assert!(server.metric("antares_quota_refused_total{quota=\"stored_bytes_max\"}") >= 1.0);
    assert!(server.metric("antares_tenant_calls_total{tenant=\"small\"}") >= 3.0);

    // Calls in progress: the limit is two sessions.
    let mut held = Vec::new();
    for _ in 0..2 {
        let (sender, receiver) = tokio::sync::mpsc::channel::<v1::ExecuteSessionRequest>(1);
        let inputs = tokio_stream::wrappers::ReceiverStream::new(receiver);
        held.push((sender, small.runner.execute_session(inputs).await.unwrap()));
    }
    let refused = small.runner.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.unwrap_err();
    assert_eq!(quota_of(&refused), "calls_max");
    assert!(big.runner.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.is_ok());
}

/// One tenant compiles until its seconds are used up; another one continues.
async fn compile_seconds_are_used_up(server: &Server, issuer: &Issuer) {
    let mut busy = Tenant::connect(server, issuer, "busy").await;
    let mut big = Tenant::connect(server, issuer, "big").await;
    let (fib, end) = (guests::bytes("fib-imc").unwrap(), Instant::now() + crate::server::PATIENCE);
    for number in 0_u64.. {
        assert!(Instant::now() < end, "there is no quota");
        let elf = [&fib[..], &number.to_le_bytes()].concat();
        busy.upload(&elf).await.unwrap();
        let Err(status) = busy.compile(&elf).await else { continue };
        assert_eq!(quota_of(&status), "compile_seconds_per_hour");
        // Not the first: a compile is refused only after earlier ones left a debt.
        assert!(number > 0);
        big.upload(&elf).await.unwrap();
        assert!(big.compile(&elf).await.is_ok());
        // Compiled code costs nothing.
        assert_eq!(busy.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
        return;
    }
}

/// Times of `count` consecutive runs.
async fn times(tenant: &mut Tenant, elf: &[u8], count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let ran = tenant.run(stored(elf, &["0"], v1::Tier::Auto)).await;
        assert_eq!(exit_code(&ran.unwrap()), Some(0));
        times.push(started.elapsed());
    }
    times.sort_unstable();
    times
}

/// Cost of the flood's sixteen callers, its server and its workers on two processors, whatever the quotas: a
/// ready thread waits for others' time slices of 3 ms.
const TURN_OF_THE_MACHINE: Duration = Duration::from_millis(30);

/// Makes all costly calls as fast as possible while the gate is open.
async fn floods(mut tenant: Tenant, number: u8, mut gate: watch::Receiver<bool>) {
    let loud = guests::bytes("fib-imc").unwrap();
    for round in 0_u64.. {
        if gate.wait_for(|open| *open).await.is_err() {
            return;
        }
        let mut other = loud.clone();
        other.push(number);
        other.extend(round.to_le_bytes());
        let _ = tenant.upload(&other).await;
        let _ = tenant.run(inline(&loud, &["22"], v1::Tier::Interpreter)).await;
        let _ = tenant.compile(&other).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_is_its_own_affair() {
    /// Measured runs per turn, and turns.
    const RUNS: usize = 100;
    const TURNS: usize = 6;
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let quotas = "[quotas]\ncalls_max = 8\nguest_cycles_per_second = 1000000\nstored_bytes_max = 100000\n\
        compile_seconds_per_hour = 1\n";
    let server = start(&issuer, &data, quotas);
    let mut calm = Tenant::connect(&server, &issuer, "calm").await;
    let flood = Tenant::connect(&server, &issuer, "flood").await;
    let elf = variant("exit-imc", 6);
    calm.upload(&elf).await.unwrap();
    calm.compile(&elf).await.unwrap();
    times(&mut calm, &elf, RUNS).await;
    let gate = Arc::new(watch::Sender::new(false));
    let tasks: Vec<_> =
        (0..16).map(|number| tokio::spawn(floods(flood.clone(), number, gate.subscribe()))).collect();
    let refused = || {
        ["guest_cycles_per_second", "calls_max"]
            .map(|quota| server.metric(&format!("antares_quota_refused_total{{quota=\"{quota}\"}}")))
            .iter()
            .sum::<f64>()
    };
    // Alternates, so that other load of the machine affects both.
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        alone.extend(times(&mut calm, &elf, RUNS).await);
        let before = refused();
        gate.send_replace(true);
        until("the flood has met its quotas", || refused() > before + 20.0);
        beside.extend(times(&mut calm, &elf, RUNS).await);
        gate.send_replace(false);
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    alone.sort_unstable();
    beside.sort_unstable();
    let at = |times: &[Duration], percent: usize| times[times.len() * percent / 100];
    println!(
        "p99 alone {:?}, beside a flood {:?}: {:.2} times; p50 {:?} and {:?}",
        at(&alone, 99),
        at(&beside, 99),
        at(&beside, 99).as_secs_f64() / at(&alone, 99).as_secs_f64(),
        at(&alone, 50),
        at(&beside, 50)
    );
    assert!(at(&beside, 99) <= 2 * at(&alone, 99) + TURN_OF_THE_MACHINE);
    // Its quota is unused: all of its calls were answered, and it can still store.
    calm.upload(&variant("exit-imc", 7)).await.unwrap();
    let listed = calm.profiles.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    let own = Sha256Digest::of(&elf).to_string();
    assert!(listed.scripts.iter().all(|script| script.script == own), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_what_is_written_down() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let path = data.path().join("audit.jsonl");
    let server = start(&issuer, &data, &format!("[audit]\ntarget = {path:?}\nrequired = true\n"));
    let elf = variant("exit-imc", 8);
    let mut one = Tenant::connect(&server, &issuer, "one").await;
    one.upload(&elf).await.unwrap();
    one.run(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap();
    let mut channel = v1::compiler_service_client::CompilerServiceClient::new(plain(&server).await);
    channel.find_missing(v1::FindMissingRequest::default()).await.unwrap_err();
    let mut open = v1::runner_service_client::RunnerServiceClient::new(plain(&server).await);
    open.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.unwrap_err();
    let missing = "antares.v1.CompilerService/FindMissing";
    // A refused caller has a name if its token is signed by a known key, and none otherwise.
    let expired = claims("all/late", |claims| claims["exp"] = (now() - 600).into());
    let tokens =
        [claims("role/profile", |_| {}), claims("nobody", |_| {}), expired].map(|of| issuer.sign(&of));
    let forged = Issuer::new().sign(&claims("all/one", |_| {}));
    let wire = plain(&server).await;
    for token in tokens.iter().chain([&forged]) {
        call(&wire, missing, &bearer(token), Some("liar")).await;
    }
    assert_eq!(server.stop(), Some(0));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A compile after its call has its own line, without an outcome.
    lines.retain(|line| line["outcome"].is_string());
    let digest = Sha256Digest::of(&elf).to_string();
    let reported = |line: &Value| {
        ["call", "who", "tenant", "role", "what", "outcome", "request_id"]
            .map(|key| line[key].as_str().unwrap_or_default().to_owned())
    };
    let expected = [
        ["antares.v1.CompilerService/Upload", "all/one", "one", "upload", &digest, "OK", ""],
        ["antares.v1.RunnerService/Execute", "all/one", "one", "execute", &digest, "OK", "scenario"],
        [missing, "", "", "upload", "", "UNAUTHENTICATED", ""],
        ["antares.v1.RunnerService/GetCapabilities", "", "", "", "", "UNAUTHENTICATED", ""],
        [missing, "role/profile", "t-profile", "upload", "", "PERMISSION_DENIED", ""],
        [missing, "nobody", "", "upload", "", "PERMISSION_DENIED", ""],
        [missing, "all/late", "", "upload", "", "UNAUTHENTICATED", ""],
        [missing, "", "", "upload", "", "UNAUTHENTICATED", ""],
    ];
    assert_eq!(lines.iter().map(reported).collect::<Vec<_>>(), expected.map(|line| line.map(str::to_owned)));
}

/// Sums of `docs/billing.md`: a counter, the field of a line, and the field's units in one of the counter's.
const USED: [(&str, &str, f64); 7] = [
    ("refused_calls", "refused_calls", 1.0),
    ("runs", "runs", 1.0),
    ("guest_cycles", "guest_cycles", 1.0),
    ("run_seconds", "run_us", 1e6),
    ("compiles", "compiles", 1.0),
    ("compile_seconds", "compile_us", 1e6),
    ("stored_bytes", "stored_bytes", 1.0),
];

#[tokio::test(flavor = "multi_thread")]
async fn counters_and_audit_lines_have_the_same_sums() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let path = data.path().join("audit.jsonl");
    let server = start(&issuer, &data, &format!("[audit]\ntarget = {path:?}\n"));
    let elf = variant("exit-imc", 9);
    for name in ["one", "two"] {
        let mut tenant = Tenant::connect(&server, &issuer, name).await;
        tenant.upload(&elf).await.unwrap();
        tenant.run(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap();
    }
    let refused = bearer(&issuer.sign(&claims("role/profile", |_| {})));
    call(&plain(&server).await, "antares.v1.RunnerService/Execute", &refused, None).await;
    let counted = |tenant: &str, name: &str| {
        server.metric(&format!("antares_tenant_{name}_total{{tenant=\"{tenant}\"}}"))
    };
    let logged = |tenant: &str, field: &str| {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_tenant = lines.filter(|line| line["tenant"] == tenant);
        of_tenant.map(|line| line[field].as_f64().unwrap()).sum::<f64>()
    };
    // The full compile follows the call that started it.
    until("both compiles are made", || counted("one", "compiles") == 2.0);
    for tenant in ["one", "two", "t-profile"] {
        for (name, field, unit) in USED {
            until(&format!("{field} of {tenant} are logged"), || {
                (counted(tenant, name) * unit - logged(tenant, field)).abs() < 0.5
            });
        }
    }
    let used = |tenant: &str| USED.map(|(name, ..)| counted(tenant, name) > 0.0);
    assert_eq!(used("one"), [false, true, true, true, true, true, true]);
    assert_eq!(used("two")[..2], [false, true]);
    assert_eq!(used("t-profile"), [true, false, false, false, false, false, false]);
}
