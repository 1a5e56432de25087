//! More than the capacity, and misbehaving peers: bursts, readers that never read, clients that vanish,
//! collectors that hang, processes that stop for a while.

use std::time::{Duration, Instant};

use antares_proto::v1::{
    self, Outcome, Tier, execute_session_request::Message, runner_service_client::RunnerServiceClient,
    script::Source,
};
use antares_tests::guests;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::{
    io::copy,
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::{
    client::{Client, exit_code, inline, of_tenant, reason, serving},
    server::{PATIENCE, Server, signal, until},
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
    client.clone().execute(endless(1)).await.unwrap();
    let before = server.memory_high();
    // Ten times the capacity.
    let burst: Vec<_> = (0..100)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.runner.execute(of_tenant("greedy", endless(200))).await })
        })
        .collect();
    // The other worker is reserved for the earlier tenant.
    until("the queue is full", || server.metric("antares_workers_busy{role=\"run\"}") > 0.5);
    let (small, mut slowest) = (guests::bytes("exit-imc").unwrap(), Duration::ZERO);
    for code in 0..5 {
        let asked = Instant::now();
        let request = of_tenant("modest", inline(&small, &[&code.to_string()], Tier::Interpreter));
        let answer = client.clone().runner.execute(request).await.unwrap().into_inner();
        assert_eq!(exit_code(&answer), Some(code));
        slowest = slowest.max(asked.elapsed());
    }
    let (mut done, mut refused) = (0, 0);
    for call in burst {
        match call.await.unwrap() {
            Ok(answer) => {
                assert_eq!(answer.into_inner().verdict.unwrap().outcome(), Outcome::DeadlineExceeded);
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
    println!("{done} done, {refused} refused; another tenant's slowest call took {slowest:?}");
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
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, "[listen]\ncalls_max = 4\n");
    let endpoint = Channel::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = endpoint.connect().await.unwrap();
    // A concurrent call that lasts as long as the connection.
    let watch = HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let mut elf = guests::bytes("exit-imc").unwrap();
    elf.resize(40_000, 0);
    let request = inline(&elf, &["3"], Tier::Interpreter);
    let calls = futures_util::stream::iter(0..CALLS).map(|_| {
        let (mut client, request) = (RunnerServiceClient::new(channel.clone()), request.clone());
        async move {
            match client.execute(request).await {
                Ok(answer) => assert_eq!(exit_code(answer.get_ref()), Some(3)),
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
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let (reader, other) = (Client::connect(&server).await, Client::connect(&server).await);
    let elf = guests::bytes("debug-imc").unwrap();
    let mut request = inline(&elf, &["1"], Tier::Native);
    other.clone().execute(request.clone()).await.unwrap();
    let before = server.memory_high();
    let (inputs, receiver) = mpsc::channel(1);
    let script = v1::Script { source: Some(Source::Elf(Bytes::from(elf))), options: None };
    let start = v1::SessionStart { script: Some(script), ..v1::SessionStart::default() };
    inputs.send(v1::ExecuteSessionRequest { message: Some(Message::Start(start)) }).await.unwrap();
    let answers = reader.runner.clone().execute_session(ReceiverStream::new(receiver)).await.unwrap();
    // Each answer has some hundred KiB; the client reads none.
    let mut sent = 0;
    loop {
        // Large compared with the network's buffers.
        let input = v1::Input { args: vec![Bytes::from_static(b"20000"), Bytes::from(vec![b'x'; 16 << 10])] };
        let input = Message::Input(v1::SessionInput { id: sent, input: Some(input) });
        let message = v1::ExecuteSessionRequest { message: Some(input) };
        match tokio::time::timeout(Duration::from_secs(1), inputs.send(message)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => break,
        }
        assert!(sent < 5_000, "the server takes everything");
    }
    let grown = server.memory_high() - before;
    println!("{sent} inputs were taken before the server stopped reading; it grew by {} KiB", grown >> 10);
    assert!(grown < GROWTH_BYTES_MAX, "{grown}");
    request.args = vec![Bytes::from_static(b"2")];
    for _ in 0..20 {
        assert_eq!(exit_code(&other.clone().execute(request.clone()).await.unwrap()), Some(0));
    }
    drop(answers);
    until("its worker is free", || server.metric("antares_workers_busy{role=\"run\"}") < 0.5);
}

/// Its stream would otherwise remain, with all its resources, as long as its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answers_nobody_takes_ends_with_its_time() {
    let data = tempfile::tempdir().unwrap();
    // Compiles have more time.
    let runner = Server::start_with(&data, "[runner]\ncall_ms_max = 2000\ndeadline_ms_max = 2000\n");
    let client = Client::connect(&runner).await;
    let elf = Bytes::from(guests::bytes("debug-imc").unwrap());
    let script = v1::Script { source: Some(Source::Elf(elf)), options: None };
    let tier = Tier::Interpreter.into();
    let start = Message::Start(v1::SessionStart { script: Some(script), tier, ..Default::default() });
    let input = v1::Input { args: vec![Bytes::from_static(b"20000")] };
    let inputs = (0..64).map(|id| Message::Input(v1::SessionInput { id, input: Some(input.clone()) }));
    let messages = std::iter::once(start).chain(inputs).collect::<Vec<_>>().into_iter();
    let messages = messages.map(|message| v1::ExecuteSessionRequest { message: Some(message) });
    let messages = tokio_stream::iter(messages).chain(tokio_stream::pending());
    let answers = client.runner.clone().execute_session(messages).await.unwrap();
    let names = ["calls_in_progress", "request_bytes", "workers_busy{role=\"run\"}"];
    let held = || names.map(|name| runner.metric(&format!("antares_{name}")));
    until("answers wait", || held()[1] > 1e6);
    until("all is free", || held() == [0.0; 3]);
    assert_eq!(runner.metric("antares_connections_closed_total{listener=\"grpc\",reason=\"unread\"}"), 1.0);
    drop(answers);
}

/// Forwards bytes between a client and `server` until `cut`; then neither end hears from the other, or learns
/// that it is gone.
async fn middle(server: String, cut: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let mut is_cut = cut.clone();
        tokio::select! {
            _ = copy(&mut from_client, &mut to_server) => {}
            _ = copy(&mut from_server, &mut to_client) => {}
            _ = is_cut.wait_for(|cut| *cut) => {}
        }
        // Both connections stay open.
        tokio::time::sleep(PATIENCE).await;
        drop((from_client, to_client, from_server, to_server));
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_without_a_word_frees_its_worker() {
    let data = tempfile::tempdir().unwrap();
    let server =
        Server::start_with(&data, "[tuned]\nkeepalive_interval_ms = 300\nkeepalive_timeout_ms = 300\n");
    Client::connect(&server).await.execute(endless(1)).await.unwrap();
    let (cut, is_cut) = watch::channel(false);
    let address = middle(server.address.clone(), is_cut).await;
    let mut client = Client::connect_to(&address).await.unwrap();
    let call = tokio::spawn(async move { client.execute(endless(50_000)).await });
    server.busy_worker("antares-run-worker");
    // Pings are answered while the link works.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(server.metric("antares_workers_busy{role=\"run\"}") > 0.5);
    let since = Instant::now();
    cut.send(true).unwrap();
    until("the worker is free", || server.metric("antares_workers_busy{role=\"run\"}") < 0.5);
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
    let (_data, server, mut client) = serving(&format!("[trace]\nendpoint = \"{endpoint}\"\n")).await;
    let elf = guests::bytes("exit-imc").unwrap();
    let mut took = Vec::new();
    for code in 0..1_000 {
        let asked = Instant::now();
        let answer = client.execute(inline(&elf, &[&(code % 100).to_string()], Tier::Auto)).await.unwrap();
        assert_eq!(exit_code(&answer), Some(code % 100));
        took.push(asked.elapsed());
    }
    took.sort();
    println!("median {:?}, longest {:?} with a collector that hangs", took[500], took[999]);
    assert!(took[500] < Duration::from_millis(100), "{:?}", took[500]);
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
    client.clone().execute(inline(&elf, &["1"], Tier::Auto)).await.unwrap();
    let zygote = server.zygote("antares-run-worker").unwrap();
    for (what, pid) in [("the server", server.pid()), ("the zygote", zygote)] {
        signal("-STOP", pid);
        // A new tenant needs a new worker, which a zygote must fork.
        let request = of_tenant(&format!("t{pid}"), inline(&elf, &["7"], Tier::Auto));
        let mut waiting = client.clone();
        let call = tokio::spawn(async move { waiting.runner.execute(request).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!call.is_finished(), "{what} is stopped");
        signal("-CONT", pid);
        assert_eq!(exit_code(&call.await.unwrap().unwrap().into_inner()), Some(7), "{what}");
    }
    assert!(server.metric("antares_zygote_restarts_total{role=\"run\"}") < 0.5);
}

/// Calls in progress when the server is asked to stop.
const UNDER_WAY: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn no_call_under_way_is_lost_when_the_server_is_stopped() {
    let data = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let server = Server::start_with(
            &data,
            "[listen]\ndrain_delay_ms = 50\ndrain_grace_ms = 10000\n[runner]\nworkers_max = 8\n",
        );
        let client = Client::connect(&server).await;
        client.clone().execute(endless(1)).await.unwrap();
        let calls: Vec<_> = (0..UNDER_WAY)
            .map(|_| {
                let mut client = client.clone();
                tokio::spawn(async move { client.execute(endless(600)).await })
            })
            .collect();
        until("all run", || server.metric("antares_workers_busy{role=\"run\"}") > UNDER_WAY as f64 - 0.5);
        // A silent connection, and one that is silent after its preface.
        let silent = TcpStream::connect(&server.address).await.unwrap();
        let idle = Client::connect(&server).await;
        let since = Instant::now();
        assert_eq!(server.stop(), Some(0));
        for call in calls {
            let answer = call.await.unwrap().unwrap();
            assert_eq!(answer.verdict.unwrap().outcome(), Outcome::DeadlineExceeded, "round {round}");
        }
        assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        drop((silent, idle));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_end_has_a_status_before_the_process_ends() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, "[listen]\ndrain_delay_ms = 0\ndrain_grace_ms = 2000\n");
    let client = Client::connect(&server).await;
    let (mut runner, mut other) = (client.runner.clone(), client.clone());
    let run = tokio::spawn(async move { other.execute(endless(600_000)).await.unwrap_err() });
    let inputs = tokio_stream::pending::<v1::ExecuteSessionRequest>();
    let mut session = runner.execute_session(inputs).await.unwrap().into_inner();
    until("it runs", || server.metric("antares_workers_busy{role=\"run\"}") > 0.5);
    assert_eq!(server.stop(), Some(0));
    for status in [run.await.unwrap(), session.message().await.unwrap_err()] {
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the server stops: resume with another one what has no answer")
        );
    }
}
