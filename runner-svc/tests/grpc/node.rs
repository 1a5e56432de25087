//! Servers on the loopback with real workers and a store in a temporary directory, and their clients.
//!
//! `cargo build --workspace` builds the workers; a test without them fails and says so.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    future::Future,
    io::Write as _,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_compiler_svc::app as compiler_app;
use antares_config::{Config, ConfigFile, Role};
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, operation_service_client::OperationServiceClient,
    runner_service_client::RunnerServiceClient, upload_request,
};
use antares_runner_svc::{RemoteSource, app as runner_app, embedded};
use antares_serve::{App, Metrics, Server};
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::{Response, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Timeout of everything that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server; dropping it stops it.
pub struct Node {
    pub address: SocketAddr,
    pub metrics_address: Option<SocketAddr>,
    pub metrics: Metrics,
    pub channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    pub served: Option<JoinHandle<()>>,
    _data: tempfile::TempDir,
}

/// The folder of a test's store.
pub const STORE: &str = "store";

/// A test configuration: free ports, two workers each, quick to drain, plus the lines of `changes`, such as
/// `runner.workers_max = 1`.
fn config_for(role: Role, data: &tempfile::TempDir, changes: &str) -> Config {
    let usual = [
        ("listen.address", "\"127.0.0.1:0\""),
        ("listen.drain_delay_ms", "0"),
        ("metrics.address", "\"\""),
        ("compiler.workers_max", "2"),
        ("runner.workers_max", "2"),
    ];
    let is_kept = |key: &str| !changes.lines().any(|line| line.trim().starts_with(&format!("{key} =")));
    let usual = usual.iter().filter(|(key, _)| is_kept(key)).map(|(key, value)| format!("{key} = {value}\n"));
    let text = usual.chain([changes.to_owned()]).collect::<String>();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let file = ConfigFile::read(Some(file.path()), None, Some(&data.path().join(STORE)));
    file.unwrap().check(role, &runner_app::layer_names()).expect("the configuration is fine")
}

impl Node {
    /// Both services in one process.
    pub async fn both(changes: &str) -> Self {
        Self::both_with(changes, |_| {}).await
    }

    /// The same with settings that have no configuration key.
    pub async fn both_with(changes: &str, tune: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config_for(Role::Both, &data, changes);
        tune(&mut config);
        Self::both_of(config, data).await
    }

    async fn both_of(config: Config, data: tempfile::TempDir) -> Self {
        let metrics = Metrics::new();
        let pools = embedded::start_pools(&config).expect("workers are built and start");
        let both = embedded::build(&config, pools, &metrics).unwrap();
        let app = both.app(&config);
        Self::serve(&config, app, metrics, data, |health| both.watch_health(health)).await
    }

    /// The compiler service alone.
    pub async fn compiler() -> Self {
        let data = tempfile::tempdir().unwrap();
        let config = config_for(Role::Compiler, &data, "");
        let metrics = Metrics::new();
        let pool = compiler_app::start_pool(&config).expect("workers are built and start");
        let compiler = compiler_app::build(&config, pool, &metrics).unwrap();
        let app = compiler_app::app(&compiler, &config);
        Self::serve(&config, app, metrics, data, |health| {
            compiler_app::watch_health(compiler, health.clone());
        })
        .await
    }

    /// The runner service alone, with the compiler service at `compiler`.
    pub async fn runner(compiler: SocketAddr) -> Self {
        let data = tempfile::tempdir().unwrap();
        let url = format!("runner.compiler_url = \"http://{compiler}\"");
        let config = config_for(Role::Runner, &data, &url);
        let metrics = Metrics::new();
        let pool = runner_app::start_pool(&config).expect("workers are built and start");
        let source = Arc::new(RemoteSource::new(&config, &metrics).unwrap());
        let runner = antares_runner_svc::Runner::new(pool, source.clone(), &config, &metrics).unwrap();
        let app = runner_app::app(&runner, &source, &config);
        Self::serve(&config, app, metrics, data, |health| {
            runner_app::watch_compilers(source, health.clone());
            runner_app::watch_health(runner, health.clone());
        })
        .await
    }

    /// Both services in one process, on a full volume: waits only for the runner.
    pub async fn both_without_room() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config_for(Role::Both, &data, "");
        config.cache.free_bytes_min = u64::MAX / 2;
        let metrics = Metrics::new();
        let pools = embedded::start_pools(&config).expect("workers are built and start");
        let both = embedded::build(&config, pools, &metrics).unwrap();
        let app = both.app(&config);
        let node = Self::begin(&config, app, metrics, data, |health| both.watch_health(health)).await;
        wait_until("the runner serves", || async { node.health(runner_app::SERVICE).await == Some(1) }).await;
        node
    }

    async fn serve(
        config: &Config,
        app: App,
        metrics: Metrics,
        data: tempfile::TempDir,
        watch: impl FnOnce(&antares_serve::Health),
    ) -> Self {
        let services = app.services.clone();
        let node = Self::begin(config, app, metrics, data, watch).await;
        for service in services {
            wait_until("the service serves", || async { node.health(service).await == Some(1) }).await;
        }
        node
    }

    async fn begin(
        config: &Config,
        app: App,
        metrics: Metrics,
        data: tempfile::TempDir,
        watch: impl FnOnce(&antares_serve::Health),
    ) -> Self {
        let server = Server::bind(
            &config.listen,
            antares_serve::Callers::of(config),
            config.metrics,
            app,
            metrics.clone(),
        )
        .await
        .unwrap();
        let (address, metrics_address) = (server.address(), server.metrics_address());
        watch(&server.health());
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            let ended = server
                .run(async {
                    let _ = stopped.await;
                })
                .await;
            ended.expect("it serves until it is told to stop");
        });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self {
            address,
            metrics_address,
            metrics,
            channel,
            stop: Some(stop),
            served: Some(served),
            _data: data,
        }
    }

    /// Starts the drain.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub fn compile_client(&self) -> CompilerServiceClient<Channel> {
        CompilerServiceClient::new(self.channel.clone())
    }

    pub fn run_client(&self) -> RunnerServiceClient<Channel> {
        RunnerServiceClient::new(self.channel.clone())
    }

    pub fn operation_client(&self) -> OperationServiceClient<Channel> {
        OperationServiceClient::new(self.channel.clone())
    }

    /// The status number of a health check; none if there is no such service.
    pub async fn health(&self, service: &str) -> Option<i32> {
        let mut client = HealthClient::new(self.channel.clone());
        let request = HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.ok().map(|response| response.into_inner().status)
    }

    pub async fn upload(&self, elf: &[u8]) -> Result<Response<v1::UploadResponse>, Status> {
        let sha256 = Sha256Digest::of(elf).to_string();
        self.upload_as(v1::BlobHeader { sha256, size_bytes: elf.len() as u64, ..Default::default() }, elf)
            .await
    }

    pub async fn upload_as(
        &self,
        header: v1::BlobHeader,
        elf: &[u8],
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let chunks = elf.chunks(100).map(|chunk| upload_request::Part::Chunk(chunk.to_vec().into()));
        let parts: Vec<_> = std::iter::once(upload_request::Part::Header(header))
            .chain(chunks)
            .map(|part| v1::UploadRequest { part: Some(part) })
            .collect();
        self.compile_client().upload(tokio_stream::iter(parts)).await
    }

    pub async fn execute(&self, request: v1::ExecuteRequest) -> Result<v1::ExecuteResponse, Status> {
        Ok(self.run_client().execute(request).await?.into_inner())
    }

    /// The value of the sample `name`, including labels, in `/metrics`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = String::from_utf8(self.metrics.text().unwrap()).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.map(|value| value.parse().unwrap())
    }
}

pub fn inline(elf: &[u8], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Elf(elf.to_vec().into()), tier)
}

pub fn stored(elf: &[u8], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Sha256(Sha256Digest::of(elf).to_string()), tier)
}

fn request(source: v1::script::Source, tier: v1::Tier) -> v1::ExecuteRequest {
    let mut request = v1::ExecuteRequest {
        script: Some(v1::Script { source: Some(source), options: None }),
        ..v1::ExecuteRequest::default()
    };
    request.set_tier(tier);
    request
}

/// The reason in an error.
pub fn reason(status: &Status) -> String {
    use tonic_types::StatusExt;
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// Waits for a condition, with a deadline.
pub async fn wait_until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
