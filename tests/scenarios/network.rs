//! A cluster on a bad network: links between client, runners, compilers and object store are slow, narrow,
//! cut, half closed or silent, and processes stop for a while. Only time is lost.

use std::time::{Duration, Instant};

use antares_client::{Client, Script, v1};
use antares_tests::{guests, s3};
use bytes::Bytes;
use tempfile::TempDir;

use crate::{
    client::exit_code,
    link::{Fault, Link},
    neighbours::{Maker, S3},
    server::{PATIENCE, Server, signal, until},
    tiers::is_written,
};

/// Calls during a fault.
const CALLS: u64 = 4;

/// Pause between two rounds of calls until a fault is noticed.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(1_100);

/// Two compilers with one object store, two runners, and a link in front of each of the five.
struct Network {
    compilers: Vec<Server>,
    runners: Vec<Server>,
    to_compilers: Vec<Link>,
    to_runners: Vec<Link>,
    to_store: Option<Link>,
    client: Client,
    _s3: Option<S3>,
    _data: Vec<TempDir>,
    _tier: TempDir,
}

impl Network {
    /// With `maker`'s store, or a bucket in this process.
    async fn start(maker: Option<Maker>) -> Option<Self> {
        let data: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
        let tier = tempfile::tempdir().unwrap();
        let (mut s3, mut to_store, mut url) = (None, None, s3::url(tier.path()));
        if let Some(maker) = maker {
            let store = S3::start(maker)?;
            let link = Link::to(store.address()).await;
            let environment = S3::environment_at(&link.address);
            for data in &data[..2] {
                std::fs::write(data.path().join("environment"), &environment).unwrap();
            }
            (s3, to_store, url) = (Some(store), Some(link), "s3://antares/a/prefix".to_owned());
        }
        let sections = format!("[shared]\nurl = \"{url}\"\nget_ms_max = 500\n");
        let start = |data| Server::start_program("antares-compiler-svc", data, &sections);
        let compilers: Vec<_> = data[..2].iter().map(start).collect();
        let to_compilers = ways(&compilers).await;
        let urls: Vec<_> = to_compilers.iter().map(|link| format!("http://{}", link.address)).collect();
        let sections =
            format!("[runner]\ncompiler_url = \"{}\"\nready_bytes_max = 4194304\n", urls.join(","));
        let start = |data| Server::start_program("antares-runner-svc", data, &sections);
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
            _tier: tier,
        })
    }

    /// Calls script `number` of `round`, which is new to all. The call must succeed.
    async fn call(&self, round: u64, number: u64) {
        let elf = guests::bytes("exit-imc").unwrap();
        let elf = [&elf[..], &round.to_le_bytes(), &number.to_le_bytes()].concat();
        let argument = number % 7;
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

    /// Whether all servers still run and serve.
    fn is_well(&self) -> bool {
        self.compilers.iter().chain(&self.runners).all(Server::is_ready)
    }
}

async fn ways(servers: &[Server]) -> Vec<Link> {
    futures_util::future::join_all(servers.iter().map(|server| Link::to(&server.address))).await
}

/// Each fault on each link in turn, with calls of new scripts: a lost call is retried elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn faults_on_the_way_cost_time_and_nothing_else() {
    let Some(network) = Network::start(Some(Maker::Gofakes3)).await else { return };
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
                // Only the client can distinguish a silent runner from a slow one.
                if place == "runner" && fault == Fault::Silent {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    way.set(Fault::None);
                }
            };
            tokio::join!(network.calls(round), is_over);
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
    network.compilers.iter().for_each(is_written);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_a_cluster_that_stop_for_a_while_are_waited_for_or_passed_over() {
    let network = Network::start(None).await.unwrap();
    network.calls(0).await;
    // The other compiler takes over.
    signal("-STOP", network.compilers[0].pid());
    for round in 1..=4 {
        network.calls(round).await;
    }
    signal("-CONT", network.compilers[0].pid());
    // No other process can answer for a runner that has the call: both resume together.
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
