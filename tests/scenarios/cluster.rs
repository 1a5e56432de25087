//! Three compilers and several runners as processes of their own, with one shared tier: equal scripts meet in one compile, and
//! whoever is killed is missed by nobody.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use antares_proto::v1::{CacheUse, CompileRequest, Tier};
use antares_tests::guests;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, inline},
    server::{PATIENCE, Server, until},
};

/// Clients that ask for the same script at once, in all.
const CLIENTS: usize = 1_000;

/// Rounds of kills; more by `ANTARES_KILL_ROUNDS`.
const ROUNDS: u64 = 12;

fn shared(url: &str) -> String {
    format!("[shared]\nurl = \"{url}\"\nget_ms_max = 60000\n")
}

fn in_folder(folder: &TempDir) -> String {
    shared(&format!("file://{}", folder.path().display()))
}

fn compiler(data: &TempDir, sections: &str) -> Server {
    Server::start_program("antares-compiler-svc", &[], data, sections)
}

fn runner(data: &TempDir, compilers: &[String]) -> Server {
    let urls: Vec<_> = compilers.iter().map(|address| format!("http://{address}")).collect();
    // One thousand clients of one machine are one peer.
    let limits = "[listen]\ncalls_per_peer_max = 1700\ncalls_max = 2000\nstreams_per_connection_max = 2000\n";
    let queue = format!("queue_max = 2000\ncompiler_url = \"{}\"\n", urls.join(","));
    Server::start_program("antares-runner-svc", &[], data, &format!("{limits}[runner]\n{queue}"))
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
    // The list's order says nothing.
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

/// Asks until it gets an answer, as the docs say that callers shall. Gives how often it had to ask again.
async fn insist(address: &str, elf: &[u8], argument: &str) -> u64 {
    let started = std::time::Instant::now();
    let mut again = 0;
    loop {
        if let Ok(mut client) = Client::connect_to(address).await
            && let Ok(answer) = client.execute(inline(elf, &[argument], Tier::Auto)).await
        {
            assert_eq!(exit_code(&answer).map(|code| code.to_string()).as_deref(), Some(argument));
            return again;
        }
        again += 1;
        assert!(started.elapsed() < PATIENCE, "no answer from {address}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What three compilers acknowledge is had by the others after any of them was killed.
async fn kills(url: &str, rounds: u64) {
    let (compiler_data, runner_data) = (folders::<3>(), folders::<2>());
    let sections = shared(url);
    let mut compilers: Vec<_> = compiler_data.iter().map(|data| Some(compiler(data, &sections))).collect();
    let addresses: Vec<_> = compilers.iter().flatten().map(|server| server.address.clone()).collect();
    let runners: Vec<_> = runner_data.iter().map(|data| runner(data, &addresses)).collect();
    let elf = guests::bytes("exit-imc").unwrap();
    let (asked, repeated) = (AtomicUsize::new(0), AtomicU64::new(0));
    for round in 0..rounds {
        let victim = usize::try_from(round % 3).unwrap();
        let calls = (0..8).map(|number| {
            let (address, elf) = (&runners[number % 2].address, &elf);
            let (asked, repeated) = (&asked, &repeated);
            async move {
                let argument = (number % 7 + 1).to_string();
                repeated.fetch_add(insist(address, elf, &argument).await, Relaxed);
                asked.fetch_add(1, Relaxed);
            }
        });
        let kill = async {
            tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
            // SIGKILL, at any moment.
            drop(compilers[victim].take());
        };
        tokio::join!(futures_util::future::join_all(calls), kill);
        compilers[victim] = Some(Server::start_at(
            "antares-compiler-svc",
            &addresses[victim],
            &compiler_data[victim],
            &sections,
        ));
    }
    println!("{} runs over {rounds} kills, {} asked again", asked.into_inner(), repeated.into_inner());
    // One that nobody has given anything has it from the others.
    for survivor in compilers.iter().flatten() {
        until("all is written", || survivor.metric("antares_tier_writes_waiting") == 0.0);
    }
    let fresh_data = tempfile::tempdir().unwrap();
    let fresh = compiler(&fresh_data, &sections);
    let request = CompileRequest {
        script_sha256: antares_abi::Sha256Digest::of(&elf).to_string(),
        ..CompileRequest::default()
    };
    let mut client = Client::connect(&fresh).await;
    let found = client.compiler.compile(request).await.unwrap().into_inner();
    assert_eq!((found.cache(), found.compile_ms), (CacheUse::Hit, 0));
}

fn rounds() -> u64 {
    std::env::var("ANTARES_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

#[tokio::test(flavor = "multi_thread")]
async fn compilers_that_are_killed_are_missed_by_nobody() {
    let tier = tempfile::tempdir().unwrap();
    kills(&format!("file://{}", Path::new(tier.path()).display()), rounds()).await;
}
