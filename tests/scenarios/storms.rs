//! Workers, zygotes and whole servers killed at random while callers of several tenants work: no wrong
//! answer, no more calls lost than kills can explain, nothing left behind.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use antares_proto::v1::Tier;
use antares_tests::guests;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::{
    client::{Client, exit_code, inline, reason},
    server::{Server, signal, until},
};

const TENANTS: [&str; 4] = ["a", "b", "c", "d"];
/// Of so many kills one is a zygote's, and one of so many the server's.
const ZYGOTE_ONE_IN: u64 = 10;
const SERVER_ONE_IN: u64 = 50;

/// A generator of numbers that are the same each time (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// One of `processes`, which are not none.
    pub(crate) fn one_of(&mut self, processes: &[u32]) -> u32 {
        processes[usize::try_from(self.below(processes.len() as u64)).unwrap()]
    }
}

/// What callers met.
#[derive(Default)]
struct Met {
    done: AtomicU64,
    /// Calls that were told that their worker or its zygote died.
    lost: AtomicU64,
    /// Calls that broke off, or found no server.
    cut: AtomicU64,
    wrong: AtomicU64,
}

/// The server of the moment: where it is, and the how-many-eth it is.
#[derive(Clone, Default)]
struct Place {
    address: String,
    number: u64,
}

/// Callers, one for each tenant, of whatever server there is.
struct Load {
    over: Arc<AtomicBool>,
    place: Arc<RwLock<Place>>,
    met: Arc<Met>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(place: Place) -> Self {
        let (over, met) = (Arc::<AtomicBool>::default(), Arc::<Met>::default());
        let place = Arc::new(RwLock::new(place));
        let elf = guests::bytes("exit-imc").unwrap();
        let call = |tenant| tokio::spawn(call(tenant, elf.clone(), over.clone(), place.clone(), met.clone()));
        let callers = (0..TENANTS.len()).map(call).collect();
        Self { over, place, met, callers }
    }

    async fn end(self) -> Arc<Met> {
        self.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        self.met
    }
}

/// Works for one tenant; each call has its own number, which must come back.
async fn call(tenant: usize, elf: Vec<u8>, over: Arc<AtomicBool>, place: Arc<RwLock<Place>>, met: Arc<Met>) {
    let mut connected: Option<(u64, Client)> = None;
    let mut round = tenant;
    while !over.load(Ordering::Relaxed) {
        let present = place.read().unwrap().clone();
        if connected.as_ref().is_none_or(|(number, _)| *number != present.number) {
            connected =
                Client::connect_to(&present.address).await.ok().map(|client| (present.number, client));
        }
        let Some((_, client)) = &mut connected else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        round = (round + TENANTS.len()) % 100;
        let mut request = Request::new(inline(&elf, &[&round.to_string()], Tier::Auto));
        request.metadata_mut().insert("antares-tenant", TENANTS[tenant].parse().unwrap());
        let answer = client.runner.execute(request).await.map(tonic::Response::into_inner);
        let count = match answer {
            Ok(answer) if exit_code(&answer) == i32::try_from(round).ok() => &met.done,
            Err(status) if is_lost(&status) => &met.lost,
            // The connection is worth nothing any more.
            Err(status) if is_cut(&status) => {
                connected = None;
                &met.cut
            }
            other => {
                println!("tenant {tenant}, {round}: {other:?}");
                &met.wrong
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_lost(status: &Status) -> bool {
    status.code() == Code::Unavailable && ["WORKER_LOST", "ZYGOTE_LOST"].contains(&reason(status).as_str())
}

/// What a client says of a connection that broke: no word of the server, which gives reasons.
fn is_cut(status: &Status) -> bool {
    [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal].contains(&status.code())
        && reason(status).is_empty()
}

/// Files below `folder`.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// Whether process `pid` has ended.
fn is_gone(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ") || status.contains("State:\tX")
}

/// Kills that were made.
#[derive(Debug, Default)]
struct Kills {
    workers: u64,
    zygotes: u64,
    servers: u64,
}

/// A server that is killed now and then, and replaced by the next one on the same data.
struct Realm {
    data: TempDir,
    server: Server,
    kills: Kills,
}

impl Realm {
    /// Kills one process. Gives the place of the next server if it was the server's.
    fn strike(&mut self, random: &mut Random) -> Option<Place> {
        let (zygotes, workers) = self.server.family();
        if random.below(SERVER_ONE_IN) == 0 {
            signal("-KILL", self.server.pid());
            self.kills.servers += 1;
            until("all that it made is gone", || zygotes.iter().chain(&workers).all(|pid| is_gone(*pid)));
            self.server = Server::start(&self.data);
            return Some(Place { address: self.server.address.clone(), number: self.kills.servers });
        }
        if random.below(ZYGOTE_ONE_IN) == 0 && !zygotes.is_empty() {
            signal("-KILL", random.one_of(&zygotes));
            self.kills.zygotes += 1;
        } else if !workers.is_empty() {
            signal("-KILL", random.one_of(&workers));
            self.kills.workers += 1;
        }
        None
    }
}

async fn storm(kills: u64, seed: u64) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let load = Load::start(Place { address: server.address.clone(), number: 0 });
    let mut realm = Realm { data, server, kills: Kills::default() };
    let mut random = Random(seed);
    while realm.kills.workers + realm.kills.zygotes + realm.kills.servers < kills {
        tokio::time::sleep(Duration::from_micros(500 + random.below(20_000))).await;
        if let Some(place) = realm.strike(&mut random) {
            *load.place.write().unwrap() = place;
        }
    }
    // A moment without kills: everybody must get answers again.
    let before = load.met.done.load(Ordering::Relaxed);
    until("work goes on", || load.met.done.load(Ordering::Relaxed) > before + 20);
    let met = load.end().await;
    let [done, lost, cut, wrong] =
        [&met.done, &met.lost, &met.cut, &met.wrong].map(|count| count.load(Ordering::Relaxed));
    let Realm { data, server, kills } = realm;
    println!("seed {seed}: {kills:?}: {done} answers, {lost} lost, {cut} cut off, {wrong} wrong");
    assert_eq!(wrong, 0);
    let callers = TENANTS.len() as u64;
    assert!(lost <= kills.workers + kills.zygotes * callers, "{lost} lost");
    // One call of each caller may be under way when a server dies; one more may meet the closed connection.
    assert!(cut <= 2 * kills.servers * callers, "{cut} cut off");
    left_behind(server, &data);
}

/// Nothing is left of what was killed: processes, lines to workers, temporary files.
fn left_behind(server: Server, data: &TempDir) {
    let rest = || server.metric("antares_workers_resting{role=\"run\"}");
    until("nobody is busy", || server.metric("antares_workers_busy{role=\"run\"}") < 0.5);
    until("each worker is known", || {
        let mut run = server.zygote("antares-run-worker").map(crate::server::children).unwrap_or_default();
        // Not the one that waits for its first job.
        run.retain(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("Seccomp_filters:\t3")
        });
        (run.len() as f64 - rest()).abs() < 0.5
    });
    let resting = rest();
    let [open, memory_files, threads, _] = server.possessions();
    println!(
        "{open} descriptors, {memory_files} memory files mapped, {threads} threads, {resting} workers rest"
    );
    assert!(memory_files as f64 <= resting + 1.0, "{memory_files} memory files for {resting} workers");
    let (zygotes, workers) = server.family();
    let pids: BTreeSet<u32> = zygotes.into_iter().chain(workers).chain([server.pid()]).collect();
    assert_eq!(server.stop(), Some(0));
    until("all are gone", || pids.iter().all(|pid| is_gone(*pid)));
    assert_eq!(files(&Server::temporary(data)), 0);
    let stored = files(&Server::store(data));
    println!("{stored} files in the store");
    assert!(stored < 64, "{stored} files in the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_workers_zygotes_and_servers_cost_their_own_calls() {
    storm(60, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_thousand_kills_of_workers_zygotes_and_servers_cost_their_own_calls() {
    storm(1_000, 13).await;
}
