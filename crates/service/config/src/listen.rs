//! Section `[listen]`: what the gRPC listener lets in; its limits hold for the one for browsers, too.

use std::{sync::Arc, time::Duration};

use crate::{
    check::Checker,
    section::{KIB, MIB, section},
    web::Web,
};

/// Chunk length that every server takes, bytes: what a client can use that has not asked for limits.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Of a budget that peers share this part, one in so many, is for peers that have few.
pub const RESERVE_PARTS: u64 = 8;

/// What can be granted of a budget to holders that have much already.
#[must_use]
pub fn open_max(max: u64) -> u64 {
    max - max / RESERVE_PARTS
}

section! {
/// The gRPC listener.
"listen": RawListen => Listen(
    /// By which names pages for people may be asked for, in lower case.
    page_hosts: Arc<[String]>,
    /// The listener for gRPC-web and JSON, if there is one.
    web: Option<Web>,
    /// Time that any call may take until its answer begins, its own bytes included. Follows from the limits
    /// of the services: a caller that sends its request byte by byte holds a place no longer than the slowest
    /// honest one.
    call_time_max: Duration,
) {
    /// Address and port for gRPC; port 0 takes a free one.
    address: address = "127.0.0.1:50051".to_owned();
    /// Accept an address beyond loopback without encryption, or without asking anybody who they are.
    allow_open: flag;
    /// Whether reflection is served.
    reflection: flag = true;
    /// Longest message in either direction.
    message_bytes_max: count = 20 * MIB;
    /// Calls in progress at once; more get RESOURCE_EXHAUSTED. Health checks do not count. The last eighth is
    /// for peers that have few.
    calls_max: count = 1_024;
    /// Of these, of one peer: an IPv4 address, or an IPv6 network of 64 bits.
    calls_per_peer_max: count = 768;
    /// Of these, of one tenant of a peer.
    calls_per_tenant_max: count = 512;
    /// Bytes of requests that are being received or worked at, over all connections; more get
    /// RESOURCE_EXHAUSTED. The last eighth is for peers that have few.
    request_bytes_max: positive = 256 * MIB;
    /// Of these, of one peer.
    request_bytes_per_peer_max: whole = 128 * MIB;
    /// How long the server waits for the bytes of a message.
    request_ms_max as request_time_max: time = 30_000;
    /// Connections at once; one more gets the place of an idle one of the peer that has most, or is closed.
    connections_max: count = 1_024;
    /// Of these, of one peer; one more gets the place of an idle one of its own, or is closed.
    connections_per_peer_max: count = 256;
    /// A connection without calls is closed after so long.
    connection_idle_ms_max as connection_idle_max: time = 120_000;
    /// A connection takes no more calls after so long, give or take a tenth.
    connection_age_ms_max as connection_age_max: time = 1_800_000;
    /// How long its calls may then take to end.
    connection_age_grace_ms as connection_age_grace: time = 300_000;
    /// Calls in progress at once on one connection.
    streams_per_connection_max: number = 256;
    /// Longest header list of a call.
    header_bytes_max: number = 16 * KIB;
    /// Streams that a connection may open and reset before they are accepted (rapid reset); more closes it.
    pending_resets_max: count = 32;
    /// A connection without traffic is pinged after so long.
    keepalive_interval_ms as keepalive_interval: time = 20_000;
    /// A connection that does not answer a ping for so long is closed.
    keepalive_timeout_ms as keepalive_timeout: time = 10_000;
    /// At SIGTERM: how long health says NOT_SERVING before the listener closes; 0 for at once.
    drain_delay_ms as drain_delay: pause = 500;
    /// At SIGTERM: how long calls in progress may take to end.
    drain_grace_ms as drain_grace: time = 25_000;
}
}

impl RawListen {
    pub(crate) fn agree(&self, checker: &mut Checker) {
        if self.request_bytes_per_peer_max < self.message_bytes_max {
            let problem = "is less than listen.message_bytes_max: such messages could not be sent".to_owned();
            checker.note("listen.request_bytes_per_peer_max", problem);
        }
        if self.request_bytes_per_peer_max > open_max(self.request_bytes_max) {
            let problem = "must be at most seven eighths of listen.request_bytes_max: the rest is for others"
                .to_owned();
            checker.note("listen.request_bytes_per_peer_max", problem);
        }
    }
}
