//! The simulation beside runner processes that really run, on loopback, each with an equal share of a
//! processor.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_capacity::{ClusterLoad, ClusterPlan, Measured, Times, simulate};
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    script::Source, upload_request::Part,
};
use antares_tests::guests;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

use super::{process::Service, share::Share};
use crate::report;

/// Share of a processor that each runner has.
const PART: f64 = 0.1;

/// Numbers of runners. The first one says what a call takes.
const RUNNERS: [usize; 4] = [1, 4, 5, 6];

/// Callers for each runner: enough that it never waits for one.
const CALLERS_EACH: usize = 6;

/// Time for one number of runners.
const TIME: Duration = Duration::from_secs(12);

/// Times around, so that what else the machine does meets all numbers.
const ROUNDS: usize = 3;

/// Scripts of the check, with arguments that make them so heavy that the callers' own work is little beside
/// them; and their shares of the calls, in hundredths.
const SCRIPTS: [(&str, &str, u32); 2] = [("secp256k1-imc", "30", 70), ("keccak-imc", "30", 30)];

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A runner with its share.
struct Runner {
    client: RunnerServiceClient<Channel>,
    // In this order: a share is there for as long as something is in it.
    _service: Service,
    share: Share,
}

/// What some runners did in [`TIME`].
#[derive(Clone, Debug, Default)]
struct Run {
    calls: f64,
    seconds: f64,
    /// Processor time of all runners, seconds.
    used_s: f64,
    times_us: Vec<f64>,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.calls / self.seconds
    }

    /// Processor time of a call, microseconds.
    fn call_us(&self) -> f64 {
        self.used_s * 1e6 / self.calls
    }
}

/// Measures, simulates and compares.
pub(super) fn check() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(compare())
}

async fn compare() -> Result<()> {
    let compiler = Service::start("antares-compiler-svc", "", &[])?;
    let mut runners = Vec::new();
    let most = RUNNERS.iter().copied().max().unwrap_or(1);
    for number in 0..most {
        let share = Share::new(&number.to_string(), PART).context("the shares need cgroups")?;
        // Those whose turn it is not wait longer than a server keeps connections of the idle.
        let sections = format!(
            "[listen]\nconnection_idle_ms_max = 3600000\n[runner]\nworkers_max = 2\ncompiler_url = \"http://{}\"\n",
            compiler.address
        );
        let service = Service::start("antares-runner-svc", &sections, &share.doors())?;
        let channel = Endpoint::from_shared(format!("http://{}", service.address))?.connect().await?;
        runners.push(Runner { share, client: RunnerServiceClient::new(channel), _service: service });
    }
    let calls = prepare(&compiler, &runners).await?;
    let alone = alone(&runners[0], &calls).await?;
    let mut runs = vec![Vec::new(); RUNNERS.len()];
    for round in 0..ROUNDS {
        for (&count, runs) in RUNNERS.iter().zip(&mut runs) {
            let run = load(&runners[..count], &calls).await?;
            println!("round {round}: {count} runners, {:.1} calls/s", run.per_second());
            runs.push(run);
        }
    }
    tell(&alone, &runs)
}

/// Uploads the scripts, has each runner run each of them until it has full native code, and gives the calls.
async fn prepare(compiler: &Service, runners: &[Runner]) -> Result<Vec<v1::ExecuteRequest>> {
    let mut uploads = CompilerServiceClient::connect(format!("http://{}", compiler.address)).await?;
    let mut calls = Vec::new();
    for (guest, argument, _) in SCRIPTS {
        let elf = guests::bytes(guest)?;
        let sha256 = Sha256Digest::of(&elf).to_string();
        let header =
            v1::BlobHeader { sha256: sha256.clone(), size_bytes: elf.len() as u64, ..Default::default() };
        let parts = std::iter::once(Part::Header(header))
            .chain(elf.chunks(64 << 10).map(|chunk| Part::Chunk(Bytes::copy_from_slice(chunk))));
        let parts: Vec<_> = parts.map(|part| v1::UploadRequest { part: Some(part) }).collect();
        uploads.upload(tokio_stream::iter(parts)).await?;
        let script = v1::Script { source: Some(Source::Sha256(sha256)), options: None };
        calls.push(v1::ExecuteRequest {
            script: Some(script),
            text_args: vec!["-".to_owned(), argument.to_owned()],
            tier: v1::Tier::Native.into(),
            ..v1::ExecuteRequest::default()
        });
    }
    let end = Instant::now() + PATIENCE;
    for runner in runners {
        for call in &calls {
            while execute(&runner.client, call).await? != v1::CodeTier::Full {
                ensure!(Instant::now() < end, "the full compile does not end");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(calls)
}

/// Makes a call; it must go well. Gives which generator's code it ran.
async fn execute(client: &RunnerServiceClient<Channel>, call: &v1::ExecuteRequest) -> Result<v1::CodeTier> {
    let answer = client.clone().execute(call.clone()).await?.into_inner();
    let is_well = answer.verdict.as_ref().is_some_and(|verdict| verdict.outcome() == v1::Outcome::Exit);
    ensure!(is_well, "{answer:?}");
    Ok(answer.artifact.map_or(v1::CodeTier::Unspecified, |artifact| artifact.code_tier()))
}

/// Processor time of calls that are made one after the other, by script.
async fn alone(runner: &Runner, calls: &[v1::ExecuteRequest]) -> Result<Vec<Times>> {
    const CALLS: usize = 60;
    let mut all = Vec::new();
    for call in calls {
        let mut times = Vec::new();
        for _ in 0..CALLS {
            let before = runner.share.used_s()?;
            execute(&runner.client, call).await?;
            times.push((runner.share.used_s()? - before) * 1e6);
        }
        all.push(Times::of(times));
    }
    Ok(all)
}

/// Callers that call whichever runner has the fewest calls in progress, for [`TIME`].
async fn load(runners: &[Runner], calls: &[v1::ExecuteRequest]) -> Result<Run> {
    let used = || runners.iter().map(|runner| runner.share.used_s()).sum::<Result<f64>>();
    let in_progress = RefCell::new(vec![0_usize; runners.len()]);
    let (before, started) = (used()?, Instant::now());
    let until = started + TIME;
    let in_progress = &in_progress;
    let one = |caller: usize| async move {
        let (mut times, mut number) = (Vec::new(), caller);
        while Instant::now() < until {
            number += 1;
            // Every script in its share, each caller at another place of the same order.
            let mut left = u32::try_from(number * 37 % 100)?;
            let mut chosen = 0;
            while chosen + 1 < SCRIPTS.len() && left >= SCRIPTS[chosen].2 {
                left -= SCRIPTS[chosen].2;
                chosen += 1;
            }
            let runner = {
                let mut counts = in_progress.borrow_mut();
                let in_turn = (0..counts.len()).map(|step| (number + step) % counts.len());
                let runner = in_turn.min_by_key(|runner| counts[*runner]).unwrap_or(0);
                counts[runner] += 1;
                runner
            };
            let since = Instant::now();
            execute(&runners[runner].client, &calls[chosen]).await?;
            in_progress.borrow_mut()[runner] -= 1;
            times.push(since.elapsed().as_secs_f64() * 1e6);
        }
        Ok::<_, anyhow::Error>(times)
    };
    let all = (0..runners.len() * CALLERS_EACH).map(one);
    let times_us = futures_util::future::try_join_all(all).await?.concat();
    let (calls, seconds) = (times_us.len() as f64, started.elapsed().as_secs_f64());
    Ok(Run { calls, seconds, used_s: used()? - before, times_us })
}

/// The middle one by calls a second.
fn middle(runs: &[Run]) -> Run {
    let mut runs = runs.to_vec();
    runs.sort_by(|one, other| one.per_second().total_cmp(&other.per_second()));
    runs.swap_remove(runs.len() / 2)
}

fn tell(alone: &[Times], runs: &[Vec<Run>]) -> Result<()> {
    let first = middle(&runs[0]);
    let shares = SCRIPTS.map(|(_, _, share)| f64::from(share) / 100.0);
    let mean: f64 = alone.iter().zip(shares).map(|(times, share)| times.mean() * share).sum();
    // Spread as calls that are made alone, around what one runner under load took.
    let scale = first.call_us() / mean;
    let calls = alone.iter().zip(shares).map(|(times, share)| (share, times.with_mean(times.mean() * scale)));
    let measured = Measured { calls: calls.collect(), ..Measured::default() };
    println!(
        "\n{PART} of a processor each; a call takes {:.0} us alone, {:.0} us under load",
        mean,
        first.call_us()
    );
    println!("runners  measured/s  predicted/s    off   times one   used of share   p50 ms   predicted");
    let mut rows = Vec::new();
    for (&count, runs) in RUNNERS.iter().zip(runs) {
        let run = middle(runs);
        let plan = ClusterPlan {
            runners: count,
            runner_cores: 1,
            runner_speed: PART,
            load: ClusterLoad::Callers(count * CALLERS_EACH),
            calls: 20_000,
            ..ClusterPlan::default()
        };
        let predicted = simulate(plan, &measured, 1);
        let used = run.used_s / run.seconds / PART / count as f64;
        let off = predicted.per_second / run.per_second() - 1.0;
        let times_one = run.per_second() / first.per_second();
        let p50_ms = Times::of(run.times_us.clone()).at(0.5) / 1e3;
        println!(
            "{count:7}  {:10.1}  {:11.1}  {:+4.1} %  {times_one:10.2}  {:12.0} %  {p50_ms:7.0}  {:10.0}",
            run.per_second(),
            predicted.per_second,
            off * 100.0,
            used * 100.0,
            predicted.p50_us / 1e3,
        );
        rows.push(json!({
            "runners": count, "measured_per_s": run.per_second(), "predicted_per_s": predicted.per_second,
            "off": off, "times_one": times_one, "used_of_share": used,
        }));
    }
    report::write("capacity.json", &serde_json::to_string_pretty(&Value::Array(rows))?)
}
