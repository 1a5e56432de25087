//! Common parts of both services: listener, health, reflection, metrics, tracing, drain.
//!
//! A service provides an [`App`]; [`Server::bind`] binds the addresses, [`Server::run`] serves until it is
//! stopped.

mod account;
pub mod admin;
mod admin_socket;
mod answer;
mod audit;
mod authenticator;
mod body;
mod budget;
mod connections;
mod elf;
mod expiry;
mod files;
mod handshake;
mod health;
mod host;
mod http;
mod identity;
mod jwt;
mod key_fetch;
mod key_set;
mod layers;
mod limits;
mod listener;
mod log_rate;
mod log_writer;
mod meter;
mod metrics;
mod openmetrics;
mod options;
mod page;
mod peer;
mod reload;
mod repeats;
mod request_lines;
mod roles;
mod server;
mod single_flight;
mod spans;
mod status;
mod tasks;
mod telemetry;
#[cfg(test)]
mod tests {
    pub(crate) mod jose_vectors;
    mod providers;
}
mod transport;
mod usage;
mod web;
mod workers;

pub use account::{Account, RunEstimate, TENANT};
pub use admin::is_operator;
pub use body::{HeldBytes, RequestBytes};
pub use elf::script_problem;
pub use files::TooFewFiles;
pub use health::{Health, LIVENESS};
pub use host::{Host, HostError};
pub use identity::{Identity, Namespace, Salt};
pub use key_set::JwksError;
pub use layers::{AnsweredElsewhere, CALLER, CallContext, Proven, SharedPlaces};
pub use metrics::{COMPILE_SECONDS, Counted, MetricRow, Metrics, RPC_SECONDS, RUN_SECONDS};
pub use options::{Options, main};
pub use page::{Page, PageAnswer};
pub use peer::Peer;
pub use reload::{watch as watch_files, watch_client as watch_tls};
pub use repeats::{Found, Repeats};
pub use roles::{Need, need};
pub use server::{App, ServeError, Server, drain, stop_signal};
pub use single_flight::{OnDrop, SingleFlight};
pub use status::{CALL_DEADLINE, ERROR_DOMAIN, Fault, caller_s, chain, closing};
pub use tasks::{beat, blocking, keep};
pub use telemetry::{Telemetry, TelemetryError, fact, inject, otlp_channel, past_span, set_log_filter};
pub use workers::{layer_names, pool_config};

pub use crate::metrics::{add_saturating, set_gauge, set_total};
