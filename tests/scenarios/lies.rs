//! Lying run workers: no answer of theirs reaches a caller or is charged, and other tenants are served
//! throughout.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use antares_pool::worker_path;
use antares_proto::v1;
use antares_tests::{guests, transactions::locked_by};
use ckb_mock_tx_types::ReprMockTransaction;
use ckb_types::core::ScriptHashType;
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::{
    client::{exit_code, inline, is, reason, verification},
    identity::Issuer,
    server::Server,
    tenants::{start, tenant},
};

#[path = "../../crates/runtime/pool/examples/lying-worker/lies.rs"]
#[allow(dead_code, reason = "what the worker says is its own")]
mod reported;

/// A server whose run workers lie on request.
fn start_liars(issuer: &Issuer, data: &TempDir, workers: &TempDir) -> Server {
    symlink(env!("CARGO_BIN_EXE_lying-run-worker"), workers.path().join("antares-run-worker")).unwrap();
    let compiler = worker_path("antares-compile-worker").unwrap();
    symlink(compiler, workers.path().join("antares-compile-worker")).unwrap();
    let folder = format!("ANTARES_WORKER_DIR={}", workers.path().display());
    fs::write(data.path().join("environment"), folder).unwrap();
    start(issuer, data, "[runner]\nworkers_max = 2\n")
}

fn limits() -> Option<v1::RunLimits> {
    let (cycles, debug) = (reported::CYCLES_MAX, reported::DEBUG_BYTES_MAX);
    Some(v1::RunLimits { max_cycles: Some(cycles), debug_bytes_max: Some(debug), ..Default::default() })
}

/// A run whose worker tells this lie.
fn run(lie: &str) -> v1::ExecuteRequest {
    let elf = guests::bytes("exit-imc").unwrap();
    let lie = format!("lie:{lie};");
    v1::ExecuteRequest { limits: limits(), ..inline(&elf, &[&lie], v1::Tier::Interpreter) }
}

/// A transaction about which its worker tells this lie.
fn transaction(lie: &str) -> v1::VerifyTransactionRequest {
    let elf = guests::bytes("exit-imc").unwrap();
    let mock = locked_by(&[elf.into()], ScriptHashType::Data2).unwrap();
    let mut json = serde_json::to_value(ReprMockTransaction::from(mock.as_ckb().clone())).unwrap();
    let witness: String = format!("lie:{lie};").bytes().map(|byte| format!("{byte:02x}")).collect();
    json["tx"]["witnesses"] = serde_json::json!([format!("0x{witness}")]);
    let request = verification(json.to_string(), v1::Tier::Interpreter);
    v1::VerifyTransactionRequest { limits: limits(), ..request }
}

#[track_caller]
fn assert_internal(lie: &str, status: &Status) {
    is(status, Code::Internal, "INTERNAL");
    assert!(status.message().len() < 200, "{lie}: {status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_worker_costs_its_tenant_an_answer_and_nobody_else_anything() {
    let (issuer, data, workers) = (Issuer::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Arc::new(start_liars(&issuer, &data, &workers));
    let liar = tenant(&server, &issuer, "liar").await;
    let other = tenant(&server, &issuer, "other").await;
    let (over, is_over) = watch::channel(false);
    let served = tokio::spawn(async move {
        let elf = guests::bytes("exit-imc").unwrap();
        let mut served = 0;
        while !*is_over.borrow() {
            let request = v1::ExecuteRequest { limits: limits(), ..inline(&elf, &[], v1::Tier::Interpreter) };
            assert_eq!(exit_code(&other.execute(request).await.unwrap()), Some(0));
            served += 1;
        }
        served
    });
    let violations = || server.metric("antares_sandbox_violations_total{role=\"run\"}");
    let mut lies = 0.0;
    let runs = reported::RUNS.iter().map(|(name, _)| name);
    for name in runs.chain(reported::NOISE.iter().map(|(name, _)| name)) {
        assert_internal(name, &liar.execute(run(name)).await.unwrap_err());
        lies += 1.0;
        // Once, and once more on another worker.
        assert_eq!(violations(), 2.0 * lies, "{name}");
    }
    for (name, _) in reported::VERIFICATIONS {
        assert_internal(name, &liar.verify(transaction(name)).await.unwrap_err());
        lies += 1.0;
        assert_eq!(violations(), 2.0 * lies, "{name}");
    }
    for (name, _) in reported::FAILURES {
        let status = liar.execute(run(&format!("fails-{name}"))).await.unwrap_err();
        assert_eq!(reason(&status), "WORKER_LOST", "{status:?}");
        assert!(status.message().len() < 1000 && !status.message().contains('\n'), "{status:?}");
    }
    over.send(true).unwrap();
    assert!(served.await.unwrap() > 0);
    assert_eq!(server.metric("antares_false_reports_total{role=\"run\"}"), 2.0 * lies);
    assert_eq!(server.metric("antares_tenant_guest_cycles_total{tenant=\"liar\"}"), 0.0);
    assert!(server.metric("antares_guest_cycles_total{tier=\"interpreter\"}") < 1e9);
}
