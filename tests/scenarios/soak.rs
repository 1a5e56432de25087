//! Mixed load for a long time, with occasional faults: no growth, no wrong answer, and the server's counts
//! equal the callers'.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use antares_proto::v1::{self, Tier};
use antares_tests::{generate::Random, guests};
use tonic::{Code, Status};

use crate::{
    batches::batch,
    client::{Client, exit_code, inline, of_tenant, reason},
    server::{Server, signal, until},
};

/// Duration in seconds; an hour by default.
const SECONDS: &str = "ANTARES_SOAK_SECONDS";
/// Inputs of a batch.
const BATCH: usize = 64;
/// Interval between samples of the server.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Total results of all callers.
#[derive(Default)]
struct Met {
    over: AtomicBool,
    /// Answers with a verdict to calls of one execution.
    executed: AtomicU64,
    /// Runs of batches.
    batched: AtomicU64,
    /// Calls that were correctly refused.
    refused: AtomicU64,
    /// Calls whose worker was killed.
    lost: AtomicU64,
    wrong: AtomicU64,
}

impl Met {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn count(&self, what: &AtomicU64, many: u64) {
        what.fetch_add(many, Ordering::Relaxed);
    }

    /// Records a failed call.
    fn record(&self, status: &Status) {
        let is_lost = status.code() == Code::Unavailable && reason(status) == "WORKER_LOST";
        if !is_lost {
            println!("wrong: {status}");
        }
        self.count(if is_lost { &self.lost } else { &self.wrong }, 1);
    }
}

/// Runs `guest` repeatedly for a tenant, and checks its result; reconnects occasionally.
async fn run(address: String, met: Arc<Met>, (guest, tier, tenant): (&str, Tier, &str), pause: Duration) {
    let elf = guests::bytes(guest).unwrap();
    let is_echo = guest.starts_with("exit");
    let mut client = Client::connect_to(&address).await.unwrap();
    let mut round = 0_u32;
    while met.goes_on() {
        round += 1;
        if round.is_multiple_of(500) {
            client = Client::connect_to(&address).await.unwrap();
        }
        let argument = if is_echo { round % 100 } else { 1 };
        let request = of_tenant(tenant, inline(&elf, &[&argument.to_string()], tier));
        let expected = if is_echo { i32::try_from(argument).unwrap() } else { 0 };
        match client.execute(request).await {
            Ok(answer) if exit_code(&answer) == Some(expected) => met.count(&met.executed, 1),
            Ok(answer) => {
                println!("wrong: {answer:?}");
                met.count(&met.wrong, 1);
            }
            Err(status) => met.record(&status),
        }
        tokio::time::sleep(pause).await;
    }
}

async fn batches(address: String, met: Arc<Met>) {
    let args: Vec<_> = (0..BATCH).map(|index| index.to_string()).collect();
    let request = batch(&guests::bytes("exit-imc").unwrap(), &args, Tier::Auto);
    let mut client = Client::connect_to(&address).await.unwrap();
    while met.goes_on() {
        match client.runner.execute_batch(request.clone()).await {
            Ok(answer) => {
                let results = answer.into_inner().results;
                let code =
                    |result: &v1::BatchResult| result.verdict.as_ref().and_then(|verdict| verdict.exit_code);
                // A worker killed during a batch leaves results without a verdict.
                let without = results.iter().filter(|result| code(result).is_none()).count();
                let right =
                    (0..).zip(&results).filter(|(index, result)| code(result) == Some(*index)).count();
                met.count(&met.batched, right as u64);
                met.count(&met.wrong, (BATCH - right - without) as u64);
            }
            Err(status) => met.record(&status),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Invalid calls, and calls whose client disconnects.
async fn trouble(address: String, met: Arc<Met>) {
    let client = Client::connect_to(&address).await.unwrap();
    let endless = guests::bytes("attack-loop-call").unwrap();
    while met.goes_on() {
        let rubbish = inline(&[0x7f; 300], &[], Tier::Native);
        match client.execute(rubbish).await {
            Err(status) if [Code::InvalidArgument, Code::FailedPrecondition].contains(&status.code()) => {
                met.count(&met.refused, 1);
            }
            Err(status) => met.record(&status),
            Ok(answer) => {
                println!("wrong: {answer:?}");
                met.count(&met.wrong, 1);
            }
        }
        let call = client.execute(inline(&endless, &[], Tier::Native));
        let _ = tokio::time::timeout(Duration::from_millis(30), call).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Occasionally kills a worker or a zygote.
async fn faults(server: &Server, met: &Met, seconds: u64) -> (u64, Vec<[u64; 5]>) {
    let (mut random, mut kills, mut looks) = (Random::new(3), 0, Vec::new());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        tokio::time::sleep(LOOK_EVERY).await;
        let (zygotes, workers) = server.family();
        let [open, files, threads, memory] = server.possessions();
        looks.push([open, files, threads, memory, workers.len() as u64]);
        let victims = if random.below(10) == 0 { zygotes } else { workers };
        if !victims.is_empty() {
            signal("-KILL", random.pick(&victims));
            kills += 1;
        }
        if looks.len() % 30 == 0 {
            let executed = met.executed.load(Ordering::Relaxed);
            println!("{} s: {:?}, {executed} executed", looks.len() * 2, looks.last().unwrap());
        }
    }
    (kills, looks)
}

/// Median of one sampled value.
fn median(looks: &[[u64; 5]], what: usize) -> u64 {
    let mut values: Vec<u64> = looks.iter().map(|look| look[what]).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

async fn soak(seconds: u64) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let (met, address) = (Arc::<Met>::default(), server.address.clone());
    let mut callers = Vec::new();
    for (what, pause_ms) in [
        (("exit-imc", Tier::Auto, "a"), 0),
        (("exit-imc", Tier::Auto, "b"), 1),
        (("exit-b", Tier::Native, "b"), 5),
        (("exit-imc", Tier::Interpreter, "c"), 10),
        (("secp256k1-imc", Tier::Auto, "d"), 50),
    ] {
        callers.push(tokio::spawn(run(address.clone(), met.clone(), what, Duration::from_millis(pause_ms))));
    }
    callers.push(tokio::spawn(batches(address.clone(), met.clone())));
    callers.push(tokio::spawn(trouble(address.clone(), met.clone())));
    let (kills, looks) = faults(&server, &met, seconds).await;
    met.over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let [executed, batched, refused, lost, wrong] =
        [&met.executed, &met.batched, &met.refused, &met.lost, &met.wrong]
            .map(|count| count.load(Ordering::Relaxed));
    println!(
        "{seconds} s: {executed} executed, {batched} in batches, {refused} refused, {kills} kills, {lost} lost, {wrong} wrong"
    );
    assert_eq!(wrong, 0);
    assert!(executed > 20 * seconds && batched > 0 && refused > 0, "{executed} {batched} {refused}");
    // A zygote's death may cost as many calls as there are callers.
    assert!(lost <= 8 * kills, "{lost} lost by {kills} kills");
    let counted = server.metric("antares_executions_total{outcome=\"exit\"}");
    let reported = (executed + batched) as f64;
    // Answers include the completed runs of a batch whose worker was killed; an answer is lost only with its
    // caller.
    assert!((counted - reported).abs() < 0.5, "{counted} {reported}");
    flat(&looks);
    until("nobody is busy", || server.busy() < 0.5);
    assert_eq!(server.stop(), Some(0));
    let left = std::fs::read_dir(Server::temporary(&data)).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.path().is_file()).count(), 0, "temporary files are left");
}

/// The last quarter must equal the second one; the first includes compiles and start-up effects.
fn flat(looks: &[[u64; 5]]) {
    let quarter = looks.len() / 4;
    let (early, late) = (&looks[quarter..2 * quarter], &looks[looks.len() - quarter..]);
    let names = ["descriptors", "memory files", "threads", "KiB resident", "workers"];
    for (what, name) in names.into_iter().enumerate() {
        let (early, late) = (median(early, what), median(late, what));
        let room = if name == "KiB resident" { early / 10 + (16 << 10) } else { 24 };
        assert!(late <= early + room, "{name}: {early} early, {late} late");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_while_of_everything_leaves_the_server_as_it_was() {
    soak(16).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes an hour, or as long as ANTARES_SOAK_SECONDS says"]
async fn an_hour_of_everything_leaves_the_server_as_it_was() {
    let seconds = std::env::var(SECONDS).map_or(3600, |text| text.parse().expect("a number of seconds"));
    soak(seconds).await;
}
