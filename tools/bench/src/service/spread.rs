//! How the times that a cluster is made of are spread: what calls, gets and compiles take. The simulation of
//! capacity is fed with it.

use std::time::{Duration, Instant};

use antares_abi::Sha256Digest;
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, get_artifact_response,
    runner_service_client::RunnerServiceClient, script::Source, upload_request::Part,
};
use antares_tests::guests;
use anyhow::{Result, ensure};
use bytes::Bytes;
use tonic::transport::Channel;

use super::{Results, pool::repetitions_for, scripts::Script, server::Server};
use antares_capacity::Times;

use crate::capacity::measured::MIX;

/// Programs that are compiled: small ones and large ones.
const COMPILED: [&str; 8] = [
    "secp256k1-imc",
    "schnorr-imc",
    "rsa1024-imc",
    "keccak-imc",
    "blake2b-imc",
    "lz4-imc",
    "mldsa-imc",
    "lua-imc",
];

/// Calls one after the other, for each time of `rounds`.
const ALONE: usize = 60;

/// Gets of each artifact.
const GETS: usize = 10;

/// Callers of the load that says how long calls take in the mean: as many as keep both processors busy.
const CALLERS: usize = 16;

/// Longest chunk of an upload.
const CHUNK_BYTES: usize = 64 << 10;

/// Measures on a server of its own.
pub(super) fn measure(rounds: usize, results: &mut Results) -> Result<()> {
    let server = Server::start("spread", "")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(all(&server, rounds, results))
}

async fn all(server: &Server, rounds: usize, results: &mut Results) -> Result<()> {
    let channel = Channel::from_shared(format!("http://{}", server.address))?.connect().await?;
    compiles(server, CompilerServiceClient::new(channel.clone()), results).await?;
    let keccak = Script::guest("keccak-imc")?;
    let repetitions = repetitions_for(&keccak, Duration::from_millis(1))?.to_string();
    for (name, _) in MIX {
        let (script, args) = match name {
            "trivial" => (Script::trivial()?, Vec::new()),
            "secp256k1" => (Script::guest("secp256k1-imc")?, vec!["-".to_owned(), "1".to_owned()]),
            _ => (Script::guest("keccak-imc")?, vec!["-".to_owned(), repetitions.clone()]),
        };
        let times =
            calls(server, RunnerServiceClient::new(channel.clone()), script.elf, args, rounds).await?;
        results.spread(format!("call_{name}_us"), times);
    }
    Ok(())
}

/// Both compiles of each program, and gets of its full native code.
async fn compiles(
    server: &Server,
    mut client: CompilerServiceClient<Channel>,
    results: &mut Results,
) -> Result<()> {
    let (mut baseline, mut full, mut gets, mut lengths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for name in COMPILED {
        let elf = guests::bytes(name)?;
        let sha256 = Sha256Digest::of(&elf).to_string();
        let header =
            v1::BlobHeader { sha256: sha256.clone(), size_bytes: elf.len() as u64, ..Default::default() };
        let chunks = elf.chunks(CHUNK_BYTES).map(|chunk| Part::Chunk(Bytes::copy_from_slice(chunk)));
        let parts: Vec<_> = std::iter::once(Part::Header(header))
            .chain(chunks)
            .map(|part| v1::UploadRequest { part: Some(part) })
            .collect();
        client.upload(tokio_stream::iter(parts)).await?;
        let before = server.processor_seconds();
        let mut request = v1::CompileRequest {
            script_sha256: sha256,
            least: v1::CodeTier::Baseline.into(),
            ..Default::default()
        };
        let first_us = client.compile(request.clone()).await?.into_inner().compile_ms.max(1) as f64 * 1e3;
        request.least = v1::CodeTier::Full.into();
        let key = client.compile(request).await?.into_inner().artifact_key;
        baseline.push(first_us);
        // Of all that was done for it, what is left.
        full.push(((server.processor_seconds() - before) * 1e6 - first_us).max(0.0));
        for _ in 0..GETS {
            let before = server.processor_nanos();
            lengths.push(get(&mut client, &key).await?);
            gets.push((server.processor_nanos().saturating_sub(before)) as f64 / 1e3);
        }
    }
    results.spread("baseline_compile_us", Times::of(baseline));
    results.spread("full_compile_us", Times::of(full));
    results.spread("get_us", Times::of(gets));
    results.spread("artifact_bytes", Times::of(lengths));
    Ok(())
}

/// Length of the artifact, bytes, all of which have come.
async fn get(client: &mut CompilerServiceClient<Channel>, key: &str) -> Result<f64> {
    let request = v1::GetArtifactRequest { artifact_key: key.to_owned() };
    let (mut stream, mut length) = (client.get_artifact(request).await?.into_inner(), 0);
    while let Some(message) = stream.message().await? {
        if let Some(get_artifact_response::Part::Chunk(chunk)) = message.part {
            length += chunk.len();
        }
    }
    Ok(length as f64)
}

/// Processor time of calls: spread as those that are made alone, around the mean under load.
async fn calls(
    server: &Server,
    mut client: RunnerServiceClient<Channel>,
    elf: Vec<u8>,
    args: Vec<String>,
    rounds: usize,
) -> Result<Times> {
    let mut call = v1::ExecuteRequest {
        script: Some(v1::Script { source: Some(Source::Elf(Bytes::from(elf))), options: None }),
        text_args: args,
        ..v1::ExecuteRequest::default()
    };
    let first = client.execute(call.clone()).await?.into_inner();
    call.script = Some(v1::Script { source: Some(Source::Sha256(first.script_sha256)), options: None });
    let call = &call;
    let one = |mut client: RunnerServiceClient<Channel>| async move {
        let answer = client.execute(call.clone()).await?.into_inner();
        ensure!(
            answer.verdict.as_ref().is_some_and(|verdict| verdict.outcome() == v1::Outcome::Exit),
            "{answer:?}"
        );
        Ok::<_, anyhow::Error>(
            answer.artifact.is_some_and(|artifact| artifact.code_tier() == v1::CodeTier::Full),
        )
    };
    while !one(client.clone()).await? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut alone = Vec::new();
    for _ in 0..ALONE * rounds {
        let before = server.processor_nanos();
        one(client.clone()).await?;
        alone.push((server.processor_nanos().saturating_sub(before)) as f64 / 1e3);
    }
    let (client, before, until) = (
        &client,
        server.processor_nanos(),
        Instant::now() + Duration::from_millis(300) * u32::try_from(rounds)?,
    );
    let callers = (0..CALLERS).map(|_| async move {
        let mut count = 0_u32;
        while Instant::now() < until {
            one(client.clone()).await?;
            count += 1;
        }
        Ok::<_, anyhow::Error>(count)
    });
    let count: u32 = futures_util::future::try_join_all(callers).await?.into_iter().sum();
    let mean = (server.processor_nanos().saturating_sub(before)) as f64 / 1e3 / f64::from(count);
    Ok(Times::of(alone).with_mean(mean))
}
