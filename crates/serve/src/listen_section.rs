//! What the listeners of calls let in: the one for gRPC, and the limits that it shares with the one for
//! browsers.

use std::{net::SocketAddr, time::Duration};

use crate::{
    budget::open_max,
    check::Checker,
    page_hosts::PageHosts,
    raw_config::RawConfig,
    web_section::{Web, check_web},
};

/// Chunk length that every server takes, bytes: what a client can use that has not asked for limits.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// The gRPC listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// By which names pages for people may be asked for.
    pub page_hosts: PageHosts,
    /// The listener for gRPC-web and JSON, if there is one.
    pub web: Option<Web>,
    /// Whether reflection is served.
    pub reflection: bool,
    /// Longest message, bytes.
    pub message_bytes_max: usize,
    /// Calls in progress at once.
    pub calls_max: usize,
    /// Of one peer.
    pub calls_per_peer_max: usize,
    /// Of one tenant of a peer.
    pub calls_per_tenant_max: usize,
    /// Bytes of requests in progress.
    pub request_bytes_max: u64,
    /// Of one peer.
    pub request_bytes_per_peer_max: u64,
    /// Time that the server waits for the bytes of a message.
    pub request_time_max: Duration,
    /// Time that any call may take until its answer begins, its own bytes included. Follows from the limits
    /// of the services: a caller that sends its request byte by byte holds a place no longer than the slowest
    /// honest one.
    pub call_time_max: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Of one peer.
    pub connections_per_peer_max: usize,
    /// Time that a connection may be without calls.
    pub connection_idle_max: Duration,
    /// Time after which a connection takes no more calls.
    pub connection_age_max: Duration,
    /// Time for its calls to end then.
    pub connection_age_grace: Duration,
    /// Calls in progress at once on a connection.
    pub streams_per_connection_max: u32,
    /// Longest header list, bytes.
    pub header_bytes_max: u32,
    /// Streams opened and reset before they are accepted.
    pub pending_resets_max: usize,
    /// Time without traffic before a ping.
    pub keepalive_interval: Duration,
    /// Time for the answer to a ping.
    pub keepalive_timeout: Duration,
    /// Time between NOT_SERVING and the end of accepting.
    pub drain_delay: Duration,
    /// Time for calls in progress to end.
    pub drain_grace: Duration,
}

pub(crate) fn check_listen(config: &RawConfig, call_time_max: Duration, checker: &mut Checker) -> Listen {
    let raw = &config.listen;
    checker.positive("listen.request_bytes_max", raw.request_bytes_max);
    if raw.request_bytes_per_peer_max < raw.message_bytes_max {
        let problem = "is less than listen.message_bytes_max: such messages could not be sent".to_owned();
        checker.note("listen.request_bytes_per_peer_max", problem);
    }
    if raw.request_bytes_per_peer_max > open_max(raw.request_bytes_max) {
        let problem =
            "must be at most seven eighths of listen.request_bytes_max: the rest is for others".to_owned();
        checker.note("listen.request_bytes_per_peer_max", problem);
    }
    Listen {
        address: checker.address("listen.address", &raw.address),
        page_hosts: PageHosts::check(&config.metrics.hosts, checker),
        web: check_web(config, checker),
        reflection: raw.reflection,
        message_bytes_max: checker.count("listen.message_bytes_max", raw.message_bytes_max),
        calls_max: checker.count("listen.calls_max", raw.calls_max),
        calls_per_peer_max: checker.count("listen.calls_per_peer_max", raw.calls_per_peer_max),
        calls_per_tenant_max: checker.count("listen.calls_per_tenant_max", raw.calls_per_tenant_max),
        request_bytes_max: raw.request_bytes_max,
        request_bytes_per_peer_max: raw.request_bytes_per_peer_max,
        request_time_max: checker.time("listen.request_ms_max", raw.request_ms_max),
        call_time_max,
        connections_max: checker.count("listen.connections_max", raw.connections_max),
        connections_per_peer_max: checker
            .count("listen.connections_per_peer_max", raw.connections_per_peer_max),
        connection_idle_max: checker.time("listen.connection_idle_ms_max", raw.connection_idle_ms_max),
        connection_age_max: checker.time("listen.connection_age_ms_max", raw.connection_age_ms_max),
        connection_age_grace: checker.time("listen.connection_age_grace_ms", raw.connection_age_grace_ms),
        streams_per_connection_max: checker
            .number("listen.streams_per_connection_max", raw.streams_per_connection_max),
        header_bytes_max: checker.number("listen.header_bytes_max", raw.header_bytes_max),
        pending_resets_max: checker.count("listen.pending_resets_max", raw.pending_resets_max),
        keepalive_interval: checker.time("listen.keepalive_interval_ms", raw.keepalive_interval_ms),
        keepalive_timeout: checker.time("listen.keepalive_timeout_ms", raw.keepalive_timeout_ms),
        drain_delay: Duration::from_millis(raw.drain_delay_ms),
        drain_grace: checker.time("listen.drain_grace_ms", raw.drain_grace_ms),
    }
}
