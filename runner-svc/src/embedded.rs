//! Both services in one process, on one listener: `antares serve`.

use std::sync::Arc;

use antares_compiler_svc::app as compiler;
use antares_config::{Config, ConfigError, ConfigFile, Role};
use antares_pool::{PoolConfig, PoolError};
use antares_proto::FILE_DESCRIPTOR_SET;
use antares_serve::{App, Health, Host, HostError, Metrics, admin::build_facts};
use tonic::service::Routes;

use crate::{app as runner, source::local::LocalSource};

/// Why the services cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Compile workers or the store.
    #[error(transparent)]
    Compiler(#[from] compiler::StartError),
    /// Run workers.
    #[error("run workers")]
    Runner(#[source] PoolError),
    /// Building the runner service.
    #[error(transparent)]
    Build(#[from] crate::BuildError),
    /// Runtime, logs, listener.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The zygotes of both services.
pub struct Pools {
    compile: antares_pool::Pool,
    run: antares_pool::Pool,
}

/// Both services, assembled.
pub struct Both {
    /// The compiler service.
    pub compiler: antares_compiler_svc::Compiler,
    /// The runner service.
    pub runner: crate::Runner,
}

/// Checks a configuration for both services in one process.
///
/// # Errors
/// Every error, with its key.
pub fn check_config(file: &ConfigFile) -> Result<Config, ConfigError> {
    file.check(Role::Both, &runner::layer_names())
}

/// Configurations of both services' pools, by the work of their workers.
///
/// # Errors
/// A worker binary is missing.
pub fn pool_configs(config: &Config) -> Result<[(&'static str, PoolConfig); 2], PoolError> {
    Ok([("run", runner::pool_config(config)?), ("compile", compiler::pool_config(config)?)])
}

/// Starts the zygotes. Call it before tokio's runtime starts.
///
/// # Errors
/// A worker binary is missing or fails its self-test.
pub fn start_pools(config: &Config) -> Result<Pools, EmbeddedError> {
    let compile = compiler::start_pool(config).map_err(compiler::StartError::from)?;
    let run = runner::start_pool(config).map_err(EmbeddedError::Runner)?;
    Ok(Pools { compile, run })
}

/// Opens the store and assembles both services. Blocks while the store opens.
///
/// # Errors
/// The store cannot be opened, or keys are invalid.
pub fn build(config: &Config, pools: Pools, metrics: &Metrics) -> Result<Both, EmbeddedError> {
    metrics.build_info(&build_facts());
    let compiler = compiler::build(config, pools.compile, metrics)?;
    let source = Arc::new(LocalSource(compiler.clone()));
    let runner = crate::Runner::new(pools.run, source, config, metrics)?;
    Ok(Both { compiler, runner })
}

impl Both {
    /// Both services for one listener.
    pub fn app(&self, config: &Config) -> App {
        let routes = compiler::add_to(Routes::default(), &self.compiler, config);
        App {
            routes: runner::add_to(routes, &self.runner, config),
            services: vec![
                compiler::SERVICE,
                compiler::STORE,
                compiler::OPERATIONS,
                antares_serve::admin::ADMIN,
                runner::SERVICE,
                runner::PROFILES,
            ],
            descriptors: FILE_DESCRIPTOR_SET,
            pages: vec![crate::grpc::profile_service::page(&self.runner)],
        }
    }

    /// Reports the health of both to `health`, and pushes profiles to the configured receiver. Call it within
    /// the runtime.
    pub fn watch_health(&self, health: &Health) {
        compiler::watch_health(self.compiler.clone(), health.clone());
        runner::watch_health(self.runner.clone(), health.clone());
    }
}

/// Serves both until SIGTERM or SIGINT, and drains. Call it from a process that has no runtime yet.
///
/// # Errors
/// Something cannot start, or the listener fails.
pub fn serve(config: &Config) -> Result<(), EmbeddedError> {
    let pools = start_pools(config)?;
    let host = Host::start(config, Role::Both)?;
    let metrics = Metrics::new();
    let both = build(config, pools, &metrics)?;
    let app = {
        let _entered = host.enter();
        both.app(config)
    };
    let ready = |health| both.watch_health(&health);
    host.serve(config, app, metrics, ready, both.compiler.flush())?;
    Ok(())
}
