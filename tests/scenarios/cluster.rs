//! Three compilers and several runners as separate processes with a shared tier: concurrent requests for a
//! script share one compile, and no killed process is missed.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use antares_client::{Script, v1};
use antares_proto::v1::{CacheUse, CompileRequest, GetArtifactRequest, Outcome, Tier};
use antares_tests::{guests, s3};
use bytes::Bytes;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, inline},
    neighbours::{Maker, Proxy, S3},
    server::{BUSY_TICKS, PATIENCE, Server, processor_ticks, signal, until},
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
    Server::start_program("antares-compiler-svc", &[], data, sections)
}

fn runner_sections(compilers: &[String]) -> String {
    let urls: Vec<_> = compilers.iter().map(|address| format!("http://{address}")).collect();
    // One thousand clients on one machine are one peer and one tenant.
    let limits = "[listen]\ncalls_max = 4000\n";
    let queue = format!("queue_max = 2000\ncompiler_url = \"{}\"\n", urls.join(","));
    format!("{limits}[runner]\n{queue}")
}

fn runner(data: &TempDir, compilers: &[String]) -> Server {
    Server::start_program("antares-runner-svc", &[], data, &runner_sections(compilers))
}

fn compiles(compilers: &[Server]) -> f64 {
    let done = |server: &Server| {
        ["antares_compiles_total", "antares_baseline_compiles_total"]
            .map(|name| server.metric(&format!("{name}{{result=\"done\"}}")))
    };
    let [full, baseline] =
        compilers.iter().map(done).fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert!(full <= baseline.max(full), "{full} {baseline}");
    full.max(baseline)
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
            let (mut client, elf) = (clients[number % 2].clone(), elf.clone());
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
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "nobody compiles");
        let leader = compilers.iter().enumerate().find_map(|(at, server)| {
            let (_, workers) = server.family();
            let worker = workers.into_iter().find(|pid| processor_ticks(*pid) >= BUSY_TICKS)?;
            Some((at, worker))
        });
        match leader {
            Some((at, _)) if is_whole_server => {
                compilers[at].kill();
                return at;
            }
            Some((at, worker)) => {
                signal("-KILL", worker);
                return at;
            }
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
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
            let of = |result| server.metric(&format!("antares_compiles_total{{result=\"{result}\"}}"));
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
    let started = Instant::now();
    for address in addresses.iter().cycle() {
        assert!(started.elapsed() < PATIENCE, "no compiler answers");
        let Ok(mut client) = Client::connect_to(address).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let request = CompileRequest {
            script_sha256: antares_abi::Sha256Digest::of(elf).to_string(),
            ..CompileRequest::default()
        };
        // As documented: uploads what is missing, and retries if the server is busy or gone.
        if client.upload(elf).await.is_ok()
            && let Ok(compiled) = client.compiler.compile(request).await
        {
            return compiled.into_inner().artifact_key;
        }
    }
    unreachable!("a cycle has no end")
}

/// Three compilers and four runners behind a proxy, each of which can be stopped and restarted.
struct Cluster {
    compilers: Vec<Option<Server>>,
    runners: Vec<Option<Server>>,
    compiler_addresses: Vec<String>,
    runner_addresses: Vec<String>,
    data: [TempDir; 7],
    sections: [String; 2],
    _proxy: Option<Proxy>,
    client: antares_client::Client,
}

impl Cluster {
    /// With a shared tier at `url`; `environment` is the compilers'.
    fn start(url: &str, environment: &str) -> Self {
        let data = folders::<7>();
        for data in &data[..3] {
            std::fs::write(data.path().join("environment"), environment).unwrap();
        }
        let address = |servers: &[Option<Server>]| -> Vec<String> {
            servers.iter().flatten().map(|server| server.address.clone()).collect()
        };
        let ours = shared(url);
        let compilers: Vec<_> = data[..3].iter().map(|data| Some(compiler(data, &ours))).collect();
        let compiler_addresses = address(&compilers);
        let runners: Vec<_> = data[3..].iter().map(|data| Some(runner(data, &compiler_addresses))).collect();
        let runner_addresses = address(&runners);
        let proxy = Proxy::start(&runner_addresses);
        let ends = proxy.as_ref().map_or(runner_addresses.clone(), |proxy| vec![proxy.address.clone()]);
        let urls = ends.iter().map(|address| format!("http://{address}"));
        let client = antares_client::Client::builder().servers(urls).deadline(PATIENCE).build().unwrap();
        let sections = [ours, runner_sections(&compiler_addresses)];
        Self {
            compilers,
            runners,
            compiler_addresses,
            runner_addresses,
            data,
            sections,
            _proxy: proxy,
            client,
        }
    }

    /// The slot of member `number`: compilers first.
    fn member(&mut self, number: usize) -> &mut Option<Server> {
        if number < 3 { &mut self.compilers[number] } else { &mut self.runners[number - 3] }
    }

    /// Restarts member `number` at its address.
    fn revive(&mut self, number: usize) {
        let (program, address, sections) = if number < 3 {
            ("antares-compiler-svc", &self.compiler_addresses[number], &self.sections[0])
        } else {
            ("antares-runner-svc", &self.runner_addresses[number - 3], &self.sections[1])
        };
        let server = Server::start_at(program, address, &self.data[number], sections);
        *self.member(number) = Some(server);
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
        let (client, addresses) = (cluster.client.clone(), cluster.compiler_addresses.clone());
        let calls = (0..8).map(|number| call(&client, variant(&elf, round, number), number % 7 + 1));
        let kill = async {
            tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
            // SIGKILL, at any moment.
            drop(cluster.member(victim).take());
        };
        let new = variant(&elf, round, 1_000);
        let ((), _, key) =
            tokio::join!(kill, futures_util::future::join_all(calls), acknowledged(&addresses, &new));
        kept.push((new, key));
        cluster.revive(victim);
    }
    println!("{} calls over {rounds} kills of 3 compilers and 4 runners, all answered", rounds * 8);
    meanwhile(u64::MAX);
    nothing_is_lost(&cluster, url, environment, &kept).await;
}

/// A new compiler with the same tier has every artifact of `kept`.
async fn nothing_is_lost(cluster: &Cluster, url: &str, environment: &str, kept: &[(Vec<u8>, String)]) {
    // A compiler that alone has an artifact on its disk shares it on request.
    for (elf, key) in kept {
        for address in &cluster.compiler_addresses {
            let mut client = Client::connect_to(address).await.unwrap();
            client.upload(elf).await.unwrap();
            let request = GetArtifactRequest { artifact_key: key.clone() };
            let _ = client.compiler.get_artifact(request).await;
        }
    }
    for survivor in cluster.compilers.iter().flatten() {
        until("all is written", || survivor.metric("antares_tier_writes_waiting") == 0.0);
    }
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("environment"), environment).unwrap();
    let fresh = compiler(&data, &shared(url));
    let mut client = Client::connect(&fresh).await;
    for (elf, key) in kept {
        let request = CompileRequest {
            script_sha256: antares_abi::Sha256Digest::of(elf).to_string(),
            ..CompileRequest::default()
        };
        let found = client.compiler.compile(request).await.unwrap().into_inner();
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
            let server = cluster.member(number).take().unwrap();
            assert_eq!(tokio::task::spawn_blocking(|| server.stop()).await.unwrap(), Some(0));
            tokio::task::block_in_place(|| cluster.revive(number));
            let end = Instant::now() + PATIENCE;
            while calls.load(Relaxed) < before + 50 {
                assert!(Instant::now() < end, "calls go on");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        is_over.store(true, Relaxed);
    };
    tokio::join!(restarts, futures_util::future::join_all(load));
    println!("{} calls over 7 restarts, none failed", calls.into_inner());
}
