//! A cluster on a bad network: ways between caller, runners, compilers and object store that are slow,
//! narrow, cut, half closed or silent, processes that stop for a while, stores and collectors that hang. It
//! costs time, and nothing else.

use std::time::{Duration, Instant};

use antares_client::{Client, Script, v1};
use antares_tests::{guests, s3};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::{
    client::exit_code,
    link::{Fault, Link},
    neighbours::{Maker, S3},
    server::{PATIENCE, Server, signal, until},
    soak::flat,
    storms::Random,
};

/// Calls that are made while something is wrong.
const CALLS: u64 = 4;

/// Time between two faults of the soak.
const BETWEEN_FAULTS: Duration = Duration::from_millis(700);

/// Between two rounds of calls while a fault is not noticed yet.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(1_100);

/// How long the soak is, seconds.
const SECONDS: &str = "ANTARES_CLUSTER_SOAK_SECONDS";

/// Two compilers with one object store, two runners, and a way before each of the five.
pub(crate) struct Network {
    pub(crate) compilers: Vec<Server>,
    pub(crate) runners: Vec<Server>,
    to_compilers: Vec<Link>,
    to_runners: Vec<Link>,
    to_store: Option<Link>,
    client: Client,
    _s3: Option<S3>,
    _data: Vec<TempDir>,
    tier: TempDir,
}

impl Network {
    /// With `maker`'s store, or a bucket of this process. `compiler` and `runner` are more of their configurations.
    async fn start(maker: Option<Maker>, compiler: &str, runner: &str) -> Option<Self> {
        let data: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
        let tier = tempfile::tempdir().unwrap();
        let (mut s3, mut to_store, mut url) = (None, None, s3::url(tier.path()));
        if let Some(maker) = maker {
            let store = S3::start(maker)?;
            let link = Link::to(store.address()).await;
            let environment = S3::environment_at(&link.address);
            data[..2]
                .iter()
                .for_each(|data| std::fs::write(data.path().join("environment"), &environment).unwrap());
            (s3, to_store, url) = (Some(store), Some(link), "s3://antares/a/prefix".to_owned());
        }
        let sections = format!("{compiler}[shared]\nurl = \"{url}\"\nget_ms_max = 500\n");
        let start = |data| Server::start_program("antares-compiler-svc", &[], data, &sections);
        let compilers: Vec<_> = data[..2].iter().map(start).collect();
        let to_compilers = ways(&compilers).await;
        let urls: Vec<_> = to_compilers.iter().map(|link| format!("http://{}", link.address)).collect();
        let sections =
            format!("{runner}[runner]\ncompiler_url = \"{}\"\nready_bytes_max = 4194304\n", urls.join(","));
        let start = |data| Server::start_program("antares-runner-svc", &[], data, &sections);
        let runners: Vec<_> = data[2..].iter().map(start).collect();
        let to_runners = ways(&runners).await;
        let urls = to_runners.iter().map(|link| format!("http://{}", link.address));
        let client = Client::builder().servers(urls).deadline(PATIENCE).build().unwrap();
        Some(Self {
            compilers,
            runners,
            to_compilers,
            to_runners,
            to_store,
            client,
            _s3: s3,
            _data: data,
            tier,
        })
    }

    /// One call of the script `number` of `round`, which is new to everybody. It must go well.
    async fn call(&self, round: u64, number: u64) {
        let elf = guests::bytes("exit-imc").unwrap();
        let elf = [&elf[..], &round.to_le_bytes(), &number.to_le_bytes()].concat();
        self.call_of(elf, number % 7).await;
    }

    async fn call_of(&self, elf: Vec<u8>, argument: u64) {
        let request = v1::ExecuteRequest { text_args: vec![argument.to_string()], ..Default::default() };
        let answer = self.client.execute(Script::Elf(Bytes::from(elf)), request).await.unwrap();
        assert_eq!(exit_code(&answer), Some(i32::try_from(argument).unwrap()));
    }

    async fn calls(&self, round: u64) {
        futures_util::future::join_all((0..CALLS).map(|number| self.call(round, number))).await;
    }

    fn is_breaker(&self, state: &str) -> bool {
        let name = format!("antares_tier_breaker_state{{state=\"{state}\"}}");
        self.compilers.iter().any(|compiler| compiler.metric(&name) > 0.5)
    }

    /// All servers that were there at the beginning are there and serve.
    fn is_well(&self) -> bool {
        self.compilers.iter().chain(&self.runners).all(Server::is_ready)
    }
}

async fn ways(servers: &[Server]) -> Vec<Link> {
    futures_util::future::join_all(servers.iter().map(|server| Link::to(&server.address))).await
}

/// Each fault on each way in turn, with calls of new scripts meanwhile: a call that is lost on its way is
/// made again, elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn faults_on_the_way_cost_time_and_nothing_else() {
    let Some(network) = Network::start(Some(Maker::Gofakes3), "", "").await else { return };
    let mut round = 0;
    network.calls(round).await;
    let late = Fault::Late(Duration::from_millis(30));
    for fault in [late, Fault::Narrow(256 << 10), Fault::Cut, Fault::HalfClosed, Fault::Silent] {
        let ways = [&network.to_compilers[0], &network.to_runners[0], network.to_store.as_ref().unwrap()];
        for (place, way) in ["compiler", "runner", "store"].into_iter().zip(ways) {
            round += 1;
            way.set(fault);
            let since = Instant::now();
            let is_over = async {
                // Nobody but the caller itself can tell a runner that is silent from one that takes long.
                if place == "runner" && fault == Fault::Silent {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    way.set(Fault::None);
                }
            };
            tokio::join!(network.calls(round), is_over);
            println!("{fault:?} on the way to a {place}: {CALLS} calls took {:?}", since.elapsed());
            let is_seen = || match (place, fault) {
                ("store", Fault::Silent) => network.is_breaker("open"),
                _ => true,
            };
            while !is_seen() {
                assert!(since.elapsed() < PATIENCE, "{fault:?} on the way to a {place} is noticed");
                tokio::time::sleep(BETWEEN_ROUNDS).await;
                round += 1;
                network.calls(round).await;
            }
            way.set(Fault::None);
        }
        assert!(network.is_well(), "{fault:?}");
    }
    until("what waited goes up", || {
        network.compilers.iter().all(|server| server.metric("antares_tier_writes_waiting") == 0.0)
    });
}

/// A connection to a compiler that takes calls and never answers is closed after two keepalives, and the next
/// compiler gets its calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_compiler_is_passed_over() {
    let network = Network::start(None, "", "").await.unwrap();
    network.calls(0).await;
    network.to_compilers[0].set(Fault::Silent);
    for round in 1..4 {
        // Half of the scripts ask the silent one first.
        let since = Instant::now();
        network.calls(round).await;
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    }
    network.to_compilers[0].set(Fault::None);
    network.calls(4).await;
    assert!(network.is_well() && network.tier.path().join("v1").exists());
}

/// A listener that takes connections and never answers.
async fn hang() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    (address, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_and_a_collector_that_hang_disturb_no_call() {
    let (collector, task) = hang().await;
    let trace = format!("[trace]\nendpoint = \"http://{collector}\"\n");
    let push = "[profile_push]\notlp = true\n";
    let Some(network) = Network::start(Some(Maker::Gofakes3), &trace, &format!("{trace}{push}")).await else {
        return;
    };
    network.to_store.as_ref().unwrap().set(Fault::Silent);
    let known = guests::bytes("exit-imc").unwrap();
    for round in 0..12 {
        network.calls(round).await;
        network.call_of(known.clone(), round).await;
    }
    let written = |result: &str| -> f64 {
        let name = format!("antares_tier_writes_total{{result=\"{result}\"}}");
        network.compilers.iter().map(|compiler| compiler.metric(&name)).sum()
    };
    let name = "antares_profile_pushes_total{result=\"failed\"}";
    until("so are profiles that nobody takes", || {
        network.runners.iter().any(|runner| runner.metric(name) > 0.0)
    });
    assert!(network.is_well() && written("done") == 0.0);
    network.to_store.as_ref().unwrap().set(Fault::None);
    until("what waited goes up", || written("done") > 0.0);
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_a_cluster_that_stop_for_a_while_are_waited_for_or_passed_over() {
    let network = Network::start(None, "", "").await.unwrap();
    network.calls(0).await;
    // The other compiler answers for it.
    signal("-STOP", network.compilers[0].pid());
    for round in 1..=4 {
        network.calls(round).await;
    }
    signal("-CONT", network.compilers[0].pid());
    // Nobody can answer for a runner that has the call: it goes on when the runner does.
    let stopped = network.runners[0].pid();
    signal("-STOP", stopped);
    let goes_on = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        signal("-CONT", stopped);
    };
    tokio::join!(network.calls(5), goes_on);
    until("all serve", || network.is_well());
    for server in network.compilers.iter().chain(&network.runners) {
        for role in ["compile", "run"] {
            let name = format!("antares_zygote_restarts_total{{role=\"{role}\"}}");
            assert!(server.metric(&name) < 0.5, "nothing was lost");
        }
    }
}

/// One fault after the other, by lot: on a way, or a worker or a zygote is killed, or a server stops for a
/// moment.
async fn faults(network: &Network, seconds: u64) -> Vec<Vec<[u64; 5]>> {
    let (mut random, mut looks) = (Random(7), vec![Vec::new(); 4]);
    let end = Instant::now() + Duration::from_secs(seconds);
    let servers: Vec<_> = network.compilers.iter().chain(&network.runners).collect();
    let ways: Vec<_> = network.to_compilers.iter().chain(&network.to_runners).collect();
    while Instant::now() < end {
        let place = usize::try_from(random.below(4)).unwrap();
        match random.below(6) {
            0 => ways[place].set(Fault::Cut),
            1 => ways[place].set(Fault::HalfClosed),
            2 => ways[place].set(Fault::Late(Duration::from_millis(50))),
            3 => ways[place].set(Fault::Silent),
            4 => signal("-STOP", servers[place].pid()),
            _ => {
                let (zygotes, workers) = servers[place].family();
                let victims = if random.below(4) == 0 { zygotes } else { workers };
                if !victims.is_empty() {
                    signal("-KILL", random.one_of(&victims));
                }
            }
        }
        tokio::time::sleep(BETWEEN_FAULTS).await;
        ways[place].set(Fault::None);
        signal("-CONT", servers[place].pid());
        for (server, looks) in servers.iter().zip(&mut looks) {
            let [open, files, threads, memory] = server.possessions();
            looks.push([open, files, threads, memory, server.family().1.len() as u64]);
        }
    }
    looks
}

async fn soak(seconds: u64) {
    let network = Network::start(None, "", "").await.unwrap();
    network.calls(0).await;
    let (is_over, answered) = (std::cell::Cell::new(false), std::cell::Cell::new(0_u64));
    let (network, is_over, answered) = (&network, &is_over, &answered);
    let known = guests::bytes("fib-imc").unwrap();
    let known = &known;
    let callers = (1..=6_u64).map(|caller| async move {
        let mut number = 0;
        while !is_over.get() {
            number += 1;
            // One in ten is new.
            if number % 10 == 0 {
                network.call(caller, number).await;
            } else {
                let request = v1::ExecuteRequest { text_args: vec!["10".to_owned()], ..Default::default() };
                let script = Script::Elf(Bytes::from(known.clone()));
                let answer = network.client.execute(script, request).await.unwrap();
                assert_eq!(exit_code(&answer), Some(55));
            }
            answered.set(answered.get() + 1);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let faults = async {
        let looks = faults(network, seconds).await;
        is_over.set(true);
        looks
    };
    let (looks, _) = tokio::join!(faults, futures_util::future::join_all(callers));
    let faults = looks[0].len();
    let done = |runner: &Server| runner.metric("antares_executions_total{outcome=\"exit\"}");
    let counted: f64 = network.runners.iter().map(done).sum();
    println!(
        "{seconds} s: {} answered, {counted} executions by the runners' count, {faults} faults",
        answered.get()
    );
    assert!(answered.get() > 3 * seconds, "{}", answered.get());
    // What is lost on its way is run again.
    assert!(counted >= answered.get() as f64, "{counted}");
    until("all serve", || network.is_well());
    looks.iter().for_each(|looks| flat(looks));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_minute_of_faults_leaves_the_cluster_as_it_was() {
    soak(std::env::var(SECONDS).map_or(25, |text| text.parse().expect("a number of seconds"))).await;
}
