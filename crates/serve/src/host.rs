//! The process around a server: tokio's runtime, logs and traces, from start to a clean end.

use std::{io, time::Duration};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime::{Builder, EnterGuard, Runtime};

use crate::{
    config::Config,
    files::{TooFewFiles, allow_files},
    health::Health,
    metrics::Metrics,
    server::{App, Callers, ServeError, Server, stop_signal},
    telemetry::{Telemetry, TelemetryError},
};

/// How long blocking work (a worker's last moments, a write to disk) may hold up the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a process could not serve.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No runtime, no signals.
    #[error("cannot {step}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system says.
        source: io::Error,
    },
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

/// A process that is going to serve. Make it after the zygotes: they are started from a process without threads of
/// tokio's.
#[derive(Debug)]
pub struct Host {
    runtime: Runtime,
    telemetry: Telemetry,
}

impl Host {
    /// Starts the runtime, logs, and traces if they are on, in the name of `service`.
    ///
    /// # Errors
    /// The system refuses threads, or allows too few open files, or the configuration of logs and traces is of no use.
    pub fn start(config: &Config, service: &'static str) -> Result<Self, HostError> {
        forbid_dumps()?;
        allow_files(config)?;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|source| HostError::System { step: "start the runtime", source })?;
        let telemetry = {
            let _entered = runtime.enter();
            Telemetry::start(config, service)?
        };
        Ok(Self { runtime, telemetry })
    }

    /// The runtime's context, for building services that need it.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Serves `app` until SIGTERM or SIGINT, drains, and sends the last spans. `ready` is called once the listeners are
    /// bound: it says which services serve, now and later.
    ///
    /// # Errors
    /// An address cannot be had, or the listener fails.
    pub fn serve(
        self,
        config: &Config,
        app: App,
        metrics: Metrics,
        ready: impl FnOnce(Health),
    ) -> Result<(), HostError> {
        self.serve_then(config, app, metrics, ready, async {})
    }

    /// The same, and waits for `last` once the last call has ended, such as for what is still to be written. It bounds itself.
    ///
    /// # Errors
    /// An address cannot be had, or the listener fails.
    pub fn serve_then(
        self,
        config: &Config,
        app: App,
        metrics: Metrics,
        ready: impl FnOnce(Health),
        last: impl Future<Output = ()>,
    ) -> Result<(), HostError> {
        let result = self.runtime.block_on(async {
            let stop =
                stop_signal().map_err(|source| HostError::System { step: "listen for signals", source })?;
            let server =
                Server::bind(&config.listen, Callers::of(config), config.metrics, app, metrics).await?;
            ready(server.health());
            let metrics = server.metrics_address().map(|address| address.to_string());
            tracing::info!(address = %server.address(), metrics, "serving");
            server.run(stop).await;
            last.await;
            Ok(())
        });
        self.telemetry.stop();
        self.runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        result
    }
}

/// No core file, and `/proc/PID` closed to others of the same user: this process has keys and everybody's scripts. Programs that it
/// executes begin anew.
fn forbid_dumps() -> Result<(), HostError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| HostError::System { step: "forbid dumps of the process", source: error.into() })
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;
    use crate::{config::Role, raw_config::RawConfig};

    #[test]
    fn a_service_cannot_be_dumped() {
        let config = RawConfig::default().check(Role::Compiler, &[]).unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        Host::start(&config, "test").unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
