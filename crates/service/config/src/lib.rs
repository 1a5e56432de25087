//! The configuration of the services. [`ConfigFile`] is the text of a file; [`Config`] is its validated
//! meaning. Other crates only use the latter.

mod auth;
mod check;
mod config;
mod file;
mod listen;
mod observability;
mod quotas;
#[cfg(test)]
mod reference;
mod section;
mod services;
mod stores;
mod tls;

pub use auth::{
    AdminAccess, Auth, AuthRule, CallerRole, Fits, Jwt, KeySource, Roles, TENANT_BYTES_MAX, is_tenant,
};
pub use check::{ConfigError, ConfigProblem, millis};
pub use config::{Config, Role};
pub use file::{CallerSource, ConfigFile};
pub use listen::{CHUNK_BYTES, Listen, RESERVE_PARTS, Web, open_max};
pub use observability::{Audit, Log, ProfilePush, Trace};
pub use quotas::{Quota, Tenancy};
pub use services::{CompilerSection, NodeSection, RunnerSection, SandboxSection, SpeculationLimit};
pub use stores::{SharedTier, Signing, StoreConfig};
pub use tls::Tls;
