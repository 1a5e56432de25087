//! More than the capacity, and misbehaving peers: bursts, readers that never read, clients that vanish,
//! collectors that hang, processes that stop for a while.

use std::time::{Duration, Instant};

use antares_proto::v1::{self, Outcome, Tier, execute_session_request::Message};
use antares_tests::guests;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::{
    batches::{input, message, session},
    client::{Client, Token, exit_code, inline, of_tenant, reason, serving},
    identity::plain,
    link::{Fault, Link},
    server::{Server, percentile, signal, started, until},
};

/// Allowed growth of the server while a client requests much and reads nothing.
const GROWTH_BYTES_MAX: u64 = 96 << 20;

/// A script that ends at its deadline.
pub(crate) fn endless(deadline_ms: u64) -> v1::ExecuteRequest {
    let mut request = inline(&guests::bytes("attack-loop-call").unwrap(), &[], Tier::Native);
    request.limits = Some(v1::RunLimits {
        max_cycles: Some(1_000_000_000_000),
        deadline_ms: Some(deadline_ms),
        debug_bytes_max: None,
    });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_refused_with_advice_and_other_tenants_have_their_turns() {
    let (_data, server, client) = serving("[runner]\nworkers_max = 2\nqueue_max = 8\n").await;
    client.execute(endless(1)).await.unwrap();
    let before = server.memory_high();
    // Ten times the capacity.
    let calls = client.clone();
    let burst = tokio::spawn(async move {
        let call = |_| calls.execute(of_tenant("greedy", endless(200)));
        futures_util::future::join_all((0..100).map(call)).await
    });
    // The other worker is reserved for the earlier tenant.
    until("the queue is full", || server.busy() > 0.5);
    let (small, mut slowest) = (guests::bytes("exit-imc").unwrap(), Duration::ZERO);
    for code in 0..5 {
        let asked = Instant::now();
        let request = of_tenant("modest", inline(&small, &[&code.to_string()], Tier::Interpreter));
        assert_eq!(exit_code(&client.execute(request).await.unwrap()), Some(code));
        slowest = slowest.max(asked.elapsed());
    }
    let (mut done, mut refused) = (0, 0);
    for answer in burst.await.unwrap() {
        match answer {
            Ok(answer) => {
                assert_eq!(answer.verdict.unwrap().outcome(), Outcome::DeadlineExceeded);
                done += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                let advice = status.get_error_details().retry_info().and_then(|info| info.retry_delay);
                assert!(advice.is_some_and(|delay| delay > Duration::ZERO), "{status}");
                refused += 1;
            }
        }
    }
    // One or two ran and eight waited; each of the other tenant's five calls may have replaced one.
    assert!(done >= 5 && refused >= 40, "{done} done, {refused} refused");
    // It waits for a worker, but not for the eight waiting calls.
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
    assert!(server.memory_high() - before < GROWTH_BYTES_MAX);
}

/// Calls of a tenant limited to two at a time, each with its script: most are answered before their bytes
/// arrive.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_refusals_leave_the_connection_to_others() {
    const CALLS: usize = 5_000;
    const AT_ONCE: usize = 250;
    let (_data, server) = started("[listen]\ncalls_max = 4\n");
    let channel = plain(&server).await;
    let client = Client::over(channel.clone(), Token::default());
    // A concurrent call that lasts as long as the connection.
    let watch = HealthClient::new(channel).watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let mut elf = guests::bytes("exit-imc").unwrap();
    elf.resize(40_000, 0);
    let request = inline(&elf, &["3"], Tier::Interpreter);
    let calls = futures_util::stream::iter(0..CALLS).map(|_| {
        let (client, request) = (&client, request.clone());
        async move {
            match client.execute(request).await {
                Ok(answer) => assert_eq!(exit_code(&answer), Some(3)),
                Err(status) => assert_eq!(reason(&status), "OVERLOADED", "{status:?}"),
            }
        }
    });
    calls.buffer_unordered(AT_ONCE).collect::<()>().await;
    let refused = ["tenant", "peer"]
        .map(|scope| server.metric(&format!("antares_calls_refused_total{{scope=\"{scope}\"}}")));
    let refused = refused.iter().sum::<f64>();
    assert!(refused > 0.9 * CALLS as f64, "{refused}");
    while let Some(news) = watch.message().now_or_never() {
        assert!(matches!(news, Ok(Some(_))), "the connection is the one that it was: {news:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_is_bounded_and_disturbs_nobody() {
    let (_data, server, reader) = serving("").await;
    let other = Client::connect(&server).await;
    let elf = guests::bytes("debug-imc").unwrap();
    let mut request = inline(&elf, &["1"], Tier::Native);
    other.execute(request.clone()).await.unwrap();
    let before = server.memory_high();
    let start = v1::SessionStart { script: request.script.clone(), ..Default::default() };
    let (inputs, answers) = session(&reader, message(Message::Start(start))).await;
    // Each answer has some hundred KiB; the client reads none.
    let mut sent = 0;
    loop {
        // Large compared with the network's buffers.
        let input = v1::Input { args: vec![Bytes::from_static(b"20000"), Bytes::from(vec![b'x'; 16 << 10])] };
        let input = message(Message::Input(v1::SessionInput { id: sent, input: Some(input) }));
        match tokio::time::timeout(Duration::from_secs(1), inputs.send(input)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => break,
        }
        assert!(sent < 5_000, "the server takes everything");
    }
    let grown = server.memory_high() - before;
    assert!(grown < GROWTH_BYTES_MAX, "{grown}");
    request.args = vec![Bytes::from_static(b"2")];
    for _ in 0..20 {
        assert_eq!(exit_code(&other.execute(request.clone()).await.unwrap()), Some(0));
    }
    drop(answers);
    until("its worker is free", || server.busy() < 0.5);
}

/// Its stream would otherwise remain, with all its resources, as long as its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answers_nobody_takes_ends_with_its_time() {
    // Compiles have more time.
    let (_data, runner, client) = serving("[runner]\ncall_ms_max = 2000\ndeadline_ms_max = 2000\n").await;
    let run = inline(&guests::bytes("debug-imc").unwrap(), &[], Tier::Interpreter);
    let start = v1::SessionStart { script: run.script, tier: run.tier, ..Default::default() };
    let inputs = (0..64).map(|id| Message::Input(v1::SessionInput { id, input: Some(input("20000")) }));
    let messages: Vec<_> = std::iter::once(Message::Start(start)).chain(inputs).map(message).collect();
    let messages = tokio_stream::iter(messages).chain(tokio_stream::pending());
    let answers = client.runner.clone().execute_session(messages).await.unwrap();
    let names = ["calls_in_progress", "request_bytes", "workers_busy{role=\"run\"}"];
    let held = || names.map(|name| runner.metric(&format!("antares_{name}")));
    until("answers wait", || held()[1] > 1e6);
    until("all is free", || held() == [0.0; 3]);
    assert_eq!(runner.metric("antares_connections_closed_total{listener=\"grpc\",reason=\"unread\"}"), 1.0);
    drop(answers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_without_a_word_frees_its_worker() {
    let sections = "[tuned]\nkeepalive_interval_ms = 300\nkeepalive_timeout_ms = 300\n";
    let (_data, server, client) = serving(sections).await;
    client.execute(endless(1)).await.unwrap();
    let link = Link::to(&server.address).await;
    let client = Client::connect_to(&link.address).await.unwrap();
    let call = tokio::spawn(async move { client.execute(endless(50_000)).await });
    server.busy_worker("antares-run-worker");
    // Pings are answered while the link works.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(server.busy() > 0.5);
    let since = Instant::now();
    // Neither end hears from the other, or learns that it is gone.
    link.set(Fault::Silent);
    until("the worker is free", || server.busy() < 0.5);
    // Well before the run ends by itself.
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    call.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_disturbs_nobody() {
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    // Accepts connections and never responds.
    let hang = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = collector.accept().await {
            open.push(stream);
        }
    });
    let (_data, server, client) = serving(&format!("[trace]\nendpoint = \"{endpoint}\"\n")).await;
    let elf = guests::bytes("exit-imc").unwrap();
    let mut took = Vec::new();
    for code in 0..1_000 {
        let asked = Instant::now();
        let answer = client.execute(inline(&elf, &[&(code % 100).to_string()], Tier::Auto)).await.unwrap();
        assert_eq!(exit_code(&answer), Some(code % 100));
        took.push(asked.elapsed());
    }
    let median = percentile(&mut took, 50);
    assert!(median < Duration::from_millis(100), "{median:?}");
    let since = Instant::now();
    drop(client);
    assert_eq!(server.stop(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    hang.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_are_stopped_for_a_while_go_on() {
    let (_data, server, client) = serving("").await;
    let elf = guests::bytes("exit-imc").unwrap();
    client.execute(inline(&elf, &["1"], Tier::Auto)).await.unwrap();
    let zygote = server.zygote("antares-run-worker").unwrap();
    for (what, pid) in [("the server", server.pid()), ("the zygote", zygote)] {
        signal("-STOP", pid);
        // A new tenant needs a new worker, which a zygote must fork.
        let request = of_tenant(&format!("t{pid}"), inline(&elf, &["7"], Tier::Auto));
        let waiting = client.clone();
        let call = tokio::spawn(async move { waiting.execute(request).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!call.is_finished(), "{what} is stopped");
        signal("-CONT", pid);
        assert_eq!(exit_code(&call.await.unwrap().unwrap()), Some(7), "{what}");
    }
    assert!(server.metric("antares_zygote_restarts_total{role=\"run\"}") < 0.5);
}

/// Calls in progress when the server is asked to stop.
const UNDER_WAY: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn no_call_under_way_is_lost_when_the_server_is_stopped() {
    let sections = "[listen]\ndrain_delay_ms = 50\ndrain_grace_ms = 10000\n[runner]\nworkers_max = 8\n";
    let data = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let server = Server::start_with(&data, sections);
        let client = Client::connect(&server).await;
        client.execute(endless(1)).await.unwrap();
        let calls = tokio::spawn(async move {
            futures_util::future::join_all((0..UNDER_WAY).map(|_| client.execute(endless(600)))).await
        });
        until("all run", || server.busy() > UNDER_WAY as f64 - 0.5);
        // A silent connection, and one that is silent after its preface.
        let silent = TcpStream::connect(&server.address).await.unwrap();
        let idle = Client::connect(&server).await;
        let since = Instant::now();
        assert_eq!(server.stop(), Some(0));
        for answer in calls.await.unwrap() {
            let verdict = answer.unwrap().verdict.unwrap();
            assert_eq!(verdict.outcome(), Outcome::DeadlineExceeded, "round {round}");
        }
        assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        drop((silent, idle));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_end_has_a_status_before_the_process_ends() {
    let sections = "[listen]\ndrain_delay_ms = 0\ndrain_grace_ms = 2000\n";
    let (_data, server, client) = serving(sections).await;
    let inputs = tokio_stream::pending::<v1::ExecuteSessionRequest>();
    let mut session = client.runner.clone().execute_session(inputs).await.unwrap().into_inner();
    let run = tokio::spawn(async move { client.execute(endless(600_000)).await.unwrap_err() });
    until("it runs", || server.busy() > 0.5);
    assert_eq!(server.stop(), Some(0));
    for status in [run.await.unwrap(), session.message().await.unwrap_err()] {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the server stops: resume with another one what has no answer")
        );
    }
}
