//! The configuration of the services. [`ConfigFile`] is the text of a file; [`Config`] is its validated
//! meaning. Other crates only use the latter.
#![forbid(unsafe_code)]

mod admin;
mod audit;
mod auth;
mod cache;
mod caller_role;
mod callers;
mod check;
mod compiler;
mod config;
mod config_error;
mod file;
mod listen;
mod log;
mod metrics;
mod node;
mod profile_push;
mod quotas;
#[cfg(test)]
mod reference;
mod role;
mod runner;
mod sandbox;
mod section;
mod shared_tier;
mod signing;
mod tls;
mod trace;
mod web;

pub use admin::AdminAccess;
pub use audit::Audit;
pub use auth::{Auth, AuthRule, Fits, Jwt, KeySource, TENANT_BYTES_MAX, is_tenant};
pub use cache::StoreConfig;
pub use caller_role::{CallerRole, Roles};
pub use callers::CallerSource;
pub use check::{WorkerReuse, millis};
pub use compiler::CompilerSection;
pub use config::Config;
pub use config_error::{ConfigError, ConfigProblem};
pub use file::ConfigFile;
pub use listen::{CHUNK_BYTES, Listen, RESERVE_PARTS, open_max};
pub use log::Log;
pub use node::NodeSection;
pub use profile_push::ProfilePush;
pub use quotas::{Quota, Tenancy};
pub use role::Role;
pub use runner::RunnerSection;
pub use sandbox::SandboxSection;
pub use shared_tier::SharedTier;
pub use signing::Signing;
pub use tls::{CompilerTls, Tls};
pub use trace::Trace;
pub use web::Web;
