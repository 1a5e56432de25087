//! What both services share: listener, health, reflection, metrics, tracing, drain, configuration.
//!
//! A service brings an [`App`]; [`Server::bind`] takes the addresses, [`Server::run`] serves until it is told
//! to stop.
#![forbid(unsafe_code)]

mod account;
mod admin_section;
mod admin_socket;
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
mod config_error;
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
mod last_errors;
mod listen_section;
mod listener;
mod log_rate;
mod log_writer;
mod meter;
mod metrics;
mod node_section;
mod numbers;
mod openmetrics;
mod operator;
mod options;
mod page;
mod page_hosts;
mod peer;
mod quota_section;
mod raw_config;
mod reload;
mod role;
mod roles;
mod rpc;
mod sections;
mod server;
mod shared_section;
mod signing_section;
mod signs;
mod sizes;
mod status;
mod status_html;
mod status_page;
mod stream;
mod telemetry;
mod tls;
mod tls_section;
mod transport;
mod troubles;
mod unread;
mod usage;
mod usage_section;
mod web;
mod web_section;
mod workers;

pub use account::{Account, Salt};
pub use admin_section::AdminAccess;
pub use admission::{TENANT, TENANT_BYTES_MAX};
pub use audit::CallNotes;
pub use audit_section::Audit;
pub use auth_section::Auth;
pub use body::{HeldBytes, RequestBytes};
pub use call::CallDeadline;
pub use check::Mistake;
pub use config::{Config, Log, StoreConfig, Trace};
pub use config_error::ConfigError;
pub use duties::{beat, blocking, keep};
pub use elf::script_mistake;
pub use files::TooFewFiles;
pub use flights::{Flights, Leaving};
pub use gate::{ActsForAll, AdminProven, RoleProven};
pub use health::{Health, LIVENESS};
pub use host::{Host, HostError};
pub use key_set::{JwksError, Jwt};
pub use listen_section::Listen;
pub use metrics::{COMPILE_SECONDS, Metrics, RPC_SECONDS, RUN_SECONDS};
pub use node_section::NodeSection;
pub use operator::{LoopbackOperators, is_operator};
pub use options::{Options, Request, main};
pub use page::{Page, PageAnswer, StatusTable};
pub use page_hosts::PageHosts;
pub use peer::Peer;
pub use quota_section::{Quota, Tenancy};
pub use raw_config::{
    RawAdmin, RawAudit, RawAuth, RawCache, RawCompiler, RawConfig, RawListen, RawLog, RawMetrics, RawNode,
    RawProfilePush, RawQuotas, RawRule, RawRunner, RawSandbox, RawShared, RawSigning, RawTenantQuotas,
    RawTenants, RawTls, RawTrace, RawUsage, RawVerdict, RawWeb,
};
pub use reload::{watch as watch_files, watch_client as watch_tls};
pub use role::Role;
pub use roles::{CallerRole, Need, need};
pub use sections::ProfilePush;
pub use server::{App, Callers, ServeError, Server, drain, stop_signal};
pub use shared_section::SharedTier;
pub use signing_section::Signing;
pub use status::{ERROR_DOMAIN, Fault, caller_s, chain};
pub use telemetry::{Telemetry, TelemetryError, fact, inject, past_span, set_log_filter};
pub use tls::Tls;
pub use usage::Usage;
pub use usage_section::UsageSection;
pub use web_section::Web;
pub use workers::WorkerNumbers;

pub use crate::metrics::{set_gauge, set_total};
