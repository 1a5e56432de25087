//! The attacks of one hostile client all at once, for as long as is asked for, while another client makes a
//! trivial call again and again: nothing ends the process, its memory stays within what the chart gives it,
//! and the other one gets its answers.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use antares_proto::v1::{
    self, Tier, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    upload_request::Part,
};
use antares_tests::guests;
use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{
    admission::{GREEDY, connect, half_sent, idle_connection, junk, modest_call},
    client::inline,
    server::Server,
};

/// Resident memory of the service process, bytes: some four times what was measured (234 to 287 MiB), and
/// less than half of what half-sent bodies alone took before there were budgets (2.6 GB).
const MEMORY_MAX: u64 = 1 << 30;

/// What the chart gives a runner pod with its defaults, bytes: the server under siege is a compiler as well.
const POD_BYTES: u64 = 1664 << 20;

/// Budgets as the chart sets them for a small pod.
const SECTIONS: &str = "[listen]\nrequest_bytes_max = 134217728\n[cache]\nbudget_bytes = 268435456\n";

/// Pause between two calls of the modest client.
const CALL_PAUSE: Duration = Duration::from_millis(50);

/// The siege: one flag for its end, and how often each attack was made.
#[derive(Default)]
struct Siege {
    is_over: AtomicBool,
    rounds: [AtomicU64; 6],
}

impl Siege {
    /// Repeats attack `number` until the siege is over; each round drops what it held.
    async fn repeat(&self, number: usize, attack: impl AsyncFn()) {
        while !self.is_over.load(Ordering::Relaxed) {
            // One that is held up for long begins anew, as a client would that is out for harm.
            let _ = timeout(Duration::from_secs(20), attack()).await;
            self.rounds[number - 1].fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// 1: bodies of 20 MiB, half a megabyte short.
async fn half_bodies(server: &Server) {
    let (mut open, mut channels) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut channel = connect(server, GREEDY).await;
        for _ in 0..32 {
            open.push(half_sent(&mut channel, 20 << 20, 39 << 19).await);
        }
        channels.push(channel);
    }
    sleep(Duration::from_secs(3)).await;
}

/// 2: idle sessions.
async fn idle_sessions(server: &Server) {
    let (mut open, mut channels) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let channel = connect(server, GREEDY).await;
        for _ in 0..205 {
            let (sender, receiver) = mpsc::channel::<v1::ExecuteSessionRequest>(1);
            let mut runner = RunnerServiceClient::new(channel.clone());
            open.extend(
                runner
                    .execute_session(ReceiverStream::new(receiver))
                    .await
                    .ok()
                    .map(|answers| (sender, answers)),
            );
        }
        channels.push(channel);
    }
    sleep(Duration::from_secs(2)).await;
}

/// 3: idle connections.
async fn idle_connections(server: &Server) {
    let address = server.address.parse().unwrap();
    let mut idle = Vec::new();
    for _ in 0..1_100 {
        idle.extend(idle_connection(address).await);
    }
    sleep(Duration::from_secs(2)).await;
}

/// Uploads `bytes` in chunks of 64 KiB.
async fn upload(channel: Channel, bytes: Vec<u8>) {
    let sha256 = antares_abi::Sha256Digest::of(&bytes).to_string();
    let header =
        Part::Header(v1::BlobHeader { sha256, size_bytes: bytes.len() as u64, ..Default::default() });
    let bytes = Bytes::from(bytes);
    let chunks = (0..bytes.len()).step_by(64 << 10);
    let chunks =
        chunks.map(move |start| Part::Chunk(bytes.slice(start..bytes.len().min(start + (64 << 10)))));
    let parts = std::iter::once(header).chain(chunks).map(|part| v1::UploadRequest { part: Some(part) });
    // Its answer is of no interest.
    drop(CompilerServiceClient::new(channel).upload(tokio_stream::iter(parts)).await);
}

/// 4 and 5: large junk, `parallel` at once.
async fn uploads(server: &Server, parallel: u8, seed: &AtomicU64) {
    let channel = connect(server, GREEDY).await;
    let uploads: Vec<_> = (0..parallel)
        .map(|_| {
            let mut bytes = junk(7, 16 << 20);
            bytes[64..72].copy_from_slice(&seed.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            tokio::spawn(upload(channel.clone(), bytes))
        })
        .collect();
    for upload in uploads {
        upload.await.unwrap();
    }
}

/// 6: many small scripts, uploaded and inline.
async fn small_scripts(server: &Server, seed: &AtomicU64) {
    let channel = connect(server, GREEDY).await;
    for _ in 0..200 {
        let mut bytes = junk(0, 80);
        bytes[64..72].copy_from_slice(&seed.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        drop(RunnerServiceClient::new(channel.clone()).execute(inline(&bytes, &[], Tier::Interpreter)).await);
        upload(channel.clone(), bytes).await;
    }
}

/// Besieges a server for `time`; gives how long the other client's calls took, in order.
async fn besiege(server: &Server, time: Duration) -> Vec<Duration> {
    let (siege, seed) = (Siege::default(), AtomicU64::new(0));
    let modest = async {
        let until = Instant::now() + time;
        let mut took = Vec::new();
        let elf = guests::bytes("exit-imc").unwrap();
        let mut runner = RunnerServiceClient::new(connect(server, crate::admission::MODEST).await);
        while Instant::now() < until {
            let asked = Instant::now();
            let answer =
                timeout(Duration::from_secs(5), runner.execute(inline(&elf, &["7"], Tier::Interpreter)))
                    .await;
            let answer = answer.expect("an answer in time").expect("an answer");
            assert_eq!(crate::client::exit_code(answer.get_ref()), Some(7));
            took.push(asked.elapsed());
            sleep(CALL_PAUSE).await;
        }
        // A new connection finds its place as well.
        modest_call(server).await;
        siege.is_over.store(true, Ordering::Relaxed);
        took
    };
    let ((), (), (), (), (), (), mut took) = tokio::join!(
        siege.repeat(1, async || half_bodies(server).await),
        siege.repeat(2, async || idle_sessions(server).await),
        siege.repeat(3, async || idle_connections(server).await),
        siege.repeat(4, async || uploads(server, 2, &seed).await),
        siege.repeat(5, async || uploads(server, 16, &seed).await),
        siege.repeat(6, async || small_scripts(server, &seed).await),
        modest,
    );
    let rounds = siege.rounds.each_ref().map(|rounds| rounds.load(Ordering::Relaxed));
    println!("rounds of each attack: {rounds:?}");
    took.sort();
    took
}

/// Puts the server with its workers into a memory cgroup of its own below `ANTARES_SIEGE_CGROUP`, a folder of
/// the controller, if that is set; gives where its kills are counted.
fn enclose(server: &Server) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("ANTARES_SIEGE_CGROUP")?).join("antares-siege");
    fs::create_dir_all(&folder).expect("a cgroup");
    let limit = ["memory.max", "memory.limit_in_bytes"].map(|name| folder.join(name));
    let limit = limit.iter().find(|path| path.exists()).expect("the memory controller");
    let (zygotes, workers) = server.family();
    // Its children from then on are born into it.
    for pid in [server.pid()].into_iter().chain(zygotes).chain(workers) {
        let _ = fs::write(folder.join("cgroup.procs"), pid.to_string());
    }
    fs::write(limit, POD_BYTES.to_string()).expect("a limit");
    let events = ["memory.events", "memory.oom_control"].map(|name| folder.join(name));
    events.into_iter().find(|path| path.exists())
}

/// Checks what holds however busy the machine is; gives the 99th percentile.
async fn stands(time: Duration) -> Duration {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, SECTIONS);
    modest_call(&server).await;
    let cgroup = enclose(&server);
    let took = besiege(&server, time).await;
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    println!(
        "{} calls of the other client: p50 {:?}, p99 {:?}, slowest {:?}; at most {} MiB resident, {} KiB now",
        took.len(),
        at(50),
        at(99),
        at(100),
        server.memory_high() >> 20,
        server.possessions()[3]
    );
    if let Some(events) = cgroup {
        let told = fs::read_to_string(&events).expect("events of the cgroup");
        println!("within {} MiB for server and workers: {}", POD_BYTES >> 20, told.replace('\n', ", "));
        assert!(told.lines().any(|line| line == "oom_kill 0"), "{told}");
    }
    assert!(server.is_live() && server.is_ready());
    assert!(server.memory_high() < MEMORY_MAX, "{} MiB", server.memory_high() >> 20);
    at(99)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_siege_of_all_attacks_at_once_is_survived() {
    stands(Duration::from_secs(15)).await;
}

/// `ANTARES_SIEGE_SECONDS` says for how long, 600 without it. Its attackers take processors as well: it wants
/// a machine with four or more that does nothing else. With `ANTARES_SIEGE_CGROUP`, the folder of a memory
/// controller, it is held within a pod's memory.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten minutes, and a promise about time that holds on an idle machine"]
async fn under_siege_another_client_s_call_takes_250_ms_at_most() {
    let seconds = std::env::var("ANTARES_SIEGE_SECONDS").ok().and_then(|text| text.parse().ok());
    let p99 = stands(Duration::from_secs(seconds.unwrap_or(600))).await;
    assert!(p99 <= Duration::from_millis(250), "{p99:?}");
}
