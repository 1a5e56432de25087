//! Runs on a server over gRPC: sends digests first, and uploads only missing scripts.

pub(crate) mod inventory;
mod store;
mod transaction;
pub(crate) mod warm;

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_client::{
    Connector, Naming, Upload, by_digest_first,
    credentials::{Connection, Credentials},
    retry::Retry,
    uploaded,
};
use antares_proto::v1::{
    self, profile_service_client::ProfileServiceClient, runner_service_client::RunnerServiceClient,
};
use anyhow::Context as _;
use bytes::Bytes;
use tonic::{Request as Call, Status};

use crate::{
    args::credentials::CredentialArgs,
    failure::Failure,
    input::run_request::Request,
    input::verify_request,
    limits::{ANSWER_BYTES_MAX, CALL_OVERHEAD_MAX, CONNECT_MAX, CompileLimits, DEADLINE_MS_DEFAULT},
    output,
    output::progress,
    output::report::{Outcome, Report},
    output::verdict::{self, Verdict},
    remote::address,
    remote::convert,
    remote::credentials,
    remote::status::Problem,
};

/// No caller of the command would restart an upload.
const UPLOADS: Retry = Retry {
    attempts_max: 6,
    pause_min: Duration::from_millis(100),
    pause_max: Duration::from_millis(1_600),
    is_spread: false,
};

/// A server given on the command line.
pub(crate) struct Server {
    url: String,
    connector: Connector,
    credentials: Credentials,
}

impl Server {
    /// Accepts the addresses of [`address::parse`].
    pub(crate) fn parse(text: &str, credentials: &CredentialArgs) -> Result<Self, Failure> {
        let url = address::parse(text)?;
        let tls = credentials::tls(&url, credentials)?;
        let connector = Connector { tls, time_max: CONNECT_MAX, ..Connector::default() };
        let credentials = credentials::credentials(&url, credentials)?;
        Ok(Self { url, connector, credentials })
    }

    /// Runs `request` on the server.
    pub(crate) fn run(&self, request: &Request) -> Result<Report, Failure> {
        let message = format!("running on {}", self.url);
        progress::while_working(&message, || runtime()?.block_on(self.run_connected(request)))
    }

    /// Verifies `request` on the server.
    pub(crate) fn verify(&self, request: &verify_request::Request) -> Result<Verdict, Failure> {
        let message = format!("verifying on {}", self.url);
        progress::while_working(&message, || runtime()?.block_on(self.verify_connected(request)))
    }

    /// A profile of the server's runs.
    pub(crate) fn profile(&self, request: v1::GetProfileRequest) -> Result<v1::GetProfileResponse, Failure> {
        let work = async {
            let mut call = Call::new(request);
            call.set_timeout(CALL_OVERHEAD_MAX);
            let channel = self.connect().await?;
            let client = ProfileServiceClient::new(channel.clone());
            match client.max_decoding_message_size(ANSWER_BYTES_MAX).get_profile(call).await {
                Ok(answer) => Ok(answer.into_inner()),
                Err(status) => Err(self.failure(&status, channel).await),
            }
        };
        runtime()?.block_on(work)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let channel = self.connector.connect(&self.url).await;
        let channel =
            channel.with_context(|| format!("cannot reach {}", self.url)).map_err(Failure::Service)?;
        Ok(self.credentials.on(channel))
    }

    async fn verify_connected(&self, request: &verify_request::Request) -> Result<Verdict, Failure> {
        let channel = self.connect().await?;
        let message = convert::transaction::verify_request(request);
        match transaction::verify(&channel, message, call_time(request.deadline)).await {
            Ok(response) => {
                convert::transaction::fallbacks(&response).into_iter().for_each(report_fallback);
                report_recheck(request.recheck, response.recheck());
                convert::transaction::verdict(response)
                    .with_context(|| format!("{} gave an answer that makes no sense", self.url))
                    .map_err(Failure::Service)
            }
            Err(status) if Problem::of(&status) == Problem::WorkerLost => {
                let detail = status.message().to_owned();
                Ok(Verdict::without_figures(verdict::Outcome::WorkerLost, detail))
            }
            Err(status) => Err(self.failure(&status, channel).await),
        }
    }

    async fn run_connected(&self, request: &Request) -> Result<Report, Failure> {
        let channel = self.connect().await?;
        let ask = |naming| execute(channel.clone(), request, naming);
        let upload_lacking =
            async |status: &Status| uploaded(status, upload_lacking(channel.clone(), &request.elf)).await;
        let response = by_digest_first(ask, upload_lacking).await;
        match response {
            Ok(response) => {
                report_fallback(&response.fallback);
                report_recheck(request.recheck, response.recheck());
                convert::report(response, request.artifact())
                    .with_context(|| format!("{} gave an answer that makes no sense", self.url))
                    .map_err(Failure::Service)
            }
            Err(status) if Problem::of(&status) == Problem::WorkerLost => {
                let detail = Some(status.message().to_owned());
                Ok(Report::without_figures(Outcome::WorkerLost, detail, request.artifact()))
            }
            Err(status) => Err(self.failure(&status, channel).await),
        }
    }
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("cannot start the network runtime").map_err(Failure::Service)
}

/// Time limit of a call whose run is limited to `deadline`.
fn call_time(deadline: Option<Duration>) -> Duration {
    let run = deadline.unwrap_or(Duration::from_millis(DEADLINE_MS_DEFAULT));
    run + Duration::from_millis(CompileLimits::default().wall_ms_max) + CALL_OVERHEAD_MAX
}

fn uploads(connection: Connection) -> Upload {
    Upload { connection, call_time_max: CALL_OVERHEAD_MAX, retry: UPLOADS }
}

/// Uploads the script in chunks.
async fn upload(connection: Connection, elf: &[u8]) -> Result<v1::UploadResponse, Status> {
    let sha256 = Sha256Digest::of(elf).to_string();
    uploads(connection).send(&Bytes::copy_from_slice(elf), &sha256).await
}

/// Uploads a call's script. The next call brings it inline if uploads are not accepted, or not of such files.
async fn upload_lacking(connection: Connection, elf: &[u8]) -> Result<Naming, Status> {
    Ok(upload(connection, elf).await.map_or(Naming::Inline, |_| Naming::Digest))
}

/// Runs the script.
async fn execute(
    channel: Connection,
    request: &Request,
    naming: Naming,
) -> Result<v1::ExecuteResponse, Status> {
    let mut call = Call::new(convert::execute_request(request, naming));
    call.set_timeout(call_time(request.deadline));
    let mut runner = RunnerServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    Ok(runner.execute(call).await?.into_inner())
}

fn report_fallback(reason: &str) {
    if !reason.is_empty() {
        eprintln!("antares: the server ran it in the interpreter alone: {}", output::printable(reason));
    }
}

/// Reports the result of a requested second run.
fn report_recheck(is_asked: bool, result: v1::Recheck) {
    if !is_asked {
        return;
    }
    let result = match result {
        v1::Recheck::Equal => "the interpreter's run was equal",
        v1::Recheck::Different => {
            "the interpreter's run was different, and is the answer; tell those who run the server"
        }
        v1::Recheck::PassedOver => "the interpreter's run found no worker or no time",
        v1::Recheck::Unspecified => "there was nothing to compare: no native code ran",
    };
    eprintln!("antares: {result}");
}
