//! What an autoscaler is told, asked as KEDA asks; and runners that come and go by it while calls go on.

use std::{
    collections::HashMap,
    net::TcpListener,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use antares_client::{Script, v1};
use antares_proto::{
    keda::{GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::Tier,
};
use antares_tests::guests;
use bytes::Bytes;
use serde_json::Value;
use tonic::{Code, transport::Channel};

use crate::{
    client::{Client, inline},
    server::{PATIENCE, Server},
};

/// Runners at most.
const RUNNERS_MAX: usize = 3;

fn asked(words: &[(&str, &str)]) -> ScaledObjectRef {
    let scaler_metadata: HashMap<_, _> =
        words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ScaledObjectRef { name: "antares-runner".to_owned(), namespace: "antares".to_owned(), scaler_metadata }
}

async fn scaler(address: &str) -> ExternalScalerClient<Channel> {
    ExternalScalerClient::connect(format!("http://{address}")).await.unwrap()
}

/// As KEDA: the target, then the value of the metric that goes with it.
async fn value(address: &str, words: &[(&str, &str)]) -> Result<(f64, f64), tonic::Status> {
    let mut scaler = scaler(address).await;
    let spec = scaler.get_metric_spec(asked(words)).await?.into_inner().metric_specs.remove(0);
    let request =
        GetMetricsRequest { scaled_object_ref: Some(asked(words)), metric_name: spec.metric_name.clone() };
    let value = scaler.get_metrics(request).await?.into_inner().metric_values.remove(0);
    assert_eq!(value.metric_name, spec.metric_name);
    assert!(spec.target_size as f64 >= spec.target_size_float);
    assert!(value.metric_value as f64 >= value.metric_value_float);
    Ok((spec.target_size_float, value.metric_value_float))
}

/// Waits for a condition that is asked for over gRPC.
async fn until_value(address: &str, metric: &str, is_so: impl Fn(f64) -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so(value(address, &[("metric", metric), ("target", "1")]).await.unwrap().1) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{metric} never came to be as expected"));
}

fn endless(deadline_ms: u64) -> v1::ExecuteRequest {
    let mut request = inline(&guests::bytes("attack-loop-call").unwrap(), &[], Tier::Native);
    let deadline_ms = Some(deadline_ms);
    request.limits =
        Some(v1::RunLimits { max_cycles: Some(1_000_000_000_000), deadline_ms, debug_bytes_max: None });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scaler_is_told_how_much_work_there_is() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, "[runner]\nworkers_max = 1\n");
    let at = &server.address;
    assert_eq!(value(at, &[]).await.unwrap().0, 0.7);
    assert_eq!(value(at, &[("metric", "waiting")]).await.unwrap(), (4.0, 0.0));
    assert_eq!(value(at, &[("metric", "cycles"), ("target", "2.5e9")]).await.unwrap().0, 2.5e9);
    for wrong in [
        [("metric", "cpu"), ("target", "1")],
        [("metric", "load"), ("target", "0")],
        [("metric", "load"), ("target", "-1")],
        [("metric", "load"), ("target", "NaN")],
        [("metric", "waiting"), ("target", "many")],
        // Nobody else knows how many there should be.
        [("metric", "cycles"), ("unused", "")],
    ] {
        assert_eq!(value(at, &wrong).await.unwrap_err().code(), Code::InvalidArgument, "{wrong:?}");
    }
    let mut active = scaler(at).await.stream_is_active(asked(&[])).await.unwrap().into_inner();
    assert!(!active.message().await.unwrap().unwrap().result);
    assert!(!scaler(at).await.is_active(asked(&[])).await.unwrap().into_inner().result);
    let client = Client::connect(&server).await;
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.execute(endless(50_000)).await })
        })
        .collect();
    // One runs, two wait.
    until_value(at, "load", |load| load > 1.5).await;
    until_value(at, "waiting", |waiting| waiting > 1.0).await;
    assert!(active.message().await.unwrap().unwrap().result);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    until_value(at, "load", |load| load == 0.0).await;
    let mut client = client;
    client.execute(inline(&guests::bytes("exit-imc").unwrap(), &["1"], Tier::Interpreter)).await.unwrap();
    until_value(at, "cycles", |cycles| cycles > 0.0).await;
    // A stream that is held open does not hold a server that is told to end.
    assert_eq!(tokio::task::spawn_blocking(|| server.stop()).await.unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_has_work_and_no_cycles() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_program("antares-compiler-svc", &[], &data, "");
    assert_eq!(value(&server.address, &[]).await.unwrap(), (0.7, 0.0));
    let refused = value(&server.address, &[("metric", "cycles"), ("target", "1")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let (mut client, elf) = (Client::connect(&server).await, guests::bytes("lua-imc").unwrap());
    client.upload(&elf).await.unwrap();
    let request = v1::CompileRequest {
        script_sha256: antares_abi::Sha256Digest::of(&elf).to_string(),
        ..v1::CompileRequest::default()
    };
    client.compiler.compile(request).await.unwrap();
    until_value(&server.address, "load", |load| load > 0.0).await;
}

/// KEDA itself is built on what grpcurl is built on.
#[test]
fn a_stranger_asks_as_keda_does() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/check/tools.sh");
    let found = Command::new(tools).arg("grpcurl").output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let grpcurl = String::from_utf8(found.stdout).unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let ask = |method: &str, request: &str| -> Value {
        let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
        let output = Command::new(grpcurl.trim())
            .args(["-plaintext", "-import-path"])
            .arg(proto)
            .args(["-proto", "keda/externalscaler.proto", "-d", request, &server.address])
            .arg(format!("externalscaler.ExternalScaler/{method}"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let object = r#"{"name":"a","namespace":"b","scalerMetadata":{"metric":"waiting","target":"2"}}"#;
    let spec = ask("GetMetricSpec", object);
    assert_eq!(spec["metricSpecs"][0]["metricName"], "waiting");
    assert_eq!(spec["metricSpecs"][0]["targetSizeFloat"], 2);
    let request = format!(r#"{{"metricName":"waiting","scaledObjectRef":{object}}}"#);
    assert_eq!(ask("GetMetrics", &request)["metricValues"][0]["metricName"], "waiting");
}

/// What the autoscaler of Kubernetes wants for a metric of type Value.
fn wanted(running: usize, (target, value): (f64, f64)) -> usize {
    let wanted = (running as f64 * value / target).ceil();
    (1..RUNNERS_MAX).find(|count| *count as f64 >= wanted).unwrap_or(RUNNERS_MAX)
}

/// A load that comes and goes, and runners that follow it. No call fails: who is taken away first answers
/// what it has.
#[tokio::test(flavor = "multi_thread")]
async fn runners_come_and_go_with_their_work_and_no_call_fails() {
    let data: Vec<_> = (0..=RUNNERS_MAX).map(|_| tempfile::tempdir().unwrap()).collect();
    let compiler = Server::start_program("antares-compiler-svc", &[], &data[RUNNERS_MAX], "");
    let sections = format!(
        "[listen]\ndrain_delay_ms = 50\n[runner]\nworkers_max = 1\ncompiler_url = \"http://{}\"\n",
        compiler.address
    );
    let ports: Vec<_> = data.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = ports.iter().map(|port| port.local_addr().unwrap().to_string()).collect();
    drop(ports);
    let start =
        |number: usize| Server::start_at("antares-runner-svc", &addresses[number], &data[number], &sections);
    let urls = addresses[..RUNNERS_MAX].iter().map(|address| format!("http://{address}"));
    let client = antares_client::Client::builder().servers(urls).deadline(PATIENCE).build().unwrap();
    let (is_over, callers, calls) = (AtomicBool::new(false), AtomicUsize::new(5), AtomicU64::new(0));
    let elf = Bytes::from(guests::bytes("attack-loop-call").unwrap());
    let (client, elf, is_over, callers, calls) = (&client, &elf, &is_over, &callers, &calls);
    let load = (0..5).map(|caller| async move {
        while !is_over.load(Relaxed) {
            if caller >= callers.load(Relaxed) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let request = v1::ExecuteRequest { script: None, ..endless(60) };
            let answer = client.execute(Script::Elf(elf.clone()), request).await.unwrap();
            assert_eq!(answer.verdict.unwrap().outcome(), v1::Outcome::DeadlineExceeded);
            calls.fetch_add(1, Relaxed);
            // With one caller its runner rests most of the time.
            tokio::time::sleep(Duration::from_millis(if callers.load(Relaxed) == 1 { 600 } else { 1 })).await;
        }
    });
    let scaling = async {
        let mut runners = vec![start(0)];
        let mut turn = 0;
        let mut follow = async |runners: &mut Vec<Server>, count: usize| {
            let until = tokio::time::Instant::now() + PATIENCE;
            while runners.len() != count {
                assert!(tokio::time::Instant::now() < until, "{} runners, not {count}", runners.len());
                turn += 1;
                let asked = &runners[turn % runners.len()].address;
                let now = wanted(runners.len(), value(asked, &[]).await.unwrap());
                if now > runners.len() {
                    let number = runners.len();
                    runners.push(tokio::task::block_in_place(|| start(number)));
                } else if now < runners.len() {
                    let last = runners.pop().unwrap();
                    assert_eq!(tokio::task::spawn_blocking(|| last.stop()).await.unwrap(), Some(0));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        follow(&mut runners, RUNNERS_MAX).await;
        let grown = calls.load(Relaxed);
        callers.store(1, Relaxed);
        follow(&mut runners, 1).await;
        is_over.store(true, Relaxed);
        (runners, grown)
    };
    let ((runners, grown), _) = tokio::join!(scaling, futures_util::future::join_all(load));
    println!("{} calls, {grown} until there were {RUNNERS_MAX} runners; none failed", calls.load(Relaxed));
    assert_eq!(runners.len(), 1);
}
