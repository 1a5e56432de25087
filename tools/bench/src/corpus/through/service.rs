//! One service: a server of its own, which is called over gRPC on loopback.

use std::time::Instant;

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, runner_service_client::RunnerServiceClient, script::Source};
use antares_tests::oracle::Case;
use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use super::{Told, Way};
use crate::service::server::Server;

/// A server with a client.
pub(crate) struct OneService {
    runtime: Runtime,
    client: RunnerServiceClient<Channel>,
    /// What it has got.
    known: Vec<Sha256Digest>,
    _server: Server,
}

impl Way for OneService {
    const NAME: &str = "service";

    /// The full compile follows whatever is asked.
    fn start(is_quiet: bool) -> Result<Self> {
        // One of each is there at a time.
        let server = Server::start(if is_quiet { "corpus-first" } else { "corpus" }, "")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address))?;
        let client = RunnerServiceClient::new(runtime.block_on(endpoint.connect())?);
        Ok(Self { runtime, client, known: Vec::new(), _server: server })
    }

    fn run(&mut self, case: &Case, is_interpreted: bool) -> Result<Told> {
        let digest = Sha256Digest::of(&case.elf);
        let source = if self.known.contains(&digest) {
            Source::Sha256(digest.to_string())
        } else {
            Source::Elf(case.elf.clone())
        };
        let tier = if is_interpreted { v1::Tier::Interpreter } else { v1::Tier::Auto };
        let request = v1::ExecuteRequest {
            script: Some(v1::Script { source: Some(source), ..v1::Script::default() }),
            args: case.args.clone(),
            tier: tier.into(),
            ..v1::ExecuteRequest::default()
        };
        let started = Instant::now();
        let answer = self.runtime.block_on(self.client.execute(request))?.into_inner();
        let time = started.elapsed().as_secs_f64();
        let verdict = answer.verdict.as_ref().context("no verdict")?;
        ensure!(verdict.outcome() == v1::Outcome::Exit, "{answer:?}");
        // The interpreter alone keeps nothing.
        if !is_interpreted {
            self.known.push(digest);
        }
        Ok(Told {
            time,
            cycles: verdict.cycles,
            native_cycles: answer.tiers.as_ref().map_or(0, |tiers| tiers.native_cycles),
            is_full: answer.artifact.is_some_and(|artifact| artifact.code_tier() == v1::CodeTier::Full),
            compile_ms: answer.timings.map_or(0, |timings| timings.compile_ms),
        })
    }
}
