//! Assembles the service: its workers before tokio starts, the rest inside the runtime.

use std::{sync::Arc, time::Duration};

use antares_cache::{Cache, CacheConfig, CacheError};
use antares_config::{CompilerSection, Config};
use antares_pool::{Pool, PoolConfig, PoolError, give_large_blocks_back};
use antares_proto::{
    FILE_DESCRIPTOR_SET,
    v1::{
        admin_service_server::AdminServiceServer, compiler_service_server::CompilerServiceServer,
        operation_service_server::OperationServiceServer, store_service_server::StoreServiceServer,
    },
};
use antares_serve::admin::{ADMIN, AdminService, Signer};
pub use antares_serve::layer_names;
use antares_serve::{App, Health, Metrics, beat, blocking, keep};
use antares_tier::LocationError;
use antares_trust::{KeyError, Trust};
use tonic::service::Routes;

use crate::{
    belonging,
    compiler::{Compiler, QUICK_WORKERS},
    keys_dir,
    operation_service::OperationService,
    service::Service,
    signed::Signing,
    store_service::StoreService,
    tiers::Tiers,
};

/// Full name of the service, for health checks.
pub const SERVICE: &str = "antares.v1.CompilerService";

/// Full name of the service for operators, present together with the first.
pub const STORE: &str = "antares.v1.StoreService";

/// Full name of the service for background compiles.
pub const OPERATIONS: &str = "antares.v1.OperationService";

/// Name of the worker binary.
pub const WORKER: &str = "antares-compile-worker";

/// Name of the task that watches the service's health, keys and abandoned uploads.
const HEALTH: &str = "compiler health";

/// Interval between checks that the zygote is alive.
const HEALTH_STEP: Duration = Duration::from_millis(500);

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The compile workers.
    #[error("compile workers")]
    Pool(#[from] PoolError),
    /// The store.
    #[error("the store")]
    Cache(#[from] CacheError),
    /// The keys that sign native code.
    #[error("signing.keys")]
    Keys(#[from] KeyError),
    /// Location of the key folder.
    #[error("signing.keys is empty, and {0}")]
    KeysPlace(#[source] std::io::Error),
    /// The shared tier.
    #[error("shared.url")]
    Shared(#[from] LocationError),
}

/// Starts the zygote of compile workers. Call it before tokio's runtime starts.
///
/// # Errors
/// The worker binary is missing or fails its self-test.
pub fn start_pool(config: &Config) -> Result<Pool, PoolError> {
    give_large_blocks_back();
    Pool::start(pool_config(config)?)
}

/// Configuration of the pool of compile workers.
///
/// # Errors
/// The worker binary is missing.
pub fn pool_config(config: &Config) -> Result<PoolConfig, PoolError> {
    let CompilerSection { workers_max, memory_bytes_max, .. } = config.compiler;
    antares_serve::pool_config(config, WORKER, workers_max + QUICK_WORKERS, memory_bytes_max)
}

fn cache_config(config: &Config) -> CacheConfig {
    CacheConfig {
        entry_bytes_max: config.cache.entry_bytes_max(),
        free_bytes_min: config.cache.free_bytes_min,
        allow_any_filesystem: config.cache.allow_any_filesystem,
        ..CacheConfig::new(config.cache.dir.clone(), config.cache.budget_bytes)
    }
}

/// Opens the store and builds the compiler. Blocks while the store opens.
///
/// # Errors
/// The store cannot be opened, or the keys are invalid.
pub fn build(config: &Config, pool: Pool, metrics: &Metrics) -> Result<Compiler, StartError> {
    let cache = Cache::open(cache_config(config))?;
    // Its folder exists by now.
    let keys = keys_dir::folder(&config.signing).map_err(StartError::KeysPlace)?;
    let trust = Arc::new(Trust::of_folder(keys)?);
    let signing = Signing::new(trust, metrics);
    let tiers = Tiers::open(config, metrics)?;
    Ok(Compiler::new((cache, tiers), pool, signing, &config.compiler, metrics))
}

/// For calls that revoke.
fn signer(compiler: &Compiler) -> Signer {
    let cache = compiler.cache().clone();
    Signer { trust: compiler.trust(), belonging: Arc::new(move |digest| belonging::find(&cache, digest)) }
}

/// Adds the gRPC service of `compiler` to `routes`.
pub fn add_to(routes: Routes, compiler: &Compiler, config: &Config) -> Routes {
    let message_bytes_max = config.listen.message_bytes_max;
    let service = Service::new(compiler.clone(), message_bytes_max as u64);
    let service = CompilerServiceServer::new(service)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(message_bytes_max);
    let store = StoreServiceServer::new(StoreService(compiler.clone()));
    let operations = OperationServiceServer::new(OperationService(compiler.clone()));
    let admin = AdminServiceServer::new(AdminService(Some(signer(compiler))));
    routes.add_service(service).add_service(store).add_service(operations).add_service(admin)
}

/// The service alone. Call it within the runtime.
pub fn app(compiler: &Compiler, config: &Config) -> App {
    App {
        routes: add_to(Routes::default(), compiler, config),
        services: vec![SERVICE, STORE, OPERATIONS, ADMIN],
        descriptors: FILE_DESCRIPTOR_SET,
        pages: Vec::new(),
    }
}

/// Reports to `health` whether compiles are possible, while the runtime lives. Call it within the runtime.
pub fn watch_health(compiler: Compiler, health: Health) {
    keep(HEALTH, move || supervise(compiler.clone(), health.clone()));
}

async fn supervise(compiler: Compiler, health: Health) {
    let mut ticks = tokio::time::interval(HEALTH_STEP);
    loop {
        ticks.tick().await;
        let looked = compiler.clone();
        let ready = blocking(move || {
            looked.poll_keys();
            looked.shared.uploads.expire();
            looked.is_ready()
        });
        let ready = ready.await.inspect(|_| beat(HEALTH)).unwrap_or(false);
        for service in [SERVICE, STORE, OPERATIONS] {
            health.set(service, ready).await;
        }
        // It has no dependencies.
        health.set(ADMIN, true).await;
        health.set_beyond_help("compile workers", compiler.shared.pool.is_beyond_help()).await;
    }
}

#[cfg(test)]
mod tests {
    use antares_cache::DEFAULT_BUDGET_BYTES;
    use antares_config::{ConfigFile, Role, SandboxSection};
    use antares_pool::Renewal;

    use super::*;

    /// Both crates define them, and neither depends on the other.
    #[test]
    fn defaults_of_the_configuration_are_those_of_store_and_pool() {
        let config = ConfigFile::default().check(Role::Compiler, &[]).unwrap();
        let (reported, own) = (cache_config(&config), CacheConfig::new("", DEFAULT_BUDGET_BYTES));
        let limits = |config: &CacheConfig| {
            (config.budget_bytes, config.entry_bytes_max, config.free_bytes_min, config.allow_any_filesystem)
        };
        assert_eq!(limits(&reported), limits(&own));
        let SandboxSection { zygote_workers_max: workers_max, zygote_age_max: age_max, .. } = config.sandbox;
        assert_eq!(Renewal { workers_max, age_max }, Renewal::default());
    }
}
