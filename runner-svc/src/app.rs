//! Assembles the service: its workers before tokio starts, the rest inside the runtime.

use std::{sync::Arc, time::Duration};

use antares_config::{Config, RunnerSection};
use antares_pool::{Pool, PoolConfig, PoolError, RUN_MEMORY_BYTES_MAX, Reuse, give_large_blocks_back};
use antares_proto::{
    FILE_DESCRIPTOR_SET,
    v1::{
        admin_service_server::AdminServiceServer, profile_service_server::ProfileServiceServer,
        runner_service_server::RunnerServiceServer,
    },
};
use antares_serve::admin::{ADMIN, AdminService};
pub use antares_serve::layer_names;
use antares_serve::{App, Health, beat, blocking, keep};
use tonic::service::Routes;

use crate::{
    grpc::{
        compiler_proxy::PROXIED,
        profile_service::{self, ProfileService},
        service::Service,
    },
    profiles::push,
    runner::Runner,
    source::remote::RemoteSource,
};

/// Full name of the service, for health checks.
pub const SERVICE: &str = "antares.v1.RunnerService";

/// Name of the profile service.
pub const PROFILES: &str = "antares.v1.ProfileService";

/// Name of the worker binary.
pub const WORKER: &str = "antares-run-worker";

/// Name of the task that watches the service's health and keys.
const HEALTH: &str = "runner health";

/// Interval between checks that the zygote is alive.
const HEALTH_STEP: Duration = Duration::from_millis(500);

/// Starts the zygote of run workers. Call it before tokio's runtime starts.
///
/// # Errors
/// The worker binary is missing or fails its self-test.
pub fn start_pool(config: &Config) -> Result<Pool, PoolError> {
    give_large_blocks_back();
    Pool::start(pool_config(config)?)
}

/// Configuration of the pool of run workers.
///
/// # Errors
/// The worker binary is missing.
pub fn pool_config(config: &Config) -> Result<PoolConfig, PoolError> {
    let pool = antares_serve::pool_config(config, WORKER, config.runner.workers_max, RUN_MEMORY_BYTES_MAX)?;
    Ok(PoolConfig { reuse: reuse(&config.runner), ..pool })
}

fn reuse(runner: &RunnerSection) -> Reuse {
    Reuse { idle_max: usize::try_from(runner.idle_workers_max).unwrap_or(usize::MAX), ..Reuse::default() }
}

/// Adds the gRPC service of `runner` to `routes`.
pub fn add_to(routes: Routes, runner: &Runner, config: &Config) -> Routes {
    let message_bytes_max = config.listen.message_bytes_max;
    let service = Service::new(runner.clone(), message_bytes_max as u64);
    let service = RunnerServiceServer::new(service)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(message_bytes_max);
    let profiles = ProfileServiceServer::new(ProfileService::new(runner.clone()))
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(message_bytes_max);
    routes.add_service(service).add_service(profiles)
}

/// The service alone, plus the compiler services that `source` proxies. Call it within the runtime.
pub fn app(runner: &Runner, source: &RemoteSource, config: &Config) -> App {
    App {
        routes: source
            .add_to(add_to(Routes::default(), runner, config))
            .add_service(AdminServiceServer::new(AdminService(None))),
        services: [SERVICE, PROFILES, ADMIN].into_iter().chain(PROXIED).collect(),
        descriptors: FILE_DESCRIPTOR_SET,
        pages: vec![profile_service::page(runner)],
    }
}

/// Reports to `health` whether runs are possible, and pushes profiles to the configured receiver, while the
/// runtime lives. Call it within the runtime.
pub fn watch_health(runner: Runner, health: Health) {
    push::start(&runner);
    keep(HEALTH, move || supervise(runner.clone(), health.clone()));
}

/// Reports to `health` whether compilers are reachable. Call it within the runtime.
pub fn watch_compilers(source: Arc<RemoteSource>, health: Health) {
    keep("compiler health", move || {
        let (source, health) = (source.clone(), health.clone());
        async move {
            let mut ticks = tokio::time::interval(HEALTH_STEP);
            loop {
                ticks.tick().await;
                for service in PROXIED {
                    health.set_elsewhere(service, source.is_open()).await;
                }
            }
        }
    });
}

async fn supervise(runner: Runner, health: Health) {
    let mut ticks = tokio::time::interval(HEALTH_STEP);
    loop {
        ticks.tick().await;
        health.set(SERVICE, runner.is_ready()).await;
        health.set_beyond_help("run workers", runner.scheduler.pool.is_beyond_help()).await;
        let looked = runner.clone();
        // A failed poll reports itself, and the loop polls again.
        if blocking(move || looked.poll_keys()).await.is_some() {
            beat(HEALTH);
        }
        // Both work from memory alone.
        health.set(PROFILES, true).await;
        health.set(ADMIN, true).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both crates define them, and neither depends on the other.
    #[test]
    fn defaults_of_the_configuration_are_those_of_the_pool() {
        assert_eq!(reuse(&RunnerSection::default()), Reuse::default());
    }
}
