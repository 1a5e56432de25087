//! One script with many inputs, in batches and sessions: each run is independent. Also clients that
//! disconnect.

use std::time::{Duration, Instant};

use antares_proto::v1::{
    self, CacheUse, Outcome, Tier, execute_session_request::Message,
    execute_session_response::Message as Answer,
};
use antares_tests::guests;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Code, Streaming};

use crate::{
    client::{Client, exit_code, inline, is, serving, stored},
    server::{PATIENCE, until},
};

/// Inputs of the batch.
const INPUTS: usize = 200;
/// Inputs of the session: more than may be pending.
const SESSION_INPUTS: u64 = 1000;
/// Clients that disconnect, one after another.
const LEAVERS: usize = 15;
/// Maximum median lifetime of a worker after its client disconnects.
const FREE_WITHIN: Duration = Duration::from_millis(100);

fn script(elf: &[u8]) -> Option<v1::Script> {
    inline(elf, &[], Tier::Auto).script
}

pub(crate) fn input(arg: &str) -> v1::Input {
    v1::Input { args: vec![Bytes::copy_from_slice(arg.as_bytes())] }
}

pub(crate) fn batch(elf: &[u8], args: &[String], tier: Tier) -> v1::ExecuteBatchRequest {
    v1::ExecuteBatchRequest {
        script: script(elf),
        inputs: args.iter().map(|arg| input(arg)).collect(),
        tier: tier.into(),
        ..v1::ExecuteBatchRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_as_many_executions() {
    let (_data, _server, mut client) = serving("").await;
    let elf = guests::bytes("fib-imc").unwrap();
    client.upload(&elf).await.unwrap();
    let args: Vec<String> = (0..INPUTS).map(|number| (number % 25).to_string()).collect();
    for tier in [Tier::Native, Tier::Interpreter] {
        client.execute(stored(&elf, &["1"], tier)).await.unwrap();
        let together = client.runner.execute_batch(batch(&elf, &args, tier)).await.unwrap().into_inner();
        assert_eq!((together.results.len(), together.fallback.as_str()), (INPUTS, ""));
        let expected = if tier == Tier::Native { CacheUse::Hit } else { CacheUse::None };
        assert_eq!(together.artifact.as_ref().unwrap().cache(), expected);
        for (arg, result) in args.iter().zip(together.results) {
            let alone = client.execute(stored(&elf, &[arg], tier)).await.unwrap();
            assert_eq!((&alone.verdict, &alone.tiers), (&result.verdict, &result.tiers), "{arg}");
            assert_eq!(alone.verdict.unwrap().outcome(), Outcome::Exit);
        }
    }
}

pub(crate) fn message(message: Message) -> v1::ExecuteSessionRequest {
    v1::ExecuteSessionRequest { message: Some(message) }
}

fn start(elf: &[u8], limits: Option<v1::RunLimits>) -> v1::ExecuteSessionRequest {
    let start = v1::SessionStart { script: script(elf), limits, ..Default::default() };
    message(Message::Start(start))
}

fn session_input(id: u64, arg: &str) -> v1::ExecuteSessionRequest {
    message(Message::Input(v1::SessionInput { id, input: Some(input(arg)) }))
}

/// A started session, and the sender of its inputs.
pub(crate) async fn session(
    client: &Client,
    first: v1::ExecuteSessionRequest,
) -> (mpsc::Sender<v1::ExecuteSessionRequest>, Streaming<v1::ExecuteSessionResponse>) {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(first).await.unwrap();
    let answers = client.runner.clone().execute_session(ReceiverStream::new(receiver)).await.unwrap();
    (sender, answers.into_inner())
}

/// The answer to the start of a session.
pub(crate) async fn begun(answers: &mut Streaming<v1::ExecuteSessionResponse>) -> v1::SessionStarted {
    match answers.message().await.unwrap().unwrap().message {
        Some(Answer::Started(started)) => started,
        other => panic!("not started: {other:?}"),
    }
}

#[track_caller]
fn result(answer: Option<v1::ExecuteSessionResponse>) -> (u64, v1::Verdict) {
    let Some(Answer::Result(result)) = answer.and_then(|answer| answer.message) else { panic!("no result") };
    (result.id, result.result.unwrap().verdict.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_in_order() {
    let (_data, _server, client) = serving("").await;
    let elf = guests::bytes("exit-imc").unwrap();
    let (inputs, mut answers) = session(&client, start(&elf, None)).await;
    assert_eq!(begun(&mut answers).await.fallback, "");
    // One after another, each answered before the next is sent.
    for id in [7, 3] {
        inputs.send(session_input(id, "9")).await.unwrap();
        let (answered, verdict) = result(answers.message().await.unwrap());
        assert_eq!((answered, verdict.exit_code), (id, Some(9)));
    }
    // All at once, while answers are read.
    let send = tokio::spawn(async move {
        for id in 0..SESSION_INPUTS {
            inputs.send(session_input(id, &(id % 100).to_string())).await.unwrap();
        }
    });
    for id in 0..SESSION_INPUTS {
        let (answered, verdict) = result(answers.message().await.unwrap());
        assert_eq!((answered, verdict.exit_code), (id, Some(i32::try_from(id % 100).unwrap())));
    }
    send.await.unwrap();
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_makes_no_sense_is_reported() {
    let (_data, _server, client) = serving("").await;
    let elf = guests::bytes("exit-imc").unwrap();
    let (_inputs, mut answers) = session(&client, session_input(1, "1")).await;
    is(&answers.message().await.unwrap_err(), Code::InvalidArgument, "REQUEST_INVALID");
    // Earlier inputs are answered.
    let (inputs, mut answers) = session(&client, start(&elf, None)).await;
    inputs.send(session_input(5, "5")).await.unwrap();
    inputs.send(start(&elf, None)).await.unwrap();
    begun(&mut answers).await;
    assert_eq!(result(answers.message().await.unwrap()).1.exit_code, Some(5));
    is(&answers.message().await.unwrap_err(), Code::InvalidArgument, "REQUEST_INVALID");
    // A silent client has its time, and then gets an error.
    let messages = tokio_stream::once(start(&elf, None)).chain(tokio_stream::pending());
    let mut request = tonic::Request::new(messages);
    request.set_timeout(Duration::from_millis(700));
    let mut answers = client.runner.clone().execute_session(request).await.unwrap().into_inner();
    begun(&mut answers).await;
    let status = answers.message().await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
}

/// Limits under which only the client can stop an endless script.
fn endless_limits() -> v1::RunLimits {
    v1::RunLimits { max_cycles: Some(1_000_000_000_000), deadline_ms: Some(60_000), debug_bytes_max: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_go_away_free_their_workers_at_once() {
    let (_data, server, client) = serving("").await;
    let elf = guests::bytes("attack-loop-call").unwrap();
    // Compiles it.
    let mut request = inline(&elf, &[], Tier::Native);
    request.limits = Some(v1::RunLimits { max_cycles: Some(1000), ..v1::RunLimits::default() });
    client.execute(request.clone()).await.unwrap();
    request.limits = Some(endless_limits());
    let mut whole = batch(&elf, &["".into(), "".into()], Tier::Native);
    whole.limits = Some(endless_limits());
    let mut took = Vec::new();
    for round in 0..LEAVERS {
        let (mut other, request, whole) = (client.clone(), request.clone(), whole.clone());
        let (inputs, receiver) = mpsc::channel(2);
        let call = tokio::spawn(async move {
            match round % 3 {
                0 => drop(other.execute(request).await),
                1 => drop(other.runner.execute_batch(whole).await),
                _ => {
                    let answers = other.runner.execute_session(ReceiverStream::new(receiver)).await;
                    let mut answers = answers.unwrap().into_inner();
                    while answers.message().await.is_ok_and(|answer| answer.is_some()) {}
                }
            }
        });
        // Only a session accepts these messages.
        let _ = inputs.send(start(&elf, Some(endless_limits()))).await;
        let _ = inputs.try_send(session_input(1, ""));
        server.busy_worker("antares-run-worker");
        let left = Instant::now();
        call.abort();
        // A client that has disconnected sends nothing either.
        drop(inputs);
        while server.busy() > 0.5 {
            assert!(left.elapsed() < PATIENCE, "a worker lives on without its caller");
        }
        took.push(left.elapsed());
    }
    println!("executions, batches and sessions in turn: {took:?}");
    took.sort();
    assert!(took[LEAVERS / 2] < FREE_WITHIN, "{took:?}");
    let small = guests::bytes("exit-imc").unwrap();
    assert_eq!(exit_code(&client.execute(inline(&small, &["3"], Tier::Native)).await.unwrap()), Some(3));
    until("no call is left", || server.metric("antares_calls_in_progress") < 0.5);
}
