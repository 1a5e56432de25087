//! Isolation of tenants: uploads, usage and runs of one do not affect another.

use std::{fs, sync::Arc, time::Duration};

use antares_proto::v1;
use antares_tests::guests;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    client::{Client, digest, exit_code, inline, is, reason, stored, times},
    identity::{Issuer, bearer, call, claims, now, plain},
    overload::endless,
    server::{Server, found, percentile, until},
};

/// Rules by which `user/NAME` is the tenant `NAME`, with all roles of a client.
const ALL_ROLES: &str = "[[auth.rules]]\ntoken = \"all/*\"\ntenant = \"*\"\nroles = [\"upload\", \"compile\", \"execute\", \"profile\"]\n";

/// A client of the tenant `name`.
pub(crate) async fn tenant(server: &Server, issuer: &Issuer, name: &str) -> Client {
    Client::with_token(server, &issuer.sign(&claims(&format!("all/{name}"), |_| {}))).await
}

pub(crate) fn start(issuer: &Issuer, data: &TempDir, sections: &str) -> Server {
    Server::start_with(data, &format!("{}{ALL_ROLES}{sections}", issuer.section()))
}

/// A server for tenants.
pub(crate) fn serving_tenants(sections: &str) -> (Issuer, TempDir, Server) {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = start(&issuer, &data, sections);
    (issuer, data, server)
}

/// The quota of a refusal; asserts a retry delay where a retry helps.
#[track_caller]
fn quota_of(status: &Status) -> String {
    is(status, Code::ResourceExhausted, "QUOTA");
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
    let (issuer, data, mut server) = serving_tenants("");
    let elf = variant("exit-imc", 1);
    let key = {
        let one = tenant(&server, &issuer, "one").await;
        assert!(!one.upload(&elf).await.unwrap().already_stored);
        assert!(!one.is_missing(&elf).await);
        assert_eq!(exit_code(&one.execute(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap()), Some(0));
        one.compile(&elf).await.unwrap().artifact_key
    };
    for again in [false, true] {
        if again {
            // The owner of a script is remembered.
            assert_eq!(server.stop(), Some(0));
            server = start(&issuer, &data, "");
        }
        let mut one = tenant(&server, &issuer, "one").await;
        let mut two = tenant(&server, &issuer, "two").await;
        assert!(!one.is_missing(&elf).await);
        assert!(two.is_missing(&elf).await);
        let artifact = v1::GetArtifactRequest { artifact_key: key.clone() };
        let refusals = [
            two.execute(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap_err(),
            two.compile(&elf).await.unwrap_err(),
            two.script(&elf).await.unwrap_err(),
            two.compiler.get_artifact(artifact.clone()).await.unwrap_err(),
        ];
        for status in refusals {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
        }
        one.compiler.get_artifact(artifact).await.unwrap();
    }
    let two = tenant(&server, &issuer, "two").await;
    // The response does not reveal that another tenant has stored it.
    assert!(!two.upload(&elf).await.unwrap().already_stored);
    assert!(two.upload(&elf).await.unwrap().already_stored);
    assert!(!two.is_missing(&elf).await);
    // Native code is compiled once for all, unless tenants have separate code.
    assert_eq!(two.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
    assert_eq!(exit_code(&two.execute(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap()), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_share_what_they_are_to_share_and_no_time_where_keys_are_salted() {
    let elf = variant("exit-imc", 2);
    for (section, is_shared) in
        [("[tenants]\nisolation = \"none\"\n", true), ("[tenants]\nisolation = \"code\"\n", false)]
    {
        let (issuer, _data, server) = serving_tenants(section);
        let mut one = tenant(&server, &issuer, "one").await;
        let mut two = tenant(&server, &issuer, "two").await;
        one.upload(&elf).await.unwrap();
        assert_eq!(one.compile(&elf).await.unwrap().cache(), v1::CacheUse::Miss);
        assert_eq!(two.is_missing(&elf).await, !is_shared);
        two.upload(&elf).await.unwrap();
        let compiled = two.compile(&elf).await.unwrap();
        assert_eq!(compiled.cache() == v1::CacheUse::Hit, is_shared);
        for tenant in [&mut one, &mut two] {
            assert_eq!(tenant.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
            let request = v1::GetArtifactRequest { artifact_key: compiled.artifact_key.clone() };
            tenant.compiler.get_artifact(request).await.unwrap();
            let ran = tenant.execute(stored(&elf, &["a"], v1::Tier::Native)).await.unwrap();
            assert_eq!(exit_code(&ran), Some(0));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_begins_when_the_cost_of_the_last_one_is_known() {
    let one_worker = "[quotas]\nguest_cycles_per_second = 1000000\n[runner]\nworkers_max = 1\n";
    let (issuer, _data, server) = serving_tenants(one_worker);
    let one = tenant(&server, &issuer, "one").await;
    let ended = futures_util::future::join_all((0..8).map(|_| one.execute(endless(1_000)))).await;
    let refused = ended.iter().filter(|end| end.as_ref().is_err_and(|status| reason(status) == "QUOTA"));
    assert_eq!(refused.count(), 7, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_a_tenant_s_own() {
    let elf = variant("exit-imc", 3);
    let most = 2 * elf.len();
    let quotas = format!(
        "[quotas]\ncalls_max = 2\nguest_cycles_per_second = 20\ncompile_seconds_per_hour = 1\nstored_bytes_max = {most}\n\
         [[quotas.tenants]]\ntenant = \"big\"\ncalls_max = 0\nguest_cycles_per_second = 0\ncompile_seconds_per_hour = 0\nstored_bytes_max = 0\n\
         [[quotas.tenants]]\ntenant = \"busy\"\ncalls_max = 0\nguest_cycles_per_second = 0\ncompile_seconds_per_hour = 1\nstored_bytes_max = 0\n"
    );
    let (issuer, data, mut server) = serving_tenants(&quotas);
    let mut small = tenant(&server, &issuer, "small").await;
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
    small = tenant(&server, &issuer, "small").await;
    let mut big = tenant(&server, &issuer, "big").await;
    assert_eq!(quota_of(&small.upload(&variant("exit-imc", 5)).await.unwrap_err()), "stored_bytes_max");
    small.upload(&elf).await.unwrap();
    for number in 3..9 {
        big.upload(&variant("exit-imc", number)).await.unwrap();
    }

    // Cycles.
    let interpreted = || stored(&elf, &["a"], v1::Tier::Interpreter);
    let status = found("there is a quota", async || small.execute(interpreted()).await.err()).await;
    assert_eq!(quota_of(&status), "guest_cycles_per_second");
    let wait = status.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(exit_code(&big.execute(interpreted()).await.unwrap()), Some(0));
    tokio::time::sleep(wait).await;
    assert_eq!(exit_code(&small.execute(interpreted()).await.unwrap()), Some(0));

    compile_seconds_are_used_up(&server, &issuer).await;
    assert!(server.metric("antares_quota_refused_total{quota=\"stored_bytes_max\"}") >= 1.0);
    assert!(server.metric("antares_tenant_calls_total{tenant=\"small\"}") >= 3.0);

    // Calls in progress: the limit is two sessions.
    let silent = tokio_stream::pending::<v1::ExecuteSessionRequest>;
    let _one = small.runner.execute_session(silent()).await.unwrap();
    let _two = small.runner.execute_session(silent()).await.unwrap();
    let refused = small.runner.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.unwrap_err();
    assert_eq!(quota_of(&refused), "calls_max");
    assert!(big.runner.get_capabilities(v1::GetRunnerCapabilitiesRequest {}).await.is_ok());
}

/// One tenant compiles until its seconds are used up; another one continues.
async fn compile_seconds_are_used_up(server: &Server, issuer: &Issuer) {
    let busy = tenant(server, issuer, "busy").await;
    let big = tenant(server, issuer, "big").await;
    let (fib, mut elf, mut compiles) = (guests::bytes("fib-imc").unwrap(), Vec::new(), 0_u64);
    let status = found("there is a quota", async || {
        compiles += 1;
        elf = [&fib[..], &compiles.to_le_bytes()].concat();
        busy.upload(&elf).await.unwrap();
        busy.compile(&elf).await.err()
    })
    .await;
    assert_eq!(quota_of(&status), "compile_seconds_per_hour");
    // Not the first: a compile is refused only after earlier ones left a debt.
    assert!(compiles > 1);
    big.upload(&elf).await.unwrap();
    assert!(big.compile(&elf).await.is_ok());
    // Compiled code costs nothing.
    assert_eq!(busy.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
}

/// Cost of the flood's sixteen callers, its server and its workers on two processors, whatever the quotas: a
/// ready thread waits for others' time slices of 3 ms.
const TURN_OF_THE_MACHINE: Duration = Duration::from_millis(30);

/// Makes all costly calls as fast as possible while the gate is open.
async fn floods(tenant: Client, number: u8, mut gate: watch::Receiver<bool>) {
    let loud = guests::bytes("fib-imc").unwrap();
    for round in 0_u64.. {
        if gate.wait_for(|open| *open).await.is_err() {
            return;
        }
        let mut other = loud.clone();
        other.push(number);
        other.extend(round.to_le_bytes());
        let _ = tenant.upload(&other).await;
        let _ = tenant.execute(inline(&loud, &["22"], v1::Tier::Interpreter)).await;
        let _ = tenant.compile(&other).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_is_its_own_affair() {
    /// Measured runs per turn, and turns.
    const RUNS: usize = 100;
    const TURNS: usize = 6;
    let quotas = "[quotas]\ncalls_max = 8\nguest_cycles_per_second = 1000000\nstored_bytes_max = 100000\n\
        compile_seconds_per_hour = 1\n";
    let (issuer, _data, server) = serving_tenants(quotas);
    let mut calm = tenant(&server, &issuer, "calm").await;
    let flood = tenant(&server, &issuer, "flood").await;
    let elf = variant("exit-imc", 6);
    calm.upload(&elf).await.unwrap();
    calm.compile(&elf).await.unwrap();
    times(&calm, &elf, RUNS).await;
    let gate = Arc::new(watch::Sender::new(false));
    let tasks: Vec<_> =
        (0..16).map(|number| tokio::spawn(floods(flood.clone(), number, gate.subscribe()))).collect();
    let refused = || {
        let of = |quota| server.metric(&format!("antares_quota_refused_total{{quota=\"{quota}\"}}"));
        of("guest_cycles_per_second") + of("calls_max")
    };
    // Alternates, so that other load of the machine affects both.
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        alone.extend(times(&calm, &elf, RUNS).await);
        let before = refused();
        gate.send_replace(true);
        until("the flood has met its quotas", || refused() > before + 20.0);
        beside.extend(times(&calm, &elf, RUNS).await);
        gate.send_replace(false);
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let (p99_alone, p99_beside) = (percentile(&mut alone, 99), percentile(&mut beside, 99));
    println!("p99 alone {p99_alone:?}, during a flood {p99_beside:?}");
    assert!(p99_beside <= 2 * p99_alone + TURN_OF_THE_MACHINE);
    // Its quota is unused: all of its calls were answered, and it can still store.
    calm.upload(&variant("exit-imc", 7)).await.unwrap();
    let listed = calm.profiles.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    assert!(listed.scripts.iter().all(|script| script.script == digest(&elf)), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_what_is_written_down() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let path = data.path().join("audit.jsonl");
    let server = start(&issuer, &data, &format!("[audit]\ntarget = {path:?}\nrequired = true\n"));
    let elf = variant("exit-imc", 8);
    let one = tenant(&server, &issuer, "one").await;
    one.upload(&elf).await.unwrap();
    one.execute(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap();
    let missing = "antares.v1.CompilerService/FindMissing";
    let wire = plain(&server).await;
    for method in [missing, "antares.v1.RunnerService/GetCapabilities"] {
        call(&wire, method, &[], None).await;
    }
    // A refused caller has a name if its token is signed by a known key, and none otherwise.
    let expired = claims("all/late", |claims| claims["exp"] = (now() - 600).into());
    let tokens =
        [claims("role/profile", |_| {}), claims("nobody", |_| {}), expired].map(|of| issuer.sign(&of));
    let forged = Issuer::new().sign(&claims("all/one", |_| {}));
    for token in tokens.iter().chain([&forged]) {
        call(&wire, missing, &bearer(token), Some("liar")).await;
    }
    assert_eq!(server.stop(), Some(0));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A compile after its call has its own line, without an outcome.
    lines.retain(|line| line["outcome"].is_string());
    let digest = digest(&elf);
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
        let tenant = tenant(&server, &issuer, name).await;
        tenant.upload(&elf).await.unwrap();
        tenant.execute(stored(&elf, &["a"], v1::Tier::Auto)).await.unwrap();
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
