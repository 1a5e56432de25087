//! The process around a server: tokio's runtime, logs and traces, from the start to a clean end.

use std::{io, panic::catch_unwind, thread, time::Duration};

use antares_config::{Config, Role};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::{
    runtime::{Builder, EnterGuard, Runtime},
    signal::unix::{SignalKind, signal},
};

use crate::{
    files::{TooFewFiles, allow_files},
    health::Health,
    metrics::Metrics,
    server::{App, ServeError, Server, stop_signal},
    tasks::{keep, log_panics},
    telemetry::{Telemetry, TelemetryError},
};

/// How long blocking work (a worker's end, a write to disk) may delay the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Lifetime of an idle blocking thread. Health polls more often, so one is always there.
const BLOCKING_IDLE_MAX: Duration = Duration::from_secs(60);

/// Maximum threads of the runtime, whatever the environment says.
const WORKER_THREADS_MAX: usize = 1_024;

/// Why a process cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No runtime, no signals.
    #[error("cannot {0}")]
    System(&'static str, #[source] io::Error),
    /// Logs or traces.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Too few files.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// The server.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A process about to serve. Create it after the zygotes: they start from a process without tokio threads.
#[derive(Debug)]
pub struct Host {
    runtime: Runtime,
    telemetry: Telemetry,
}

impl Host {
    /// Starts the runtime, logs, and traces if enabled, for `role`.
    ///
    /// # Errors
    /// The system refuses threads or allows too few open files, or the configuration of logs or traces is
    /// invalid.
    pub fn start(config: &Config, role: Role) -> Result<Self, HostError> {
        forbid_dumps()?;
        allow_files(config)?;
        log_panics();
        let runtime = start_runtime().map_err(|source| HostError::System("start the runtime", source))?;
        let telemetry = {
            let _entered = runtime.enter();
            Telemetry::start(config, role.service_name())?
        };
        for note in antares_pool::surroundings() {
            tracing::warn!(note, "the surroundings weaken a promise");
        }
        Ok(Self { runtime, telemetry })
    }

    /// The runtime's context, for building services that need it.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Serves `app` until SIGTERM or SIGINT, drains, and sends the last spans. Calls `ready` once the
    /// listeners are bound, to report the health of services. After the last call, waits for `last`, which
    /// limits itself, for remaining writes.
    ///
    /// # Errors
    /// An address cannot be bound, or the listener fails.
    pub fn serve(
        self,
        config: &Config,
        app: App,
        metrics: Metrics,
        ready: impl FnOnce(Health),
        last: impl Future<Output = ()>,
    ) -> Result<(), HostError> {
        let result = self.runtime.block_on(async {
            let stop = stop_signal().map_err(|source| HostError::System("listen for signals", source))?;
            self.telemetry.watch(&metrics);
            let server = Server::bind(config, app, metrics).await?;
            keep("hangup", hear_hangups);
            ready(server.health());
            let metrics = server.metrics_address().map(|address| address.to_string());
            let web = server.web_address().map(|address| address.to_string());
            tracing::info!(address = %server.address(), metrics, web, "serving");
            let ended = server.run(stop).await;
            last.await;
            Ok(ended?)
        });
        self.telemetry.stop();
        self.runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        result
    }
}

/// A runtime with a blocking thread that stays in use: later users may find it busy, but never missing.
fn start_runtime() -> io::Result<Runtime> {
    let start = || {
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .worker_threads(worker_threads(std::env::var("TOKIO_WORKER_THREADS").ok().as_deref()))
            .thread_keep_alive(BLOCKING_IDLE_MAX)
            .build()?;
        runtime.block_on(runtime.spawn_blocking(|| ())).map_err(io::Error::other)?;
        Ok(runtime)
    };
    // tokio panics if it cannot create a thread.
    catch_unwind(start).unwrap_or_else(|_| Err(io::Error::other("no thread can be made")))
}

/// One per processor, unless the environment has a valid number.
fn worker_threads(said: Option<&str>) -> usize {
    let said = said.and_then(|said| said.trim().parse().ok()).filter(|count| *count > 0);
    said.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).min(WORKER_THREADS_MAX)
}

/// SIGHUP requests rereading files, which [`crate::reload`] does where there are some. It never ends the
/// process.
async fn hear_hangups() {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return std::future::pending().await };
    while hangup.recv().await.is_some() {
        tracing::info!("SIGHUP: certificates, keys and tokens that are configured are read again");
    }
}

/// Disables core files, and closes `/proc/PID` to the same user's other processes: this process has keys and
/// all tenants' scripts. Executing another program resets this.
fn forbid_dumps() -> Result<(), HostError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| HostError::System("forbid dumps of the process", error.into()))
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;
    use antares_config::ConfigFile;

    #[test]
    fn the_environment_cannot_stop_a_service_from_having_threads() {
        let own = worker_threads(None);
        assert!(own >= 1);
        for said in ["", "0", "-1", "many", "1e3", "99999999999999999999"] {
            assert_eq!(worker_threads(Some(said)), own, "{said}");
        }
        assert_eq!(worker_threads(Some("3")), 3);
        assert_eq!(worker_threads(Some("1000000")), WORKER_THREADS_MAX);
    }

    #[test]
    fn a_service_cannot_be_dumped() {
        let config = ConfigFile::default().check(Role::Compiler, &[]).unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        Host::start(&config, Role::Compiler).unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
