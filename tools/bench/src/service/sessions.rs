//! Sessions of different transactions, each with its own signature, compared with embedded ckb-script.

use std::time::{Duration, Instant};

use antares_proto::v1::{
    self, runner_service_client::RunnerServiceClient, shared_transaction_result, verify_session_request,
    verify_session_response::Message,
};
use antares_tests::locks;
use anyhow::{Result, bail, ensure};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::{
    Results,
    server::Server,
    transactions::{ROUNDS, THREADS, check, common, library, sharing, upload},
};

/// Number of signed transactions; sessions send them repeatedly.
const TRANSACTIONS: u64 = 1_000;
/// Numbers of concurrent sessions.
const SESSIONS: [usize; 3] = [1, 2, 64];
/// Maximum unanswered transactions of one session.
const AHEAD: u32 = 256;

pub(super) async fn measure(
    server: &Server,
    channel: &Channel,
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let mocks = locks::distinct(TRANSACTIONS)?;
    upload(channel, &mocks[0]).await?;
    let transactions: Vec<_> = mocks.iter().zip(0..).map(|(mock, id)| sharing(mock, id)).collect();
    let start = common(&mocks[0]);
    // Warm up until the last tier is available and all slots of the server have it.
    session(channel, &start, &transactions, Instant::now() + time * 3).await?;
    let (mut embedded, mut served, mut used) = ([0.0; THREADS.len()], [0.0; SESSIONS.len()], 0.0);
    for _ in 0..ROUNDS {
        for (threads, sum) in THREADS.iter().zip(&mut embedded) {
            *sum += tokio::task::block_in_place(|| library(&mocks, *threads, time))?;
        }
        for (&count, sum) in SESSIONS.iter().zip(&mut served) {
            let (before, began) = (server.processor_seconds(), Instant::now());
            let sessions = (0..count).map(|_| session(channel, &start, &transactions, began + time));
            let counts = futures_util::future::try_join_all(sessions).await?;
            let made = counts.iter().sum::<u64>() as f64;
            *sum += made / began.elapsed().as_secs_f64();
            if count == 1 {
                used += (server.processor_seconds() - before) * 1e6 / made;
            }
        }
    }
    results.rates(THREADS, embedded, |threads| format!("distinct_library_{threads}_threads"));
    results.rates(SESSIONS, served, |count| format!("distinct_sessions_{count}"));
    results.record("distinct_sessions_64_over_1", served[SESSIONS.len() - 1] / served[0], "");
    results.record("distinct_server_cpu_us".to_owned(), used / f64::from(ROUNDS), "");
    let best = served.into_iter().fold(f64::NAN, f64::max);
    results.record("distinct_over_library".to_owned(), best / embedded[THREADS.len() - 1], "");
    Ok(())
}

/// Number of verdicts of a session that sends until `end`.
async fn session(
    channel: &Channel,
    start: &v1::VerifyShared,
    transactions: &[v1::SharedTransaction],
    end: Instant,
) -> Result<u64> {
    let (sender, receiver) = mpsc::channel(AHEAD as usize);
    let message = |message| v1::VerifySessionRequest { message: Some(message) };
    sender.send(message(verify_session_request::Message::Start(start.clone()))).await?;
    let mut client = RunnerServiceClient::new(channel.clone());
    let mut answers = client.verify_session(ReceiverStream::new(receiver)).await?.into_inner();
    let Some(Message::Started(started)) = answers.message().await?.and_then(|answer| answer.message) else {
        bail!("a session did not start");
    };
    let ahead = u64::from(started.transactions_max.min(AHEAD));
    let (mut sent, mut reported) = (0, 0);
    loop {
        while sent - reported < ahead && Instant::now() < end {
            let at = usize::try_from(sent)? % transactions.len();
            let next = v1::SharedTransaction { id: sent, ..transactions[at].clone() };
            sender.send(message(verify_session_request::Message::Transaction(next))).await?;
            sent += 1;
        }
        if reported == sent {
            return Ok(reported);
        }
        let answer = answers.message().await?.and_then(|answer| answer.message);
        let Some(Message::Result(result)) = answer else { bail!("{answer:?}") };
        ensure!(result.id < sent);
        match &result.result {
            Some(shared_transaction_result::Result::Response(response)) => check(response)?,
            other => bail!("{other:?}"),
        }
        reported += 1;
    }
}
