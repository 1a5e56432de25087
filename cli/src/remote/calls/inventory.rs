//! A server's contents, past runs and capabilities: upload, ls, stat, health, capabilities, top.

use std::fmt::{Debug, Write as _};

use antares_abi::Sha256Digest;
use antares_client::credentials::Connection;
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, get_script_response::Part,
    profile_service_client::ProfileServiceClient, runner_service_client::RunnerServiceClient,
};
use tonic::{Request as Call, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{Server, runtime, upload};
use crate::{
    failure::Failure,
    limits::CALL_OVERHEAD_MAX,
    output::printable,
    output::server_json::{HealthShape, ServiceShape, StatShape},
    remote::status::{self, Problem},
};

/// Names of possible services in health checks; the first stands for all.
const SERVICES: [&str; 7] = [
    "",
    "antares.v1.CompilerService",
    "antares.v1.StoreService",
    "antares.v1.OperationService",
    "antares.v1.AdminService",
    "antares.v1.RunnerService",
    "antares.v1.ProfileService",
];

pub(crate) fn call<T>(message: T) -> Call<T> {
    let mut call = Call::new(message);
    call.set_timeout(CALL_OVERHEAD_MAX);
    call
}

impl Server {
    /// Runs `work` and converts its status on failure.
    pub(crate) fn request<T>(
        &self,
        work: impl AsyncFnOnce(Connection) -> Result<T, Status>,
    ) -> Result<T, Failure> {
        runtime()?.block_on(async {
            let channel = self.connect().await?;
            work(channel).await.map_err(|status| status::failure(&self.url, &status))
        })
    }

    /// Stores a script there. Returns whether it already existed.
    pub(crate) fn upload(&self, elf: &[u8]) -> Result<bool, Failure> {
        self.request(async |channel| upload(channel, elf).await.map(|answer| answer.already_stored))
    }

    /// Scripts that ran there recently, most cycles first: digest (empty for transactions), cycles, runs.
    pub(crate) fn list(&self, window_ms: Option<u64>) -> Result<Vec<v1::ProfiledScript>, Failure> {
        self.request(async |channel| list(channel, window_ms).await)
    }

    /// The server's information on a script.
    pub(crate) fn stat(&self, script: Sha256Digest) -> Result<StatShape, Failure> {
        self.request(async |channel| {
            let script_sha256 = script.to_string();
            let asked = call(v1::GetScriptRequest { script_sha256: script_sha256.clone() });
            let size_bytes = match CompilerServiceClient::new(channel.clone()).get_script(asked).await {
                // The rest is not read.
                Ok(parts) => match parts.into_inner().message().await?.and_then(|first| first.part) {
                    Some(Part::Header(header)) => Some(header.size_bytes),
                    Some(Part::Chunk(_)) | None => None,
                },
                Err(status) if Problem::of(&status) == Problem::ScriptNotFound => None,
                Err(status) => return Err(status),
            };
            let ran = list(channel, None).await?.into_iter().find(|ran| ran.script == script_sha256);
            let (cycles, runs) = ran.map_or((0, 0), |ran| (ran.cycles, ran.runs));
            Ok(StatShape { script: script_sha256.clone(), sha256: script_sha256, size_bytes, runs, cycles })
        })
    }

    /// Health of each service, and whether all serve.
    pub(crate) fn health(&self) -> Result<HealthShape<'static>, Failure> {
        self.request(async |channel| {
            let mut health = HealthShape { serving: false, services: Vec::new() };
            for service in SERVICES {
                let asked = call(HealthCheckRequest { service: service.to_owned() });
                let status = match HealthClient::new(channel.clone()).check(asked).await {
                    Ok(answer) => answer.into_inner().status(),
                    // The server has no such service.
                    Err(status) if Problem::of(&status) == Problem::NoSuchName => continue,
                    Err(status) => return Err(status),
                };
                let serving = status == ServingStatus::Serving;
                health.serving |= serving && service.is_empty();
                let name = if service.is_empty() { "all" } else { service };
                health.services.push(ServiceShape { name, serving });
            }
            Ok(health)
        })
    }

    /// Versions, limits and sandbox layers of the server's services, as text.
    pub(crate) fn capabilities(&self) -> Result<String, Failure> {
        self.request(async |channel| {
            let mut text = String::new();
            let asked = call(v1::GetCompilerCapabilitiesRequest {});
            let compiler = CompilerServiceClient::new(channel.clone()).get_capabilities(asked).await;
            if let Some(compiler) = present(compiler)? {
                print_listing(&mut text, "compiler", &compiler.versions, &compiler.limits, &compiler.sandbox);
            }
            let asked = call(v1::GetRunnerCapabilitiesRequest {});
            let runner = RunnerServiceClient::new(channel).get_capabilities(asked).await;
            if let Some(runner) = present(runner)? {
                print_listing(&mut text, "runner", &runner.versions, &runner.limits, &runner.sandbox);
                let _ = writeln!(text, "  vm_versions: {:?}", runner.vm_versions);
                let _ = writeln!(text, "  isas: {}", runner.isas.join(" "));
                let _ = writeln!(text, "  syscalls of scripts that run alone: {:?}", runner.syscalls);
            }
            Ok(printable(&text))
        })
    }

    /// The most expensive functions, of one script or of everything that the server ran.
    pub(crate) fn top(&self, request: v1::TopFunctionsRequest) -> Result<v1::TopFunctionsResponse, Failure> {
        self.request(async |channel| {
            let mut client = ProfileServiceClient::new(channel);
            client.top_functions(call(request)).await.map(Response::into_inner)
        })
    }

    /// The failure of a runner's call; identifies the server at this address if it does not support it.
    pub(super) async fn failure(&self, status: &Status, channel: Connection) -> Failure {
        if Problem::of(status) != Problem::NoSuchCall {
            return status::failure(&self.url, status);
        }
        let asked = call(v1::GetCompilerCapabilitiesRequest {});
        let there = match CompilerServiceClient::new(channel).get_capabilities(asked).await {
            Ok(_) => "a compiler service alone",
            Err(_) => "another service",
        };
        let text = format!("{} is {there}; this needs the address of a runner service", self.url);
        Failure::Service(anyhow::anyhow!(text))
    }
}

async fn list(channel: Connection, window_ms: Option<u64>) -> Result<Vec<v1::ProfiledScript>, Status> {
    let asked = call(v1::ListProfilesRequest { window_ms });
    Ok(ProfileServiceClient::new(channel).list_profiles(asked).await?.into_inner().scripts)
}

/// A response; none if the server has no such service.
fn present<T>(answer: Result<Response<T>, Status>) -> Result<Option<T>, Status> {
    match answer {
        Ok(answer) => Ok(Some(answer.into_inner())),
        Err(status) if Problem::of(&status) == Problem::NoSuchCall => Ok(None),
        Err(status) => Err(status),
    }
}

fn print_listing(
    text: &mut String,
    service: &str,
    versions: &Option<v1::EngineVersions>,
    limits: &Option<impl Debug>,
    layers: &[v1::SandboxLayer],
) {
    let _ = writeln!(text, "{service}");
    for line in versions.iter().flat_map(fields).chain(limits.iter().flat_map(fields)) {
        let _ = writeln!(text, "  {line}");
    }
    for layer in layers {
        let state = if layer.active { "stands" } else { "is missing" };
        let _ = writeln!(text, "  sandbox: {} {state} {}", layer.name, layer.detail);
    }
}

/// The fields of a message without nested messages, one per line.
fn fields(message: &impl Debug) -> Vec<String> {
    let text = format!("{message:#?}");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(','));
    lines.map(str::to_owned).collect()
}
