//! What both services share: listener, health, reflection, metrics, tracing, drain.
//!
//! A service brings an [`App`]; [`Server::bind`] takes the addresses, [`Server::run`] serves until it is told
//! to stop.
#![forbid(unsafe_code)]

mod account;
mod admin_socket;
mod admission;
mod answer;
mod audit;
mod body;
mod budget;
mod call;
mod call_span;
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
mod listener;
mod log_rate;
mod log_writer;
mod meter;
mod metrics;
mod numbers;
mod openmetrics;
mod operator;
mod options;
mod page;
mod page_hosts;
mod peer;
mod reload;
mod roles;
mod rpc;
mod server;
mod signs;
mod status;
mod status_html;
mod status_page;
mod stream;
mod telemetry;
mod tls;
mod tls_client;
mod token_file;
mod transport;
mod troubles;
mod unread;
mod usage;
mod web;
mod workers;

pub use account::{Account, Salt};
pub use admission::TENANT;
pub use audit::CallNotes;
pub use body::{HeldBytes, RequestBytes};
pub use call::CallDeadline;
pub use duties::{beat, blocking, keep};
pub use elf::script_mistake;
pub use files::TooFewFiles;
pub use flights::{Flights, Leaving};
pub use gate::{ActsForAll, AdminProven, RoleProven};
pub use health::{Health, LIVENESS};
pub use host::{Host, HostError};
pub use key_set::JwksError;
pub use metrics::{COMPILE_SECONDS, Metrics, RPC_SECONDS, RUN_SECONDS};
pub use operator::{LoopbackOperators, is_operator};
pub use options::{Options, Request, main};
pub use page::{Page, PageAnswer, StatusTable};
pub use peer::Peer;
pub use roles::{Need, need};
pub use server::{App, Callers, ServeError, Server, drain, stop_signal};
pub use status::{ERROR_DOMAIN, Fault, caller_s, chain};
pub use telemetry::{Telemetry, TelemetryError, fact, inject, past_span, set_log_filter};
pub use tls::TlsError;
pub use tls_client::{TlsClient, endpoint_at};
pub use token_file::TokenFile;
pub use usage::Usage;
pub use workers::WorkerNumbers;

pub use crate::metrics::{set_gauge, set_total};
