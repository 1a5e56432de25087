//! The configuration of the services. [`ConfigFile`] is the text of a file; [`Config`] is its validated
//! meaning. Other crates only use the latter.
#![forbid(unsafe_code)]

mod audit;
mod auth;
mod callers;
mod check;
mod config;
mod file;
mod listen;
mod log;
mod metrics;
mod profile_push;
mod quotas;
#[cfg(test)]
mod reference;
mod section;
mod services;
mod stores;
mod tls;
mod trace;

pub use audit::Audit;
pub use auth::AdminAccess;
pub use auth::{Auth, AuthRule, Fits, Jwt, KeySource, TENANT_BYTES_MAX, is_tenant};
pub use auth::{CallerRole, Roles};
pub use callers::CallerSource;
pub use check::millis;
pub use check::{ConfigError, ConfigProblem};
pub use config::Config;
pub use config::Role;
pub use file::ConfigFile;
pub use listen::Web;
pub use listen::{CHUNK_BYTES, Listen, RESERVE_PARTS, open_max};
pub use log::Log;
pub use profile_push::ProfilePush;
pub use quotas::{Quota, Tenancy};
pub use services::CompilerSection;
pub use services::NodeSection;
pub use services::RunnerSection;
pub use services::SandboxSection;
pub use services::SpeculationLimit;
pub use stores::SharedTier;
pub use stores::Signing;
pub use stores::StoreConfig;
pub use tls::Tls;
pub use trace::Trace;
