//! The whole service over gRPC on loopback: latency of one call, throughput with many clients.

use std::time::{Duration, Instant};

use antares_proto::v1::{self, runner_service_client::RunnerServiceClient, script::Source};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{Results, scripts::Script, server::Server};

/// Numbers of concurrent clients, each with one call at a time.
const CLIENTS: [usize; 6] = [1, 2, 4, 16, 64, 256];
/// Maximum connections that they share.
const CONNECTIONS_MAX: usize = 4;
const BATCH: usize = 64;
/// Minimum warm-up before the first measured call: the full compile follows the baseline.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);

pub(super) fn measure(time: Duration, results: &mut Results) -> Result<()> {
    let server = Server::start("load", "")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(load(&server, time, results))
}

async fn load(server: &Server, time: Duration, results: &mut Results) -> Result<()> {
    let elf = Script::trivial()?.elf;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let channel = Endpoint::from_shared(format!("http://{}", server.address))?.connect().await?;
        clients.push(RunnerServiceClient::new(channel));
    }
    let mut first = clients.first().context("there are clients")?.clone();
    // Upload the script once; later calls name it.
    let answer = first.execute(unary(Source::Elf(Bytes::from(elf)))).await?.into_inner();
    let call = unary(Source::Sha256(answer.script_sha256));
    let batch = batch(&call);
    let until = Instant::now() + WARM_UP;
    while Instant::now() < until {
        first.execute(call.clone()).await?;
    }
    one_at_a_time(&server.address, (first, &call), time, results).await?;
    for count in CLIENTS {
        let (calls, before) = (&call, server.processor_seconds());
        let (calls_made, times, took) = many(&clients, count, time, async |mut client| {
            check(&client.execute(calls.clone()).await?.into_inner())
        })
        .await?;
        let used = server.processor_seconds() - before;
        results.record(format!("unary_{count}"), calls_made / took, "/s");
        results.record(format!("unary_{count}_server_cpu_us"), used * 1e6 / calls_made, "");
        results.latency(format!("grpc_unary_{count}_clients"), times);
    }
    for count in CLIENTS {
        let (calls, before) = (&batch, server.processor_seconds());
        let (calls_made, _, took) = many(&clients, count, time, async |mut client| {
            let answer = client.execute_batch(calls.clone()).await?.into_inner();
            ensure!(answer.results.len() == BATCH, "{} results", answer.results.len());
            Ok(())
        })
        .await?;
        let (runs, used) = (calls_made * BATCH as f64, server.processor_seconds() - before);
        results.record(format!("batched_{count}"), runs / took, "/s");
        results.record(format!("batched_{count}_server_cpu_us"), used * 1e6 / runs, "");
    }
    Ok(())
}

/// Latency of one call on an idle server, alternating with the lower bound for a call on this machine: a
/// health check, which ends in the service itself.
async fn one_at_a_time(
    address: &str,
    (mut client, call): (RunnerServiceClient<Channel>, &v1::ExecuteRequest),
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut health = HealthClient::new(channel);
    let (mut unary, mut echo) = (Vec::new(), Vec::new());
    let until = Instant::now() + 3 * time;
    while Instant::now() < until {
        let started = Instant::now();
        check(&client.execute(call.clone()).await?.into_inner())?;
        unary.push(started.elapsed());
        let started = Instant::now();
        health.check(HealthCheckRequest::default()).await?;
        echo.push(started.elapsed());
    }
    results.latency("grpc_health_check", echo);
    results.latency("grpc_unary", unary);
    Ok(())
}

/// Makes calls with `count` clients for `time`. Returns the number of calls, the latency of each, and the
/// total time in seconds.
pub(super) async fn many(
    clients: &[RunnerServiceClient<Channel>],
    count: usize,
    time: Duration,
    call: impl AsyncFn(RunnerServiceClient<Channel>) -> Result<()>,
) -> Result<(f64, Vec<Duration>, f64)> {
    let started = Instant::now();
    let until = started + time;
    let call = &call;
    let one = |client: RunnerServiceClient<Channel>| async move {
        let mut times = Vec::new();
        while Instant::now() < until {
            let since = Instant::now();
            call(client.clone()).await?;
            times.push(since.elapsed());
        }
        Ok::<_, anyhow::Error>(times)
    };
    let all = (0..count).map(|index| one(clients[index % clients.len()].clone()));
    let times = futures_util::future::try_join_all(all).await?.concat();
    Ok((times.len() as f64, times, started.elapsed().as_secs_f64()))
}

fn unary(source: Source) -> v1::ExecuteRequest {
    let script = v1::Script { source: Some(source), ..v1::Script::default() };
    v1::ExecuteRequest { script: Some(script), ..v1::ExecuteRequest::default() }
}

fn batch(call: &v1::ExecuteRequest) -> v1::ExecuteBatchRequest {
    v1::ExecuteBatchRequest {
        script: call.script.clone(),
        inputs: vec![v1::Input::default(); BATCH],
        ..v1::ExecuteBatchRequest::default()
    }
}

/// Checks that a run exited with code 0.
fn check(answer: &v1::ExecuteResponse) -> Result<()> {
    ensure!(answer.verdict.as_ref().is_some_and(|verdict| verdict.exit_code == Some(0)), "{answer:?}");
    Ok(())
}
