//! What both services share: listener, health, reflection, metrics, tracing, drain, configuration.
//!
//! A service brings an [`App`]; [`Server::bind`] takes the addresses, [`Server::run`] serves until it is told to stop.
#![forbid(unsafe_code)]

mod account;
mod admission;
mod answer;
mod audit;
mod audit_section;
mod auth_section;
mod body;
mod budget;
mod call;
mod call_span;
mod check;
mod config;
mod connections;
mod duties;
mod elf;
mod expiry;
mod files;
mod flights;
mod gate;
mod handshake;
mod health;
mod host;
mod http;
#[cfg(test)]
mod jose_vectors;
mod jwt;
mod key_set;
mod listener;
mod log_rate;
mod log_writer;
mod meter;
mod metrics;
mod openmetrics;
mod operator;
mod options;
mod page;
mod page_hosts;
mod peer;
mod quota_section;
mod raw_config;
mod reload;
mod roles;
mod rpc;
mod sections;
mod server;
mod shared_section;
mod signing_section;
mod sizes;
mod status;
mod status_page;
mod stream;
mod telemetry;
mod tls;
mod tls_client;
mod tls_section;
mod token_file;
mod transport;
mod unread;
mod workers;

pub use account::{Account, Salt};
pub use admission::{TENANT, TENANT_BYTES_MAX};
pub use audit::CallNotes;
pub use audit_section::{Audit, RawAudit};
pub use auth_section::{Auth, RawAuth, RawRule};
pub use body::{HeldBytes, RequestBytes};
pub use call::CallDeadline;
pub use check::Mistake;
pub use config::{CHUNK_BYTES, Config, ConfigError, Listen, Log, Role, StoreConfig, Trace};
pub use duties::{beat, blocking, keep};
pub use elf::script_mistake;
pub use files::TooFewFiles;
pub use flights::{Flights, Leaving};
pub use gate::{ActsForAll, RoleProven};
pub use health::{Health, LIVENESS};
pub use host::{Host, HostError};
pub use key_set::{JwksError, Jwt};
pub use metrics::{COMPILE_SECONDS, Metrics, RPC_SECONDS, RUN_SECONDS};
pub use operator::is_operator;
pub use options::{Options, Request, main};
pub use page::{Page, PageAnswer};
pub use page_hosts::PageHosts;
pub use peer::Peer;
pub use quota_section::{Quota, RawQuotas, RawTenantQuotas, RawTenants, Tenancy};
pub use raw_config::{
    RawCache, RawCompiler, RawConfig, RawListen, RawLog, RawMetrics, RawProfilePush, RawRunner, RawSandbox,
    RawTrace,
};
pub use roles::{CallerRole, Need, need};
pub use sections::ProfilePush;
pub use server::{App, Callers, ServeError, Server, drain, stop_signal};
pub use shared_section::{RawShared, SharedTier};
pub use signing_section::{RawSigning, Signing};
pub use status::{ERROR_DOMAIN, Fault, caller_s, chain};
pub use telemetry::{Telemetry, TelemetryError, fact, inject, past_span, set_log_filter};
pub use tls::{Tls, TlsError};
pub use tls_client::{ClientFiles, TlsClient, endpoint_at};
pub use tls_section::RawTls;
pub use token_file::TokenFile;
pub use workers::WorkerNumbers;

pub use crate::metrics::{set_gauge, set_total};
