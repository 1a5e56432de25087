//! Three compilers and several runners as separate processes with a shared tier: concurrent requests for a
//! script share one compile, and no killed process is missed.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use antares_client::{Script, v1};
use antares_proto::v1::{CacheUse, GetArtifactRequest, Outcome, Tier};
use antares_tests::{guests, s3};
use bytes::Bytes;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, inline},
    neighbours::{Maker, Proxy, S3},
    server::{BUSY_TICKS, PATIENCE, Server, eventually, found, processor_ticks, signal, until},
    tiers::is_written,
};

/// Total number of clients that request the same script at once.
const CLIENTS: usize = 1_000;

/// Rounds of kills; `ANTARES_KILL_ROUNDS` sets more.
const ROUNDS: u64 = 12;

fn shared(url: &str) -> String {
    format!("[shared]\nurl = \"{url}\"\nget_ms_max = 2000\n")
}

fn in_folder(folder: &TempDir) -> String {
    shared(&s3::url(folder.path()))
}

fn compiler(data: &TempDir, sections: &str) -> Server {
    Server::start_program("antares-compiler-svc", data, sections)
}

fn runner_sections(compilers: &[String]) -> String {
    let urls: Vec<_> = compilers.iter().map(|address| format!("http://{address}")).collect();
    // One thousand clients on one machine are one peer and one tenant.
    let limits = "[listen]\ncalls_max = 4000\n";
    let queue = format!("queue_max = 2000\ncompiler_url = \"{}\"\n", urls.join(","));
    format!("{limits}[runner]\n{queue}")
}

fn runner(data: &TempDir, compilers: &[String]) -> Server {
    Server::start_program("antares-runner-svc", data, &runner_sections(compilers))
}

fn compiles(compilers: &[Server]) -> f64 {
    let done = |name| compilers.iter().map(|server| server.result(name, "done")).sum::<f64>();
    done("compiles_total").max(done("baseline_compiles_total"))
}

fn folders<const N: usize>() -> [TempDir; N] {
    std::array::from_fn(|_| tempfile::tempdir().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_of_one_new_script_make_one_compile() {
    let ([one, two, three, tier], [first, second]) = (folders::<4>(), folders::<2>());
    let sections = in_folder(&tier);
    let compilers = [&one, &two, &three].map(|data| compiler(data, &sections));
    let addresses: Vec<_> = compilers.iter().map(|server| server.address.clone()).collect();
    // The order of the list does not matter.
    let turned: Vec<_> = addresses.iter().rev().cloned().collect();
    let runners = [runner(&first, &addresses), runner(&second, &turned)];
    let clients = [Client::connect(&runners[0]).await, Client::connect(&runners[1]).await];
    for name in ["exit-imc", "fib-imc"] {
        let before = compiles(&compilers);
        let elf = guests::bytes(name).unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..CLIENTS {
            let (client, elf) = (clients[number % 2].clone(), elf.clone());
            calls.spawn(async move { client.execute(inline(&elf, &["5"], Tier::Native)).await.unwrap() });
        }
        while let Some(answer) = calls.join_next().await {
            assert_eq!(exit_code(&answer.unwrap()), Some(5), "{name}");
        }
        until("the full compile has followed", || compiles(&compilers) > before);
        assert_eq!(compiles(&compilers), before + 1.0, "{name}: one compile with routing");
    }
}

/// A compile that takes long enough for a kill.
const LONG: &str = "sphincs-imc";

/// Clients. Each makes as many calls as its retry budget covers if all are lost at once.
const CLIENTS_OF_MANY: usize = 40;

/// A thousand calls for one new script, by clients with documented retries. All are answered.
async fn a_thousand_calls(runner: &Server, elf: &Bytes) {
    let clients = (0..CLIENTS_OF_MANY).map(|_| {
        let url = format!("http://{}", runner.address);
        antares_client::Client::builder().servers([url]).deadline(PATIENCE).build().unwrap()
    });
    let clients: Vec<_> = clients.collect();
    let calls = (0..CLIENTS).map(|number| {
        let limits = Some(v1::RunLimits { max_cycles: Some(1_000), ..Default::default() });
        let request = v1::ExecuteRequest { limits, tier: Tier::Native.into(), ..Default::default() };
        clients[number % CLIENTS_OF_MANY].execute(Script::Elf(elf.clone()), request)
    });
    for answer in futures_util::future::join_all(calls).await {
        // The run would take long; it is enough that it starts.
        assert_eq!(answer.unwrap().verdict.unwrap().outcome(), Outcome::CyclesExceeded);
    }
}

/// Kills the process that compiles: its worker, or the whole server. Returns the server's index.
async fn kill_the_leader(compilers: &mut [Server], is_whole_server: bool) -> usize {
    let leader = async || {
        compilers.iter().enumerate().find_map(|(at, server)| {
            let (_, workers) = server.family();
            let worker = workers.into_iter().find(|pid| processor_ticks(*pid) >= BUSY_TICKS)?;
            Some((at, worker))
        })
    };
    let (at, worker) = found("somebody compiles", leader).await;
    if is_whole_server {
        compilers[at].kill();
    } else {
        signal("-KILL", worker);
    }
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_whose_compile_is_killed_make_one_more() {
    let elf = Bytes::from(guests::bytes(LONG).unwrap());
    for is_whole_server in [false, true] {
        let ([one, two, tier], first) = (folders::<3>(), tempfile::tempdir().unwrap());
        let sections = format!("[compiler]\nbaseline = false\n{}", in_folder(&tier));
        let mut compilers = [&one, &two].map(|data| compiler(data, &sections));
        let addresses: Vec<_> = compilers.iter().map(|server| server.address.clone()).collect();
        let runner = runner(&first, &addresses);
        let (leader, ()) =
            tokio::join!(kill_the_leader(&mut compilers, is_whole_server), a_thousand_calls(&runner, &elf));
        let living = compilers.iter().enumerate().filter(|(at, _)| !is_whole_server || *at != leader);
        let counts = living.fold([0.0; 2], |[done, lost], (_, server)| {
            let of = |result| server.result("compiles_total", result);
            [done + of("done"), lost + of("worker_lost")]
        });
        assert_eq!(counts, if is_whole_server { [1.0, 0.0] } else { [1.0, 1.0] }, "{is_whole_server}");
    }
}

/// The same script with other trailing bytes: new to all.
fn variant(elf: &[u8], round: u64, number: u64) -> Vec<u8> {
    [elf, &round.to_le_bytes(), &number.to_le_bytes()].concat()
}

/// Returns when a compiler acknowledges the artifact of `elf`.
async fn acknowledged(addresses: &[String], elf: &[u8]) -> String {
    let mut addresses = addresses.iter().cycle();
    let compile = async || {
        let client = Client::connect_to(addresses.next()?).await.ok()?;
        // As documented: uploads what is missing, and retries if the server is busy or gone.
        client.upload(elf).await.ok()?;
        client.compile(elf).await.ok()
    };
    found("a compiler answers", compile).await.artifact_key
}

/// A process of a cluster.
struct Member {
    program: &'static str,
    data: TempDir,
    sections: String,
    address: String,
    server: Option<Server>,
}

impl Member {
    fn start(program: &'static str, sections: &str, environment: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join("environment"), environment).unwrap();
        let server = Server::start_program(program, &data, sections);
        let (address, sections) = (server.address.clone(), sections.to_owned());
        Self { program, data, sections, address, server: Some(server) }
    }

    /// Starts again at its address.
    fn revive(&mut self) {
        self.server = Some(Server::start_at(self.program, &self.address, &self.data, &self.sections));
    }
}

fn addresses(members: &[Member]) -> Vec<String> {
    members.iter().map(|member| member.address.clone()).collect()
}

/// Three compilers, and four runners behind a proxy, each of which can be stopped and restarted.
struct Cluster {
    members: Vec<Member>,
    _proxy: Option<Proxy>,
    client: antares_client::Client,
}

impl Cluster {
    /// With a shared tier at `url`; `environment` is the compilers'.
    fn start(url: &str, environment: &str) -> Self {
        let compiler = |_| Member::start("antares-compiler-svc", &shared(url), environment);
        let mut members: Vec<_> = (0..3).map(compiler).collect();
        let sections = runner_sections(&addresses(&members));
        members.extend((0..4).map(|_| Member::start("antares-runner-svc", &sections, "")));
        let runners = addresses(&members[3..]);
        let proxy = Proxy::start(&runners);
        let ends = proxy.as_ref().map_or(runners, |proxy| vec![proxy.address.clone()]);
        let urls = ends.iter().map(|address| format!("http://{address}"));
        let client = antares_client::Client::builder().servers(urls).deadline(PATIENCE).build().unwrap();
        Self { members, _proxy: proxy, client }
    }
}

/// One call of an ordinary client. It must succeed.
async fn call(client: &antares_client::Client, elf: Vec<u8>, argument: u64) {
    let request = v1::ExecuteRequest { text_args: vec![argument.to_string()], ..Default::default() };
    let answer = client.execute(Script::Elf(Bytes::from(elf)), request).await.unwrap();
    assert_eq!(exit_code(&answer), Some(i32::try_from(argument).unwrap()));
}

/// Kills one process of a cluster in each round. Calls `meanwhile` with the round first.
async fn kills(url: &str, environment: &str, rounds: u64, meanwhile: impl Fn(u64)) {
    let mut cluster = Cluster::start(url, environment);
    let (elf, mut kept) = (guests::bytes("exit-imc").unwrap(), Vec::new());
    for round in 0..rounds {
        meanwhile(round);
        let victim = usize::try_from(round % 7).unwrap();
        let (client, addresses) = (cluster.client.clone(), addresses(&cluster.members[..3]));
        let calls = (0..8).map(|number| call(&client, variant(&elf, round, number), number % 7 + 1));
        let kill = async {
            tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
            // SIGKILL, at any moment.
            drop(cluster.members[victim].server.take());
        };
        let new = variant(&elf, round, 1_000);
        let ((), _, key) =
            tokio::join!(kill, futures_util::future::join_all(calls), acknowledged(&addresses, &new));
        kept.push((new, key));
        cluster.members[victim].revive();
    }
    meanwhile(u64::MAX);
    nothing_is_lost(&cluster, url, environment, &kept).await;
}

/// A new compiler with the same tier has every artifact of `kept`.
async fn nothing_is_lost(cluster: &Cluster, url: &str, environment: &str, kept: &[(Vec<u8>, String)]) {
    // A compiler that alone has an artifact on its disk shares it on request.
    for (elf, key) in kept {
        for member in &cluster.members[..3] {
            let mut client = Client::connect_to(&member.address).await.unwrap();
            client.upload(elf).await.unwrap();
            let request = GetArtifactRequest { artifact_key: key.clone() };
            let _ = client.compiler.get_artifact(request).await;
        }
    }
    cluster.members[..3].iter().filter_map(|member| member.server.as_ref()).for_each(is_written);
    let fresh = Member::start("antares-compiler-svc", &shared(url), environment);
    let client = Client::connect_to(&fresh.address).await.unwrap();
    for (elf, key) in kept {
        let found = client.compile(elf).await.unwrap();
        assert_eq!((found.cache(), found.compile_ms, &found.artifact_key), (CacheUse::Hit, 0, key));
    }
}

fn rounds() -> u64 {
    std::env::var("ANTARES_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_is_missed_by_nobody() {
    let tier = tempfile::tempdir().unwrap();
    kills(&s3::url(tier.path()), "", rounds(), |_| {}).await;
}

/// The store stops for the third quarter: it accepts connections and does not respond.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_stops_for_a_while_loses_nothing() {
    let Some(s3) = S3::start(Maker::Moto) else { return };
    let (all, pid) = (rounds(), s3.pid());
    kills("s3://antares/some/prefix", &s3.environment(), all, |round| {
        if round == all / 2 {
            signal("-STOP", pid);
        } else if round >= all * 3 / 4 {
            signal("-CONT", pid);
        }
    })
    .await;
}

/// Restarts every process one by one under continuous calls, including calls with new scripts.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_call() {
    let tier = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(&s3::url(tier.path()), "");
    let (is_over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let elf = guests::bytes("exit-imc").unwrap();
    let client = cluster.client.clone();
    let load = (0..8_u64).map(|caller| {
        let (client, elf, is_over, calls) = (&client, &elf, &is_over, &calls);
        async move {
            let mut number = 0;
            while !is_over.load(Relaxed) {
                // One in a hundred is new.
                call(client, variant(elf, caller, number / 100), number % 7 + 1).await;
                number += 1;
                calls.fetch_add(1, Relaxed);
            }
        }
    });
    let restarts = async {
        for number in 0..7 {
            let before = calls.load(Relaxed);
            let server = cluster.members[number].server.take().unwrap();
            assert_eq!(tokio::task::spawn_blocking(|| server.stop()).await.unwrap(), Some(0));
            tokio::task::block_in_place(|| cluster.members[number].revive());
            eventually("calls go on", async || calls.load(Relaxed) >= before + 50).await;
        }
        is_over.store(true, Relaxed);
    };
    tokio::join!(restarts, futures_util::future::join_all(load));
}
