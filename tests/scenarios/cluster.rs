//! Three compilers and several runners as processes of their own, with one shared tier: equal scripts meet in one compile, and
//! whoever is killed is missed by nobody.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use antares_proto::v1::{CacheUse, CompileRequest, GetArtifactRequest, Tier};
use antares_tests::guests;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, inline},
    server::{PATIENCE, Server, signal, until},
};

/// Clients that ask for the same script at once, in all.
const CLIENTS: usize = 1_000;

/// Rounds of kills; more by `ANTARES_KILL_ROUNDS`.
const ROUNDS: u64 = 12;

fn shared(url: &str) -> String {
    format!("[shared]\nurl = \"{url}\"\nget_ms_max = 2000\n")
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

/// The same script with other bytes behind it: new to everybody.
fn variant(elf: &[u8], round: u64, number: u64) -> Vec<u8> {
    [elf, &round.to_le_bytes(), &number.to_le_bytes()].concat()
}

/// Has one of the compilers acknowledge that it has the artifact of `elf`.
async fn acknowledged(addresses: &[String], elf: &[u8]) -> String {
    let started = std::time::Instant::now();
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
        // As documented: what is not stored is uploaded, what is busy or gone is asked again.
        if client.upload(elf).await.is_ok()
            && let Ok(compiled) = client.compiler.compile(request).await
        {
            return compiled.into_inner().artifact_key;
        }
    }
    unreachable!("a cycle has no end")
}

/// A cluster whose compilers are killed, one in each round. `meanwhile` is told the round before it.
async fn kills(url: &str, environment: &str, rounds: u64, meanwhile: impl Fn(u64)) {
    let (compiler_data, runner_data) = (folders::<3>(), folders::<4>());
    let fresh_data = tempfile::tempdir().unwrap();
    for data in compiler_data.iter().chain([&fresh_data]) {
        std::fs::write(data.path().join("environment"), environment).unwrap();
    }
    let sections = shared(url);
    let mut compilers: Vec<_> = compiler_data.iter().map(|data| Some(compiler(data, &sections))).collect();
    let addresses: Vec<_> = compilers.iter().flatten().map(|server| server.address.clone()).collect();
    let runners: Vec<_> = runner_data.iter().map(|data| runner(data, &addresses)).collect();
    let elf = guests::bytes("exit-imc").unwrap();
    let (repeated, mut kept) = (AtomicU64::new(0), Vec::new());
    for round in 0..rounds {
        meanwhile(round);
        let victim = usize::try_from(round % 3).unwrap();
        let calls = (0..8_u64).map(|number| {
            let (address, elf) = (&runners[(number % 4) as usize].address, variant(&elf, round, number));
            let repeated = &repeated;
            async move {
                let argument = (number % 7 + 1).to_string();
                repeated.fetch_add(insist(address, &elf, &argument).await, Relaxed);
            }
        });
        let kill = async {
            tokio::time::sleep(Duration::from_millis(round * 7 % 40)).await;
            // SIGKILL, at any moment.
            drop(compilers[victim].take());
        };
        let new = variant(&elf, round, 1_000);
        let ((), _, key) =
            tokio::join!(kill, futures_util::future::join_all(calls), acknowledged(&addresses, &new));
        kept.push((new, key));
        let data = &compiler_data[victim];
        compilers[victim] =
            Some(Server::start_at("antares-compiler-svc", &addresses[victim], data, &sections));
    }
    let again = repeated.into_inner();
    println!("{} runs on 4 runners over {rounds} kills of 3 compilers, {again} asked again", rounds * 8);
    meanwhile(u64::MAX);
    // Whoever has it on its disk alone gives it to the others once it is asked for.
    for (elf, key) in &kept {
        for address in &addresses {
            let mut client = Client::connect_to(address).await.unwrap();
            client.upload(elf).await.unwrap();
            let request = GetArtifactRequest { artifact_key: key.clone() };
            let _ = client.compiler.get_artifact(request).await;
        }
    }
    for survivor in compilers.iter().flatten() {
        until("all is written", || survivor.metric("antares_tier_writes_waiting") == 0.0);
    }
    let fresh = compiler(&fresh_data, &sections);
    let mut client = Client::connect(&fresh).await;
    for (elf, key) in &kept {
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
async fn compilers_that_are_killed_are_missed_by_nobody() {
    let tier = tempfile::tempdir().unwrap();
    kills(&format!("file://{}", Path::new(tier.path()).display()), "", rounds(), |_| {}).await;
}

/// A server of S3 as a process; killed when it is dropped.
struct S3(std::process::Child, String);

impl S3 {
    /// None where the server cannot be had: a package index may be away.
    fn start() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/s3.sh");
        let found = std::process::Command::new(script).output().unwrap();
        if !found.status.success() {
            eprintln!("skipped: no server of S3: {}", String::from_utf8_lossy(&found.stderr));
            return None;
        }
        let program = String::from_utf8(found.stdout).unwrap();
        // Free a moment ago; the server cannot be asked for a port of its own choice.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = std::process::Command::new(program.trim())
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(process, format!("127.0.0.1:{port}"));
        until("the bucket is made", || server.make_bucket());
        Some(server)
    }

    fn make_bucket(&self) -> bool {
        let mut answer = String::new();
        let asked = std::net::TcpStream::connect(&self.1).and_then(|mut stream| {
            let request =
                "PUT /antares HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.starts_with("HTTP/1.1 200")
    }

    fn environment(&self) -> String {
        format!(
            "AWS_ENDPOINT_URL=http://{}\nAWS_REGION=us-east-1\nAWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\n",
            self.1
        )
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_stops_for_a_while_loses_nothing() {
    let Some(s3) = S3::start() else { return };
    let (all, pid) = (rounds(), s3.0.id());
    // Stopped for the third quarter: it accepts connections and says nothing.
    kills("s3://antares/some/prefix", &s3.environment(), all, |round| {
        if round == all / 2 {
            signal("-STOP", pid);
        } else if round >= all * 3 / 4 {
            signal("-CONT", pid);
        }
    })
    .await;
}
