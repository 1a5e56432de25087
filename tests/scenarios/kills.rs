//! Processes killed with SIGKILL under load: only the owner's call fails, with a clear status, and the next
//! one works.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use antares_proto::v1::Tier;
use antares_tests::guests;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::{
    client::{Client, exit_code, inline, is, serving, stored},
    server::{Server, eventually, signal, until},
};

/// Failed calls after which a caller gives up: a server that is gone fails calls faster than memory can hold
/// them.
const STATUSES_MAX: usize = 64;

const CALLERS: u32 = 2;
/// Number of zygotes to kill.
const KILLS: u32 = 3;

/// Callers that run a small script until stopped; each returns its number of answers and its error statuses.
struct Load {
    stop: Arc<AtomicBool>,
    /// Completed calls.
    ended: Arc<AtomicU32>,
    callers: Vec<JoinHandle<(u32, Vec<Status>)>>,
}

impl Load {
    fn start(client: &Client, elf: &[u8]) -> Self {
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let start = |_| {
            let (client, elf) = (client.clone(), elf.to_vec());
            let (stop, ended) = (stop.clone(), ended.clone());
            tokio::spawn(async move {
                let (mut answers, mut statuses) = (0, Vec::new());
                while !stop.load(Ordering::Relaxed) && statuses.len() < STATUSES_MAX {
                    match client.execute(stored(&elf, &["5"], Tier::Native)).await {
                        Ok(answer) => {
                            assert_eq!(exit_code(&answer), Some(5));
                            answers += 1;
                        }
                        Err(status) => statuses.push(status),
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                }
                (answers, statuses)
            })
        };
        let callers = (0..CALLERS).map(start).collect();
        Self { stop, ended, callers }
    }

    async fn end(self) -> (u32, Vec<Status>) {
        // The event under test may be over before the first call completes.
        let is_ended = async || {
            self.ended.load(Ordering::Relaxed) > 0 || self.callers.iter().all(JoinHandle::is_finished)
        };
        eventually("a call has ended", is_ended).await;
        self.stop.store(true, Ordering::Relaxed);
        let (mut answers, mut statuses) = (0, Vec::new());
        for caller in self.callers {
            let (count, failed) = caller.await.unwrap();
            answers += count;
            statuses.extend(failed);
        }
        (answers, statuses)
    }
}

/// A server with a small script stored and compiled.
async fn ready() -> (TempDir, Server, Client, Vec<u8>) {
    let (data, server, client) = serving("").await;
    let elf = guests::bytes("exit-imc").unwrap();
    client.upload(&elf).await.unwrap();
    client.execute(stored(&elf, &["5"], Tier::Native)).await.unwrap();
    (data, server, client, elf)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_compile_worker_fails_no_run() {
    let (_data, server, client, elf) = ready().await;
    // A full compile takes seconds. If either compile is killed, the baseline's or the full one, the other
    // still produces native code.
    let large = guests::bytes("secp256k1-imc").unwrap();
    let request = inline(&large, &["1"], Tier::Native);
    let (other, owned) = (client.clone(), request.clone());
    let owner = tokio::spawn(async move { other.execute(owned).await });
    let victim = server.busy_worker("antares-compile-worker");
    let load = Load::start(&client, &elf);
    signal("-KILL", victim);
    assert_eq!(exit_code(&owner.await.unwrap().unwrap()), Some(0));
    let (answers, statuses) = load.end().await;
    assert!(statuses.is_empty() && answers > 0, "{answers} answers, {statuses:?}");
    assert_eq!(exit_code(&client.execute(request).await.unwrap()), Some(0));
}

/// A script whose compiles kill their workers is refused after the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_loses_two_workers_is_refused() {
    let (_data, server, client, _) = ready().await;
    let large = guests::bytes("secp256k1-imc").unwrap();
    client.upload(&large).await.unwrap();
    for _ in 0..2 {
        let kill = async {
            tokio::task::block_in_place(|| signal("-KILL", server.busy_worker("antares-compile-worker")))
        };
        let (compiled, ()) = tokio::join!(client.compile(&large), kill);
        is(&compiled.unwrap_err(), Code::Unavailable, "WORKER_LOST");
    }
    is(&client.compile(&large).await.unwrap_err(), Code::FailedPrecondition, "COMPILE_LOST");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_zygote_fails_only_the_calls_of_its_workers() {
    let (_data, server, client, elf) = ready().await;
    let load = Load::start(&client, &elf);
    for round in 1..=KILLS {
        signal("-KILL", server.zygote("antares-run-worker").expect("a zygote runs"));
        until("the loss is noticed", || {
            server.metric("antares_zygote_restarts_total{role=\"run\"}") >= f64::from(round)
        });
        // The next call waits for the next zygote.
        assert_eq!(exit_code(&client.execute(stored(&elf, &["5"], Tier::Native)).await.unwrap()), Some(5));
    }
    let (answers, statuses) = load.end().await;
    statuses.iter().for_each(|status| is(status, Code::Unavailable, "WORKER_LOST"));
    // Only calls in progress may have failed.
    assert!(statuses.len() <= (KILLS * CALLERS) as usize && answers > 0, "{answers} answers, {statuses:?}");
}
