//! Section `[listen]`: what the gRPC listener admits. The limits also apply to the web listener.

use std::{sync::Arc, time::Duration};

use crate::{
    check::Checker,
    section::{MIB, section},
    web::Web,
};

/// Minimum streams per connection that RFC 9113 recommends.
const STREAMS_MIN: u32 = 100;

/// Chunk length in bytes that every server accepts, for a client that has not queried the limits.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// One in `RESERVE_PARTS` of a budget shared by peers is reserved for peers that use little.
pub const RESERVE_PARTS: u64 = 8;

/// The part of a budget that is available to owners that already use much.
#[must_use]
pub fn open_max(max: u64) -> u64 {
    max - max / RESERVE_PARTS
}

section! {
/// The gRPC listener.
"listen": RawListen => Listen(
    /// Host names by which pages may be requested, in lower case.
    page_hosts: Arc<[String]>,
    /// The listener for gRPC-web and JSON, if enabled.
    web: Option<Web>,
    /// Maximum time until the response of a call starts, including the time to receive the request. Derived
    /// from the limits of the services. A caller that sends its request byte by byte holds its slot no longer
    /// than the slowest legitimate caller.
    call_time_max: Duration,
    /// Maximum length of a message in either direction, in bytes. Derived from the maximum length of a
    /// script.
    message_bytes_max: usize,
) {
    /// Address and port for gRPC; port 0 takes a free one.
    address: address = "127.0.0.1:50051".to_owned();
    /// Accept an address beyond loopback without encryption, or without asking anybody who they are.
    allow_open: flag;
    /// Calls in progress at once, and as many connections; more calls get RESOURCE_EXHAUSTED. Health checks do
    /// not count. A peer (an IPv4 address, or an IPv6 network of 64 bits) may have three quarters of the calls
    /// and a quarter of the connections, each of its tenants half. The last eighth is for peers that have few.
    calls_max: count = 1_024;
    /// Bytes of requests that are being received or worked at, over all connections; more get
    /// RESOURCE_EXHAUSTED. One peer may have half. The last eighth is for peers that have few.
    request_bytes_max: positive = 256 * MIB;
    /// A connection without calls is closed after so long.
    fixed connection_idle_ms_max as connection_idle_max: time = 120_000;
    /// A connection without traffic is pinged after so long.
    fixed keepalive_interval_ms as keepalive_interval: time = 20_000;
    /// A connection that does not answer a ping for so long is closed.
    fixed keepalive_timeout_ms as keepalive_timeout: time = 10_000;
    /// At SIGTERM: how long health says NOT_SERVING before the listener closes; 0 for at once.
    drain_delay_ms as drain_delay: pause = 500;
    /// At SIGTERM: how long calls in progress may take to end.
    drain_grace_ms as drain_grace: time = 25_000;
}
}

/// Maximum bytes of a message in addition to a script: arguments, cells, field tags.
const MESSAGE_REST_BYTES_MAX: u64 = 4 * MIB;

/// Maximum length of a message in bytes, for scripts of at most `script_bytes_max`.
pub(crate) fn message_bytes_max(script_bytes_max: u64) -> u64 {
    script_bytes_max.saturating_add(MESSAGE_REST_BYTES_MAX)
}

/// Shares of one peer and of one of its tenants: behind a proxy all callers are one peer.
impl Listen {
    /// Share of `calls_max` for one peer.
    #[must_use]
    pub fn calls_per_peer_max(&self) -> usize {
        self.calls_max - self.calls_max / 4
    }

    /// Share of `calls_max` for one tenant of a peer.
    #[must_use]
    pub fn calls_per_tenant_max(&self) -> usize {
        self.calls_max.div_ceil(2)
    }

    /// Share of `calls_max` for one connection. At least what HTTP/2 recommends, so that a long-lived stream
    /// leaves slots for calls.
    #[must_use]
    pub fn streams_per_connection_max(&self) -> u32 {
        u32::try_from(self.calls_max.div_ceil(4)).unwrap_or(u32::MAX).max(STREAMS_MIN)
    }

    /// Maximum connections: one for each call.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.calls_max
    }

    /// Share of the connections for one peer.
    #[must_use]
    pub fn connections_per_peer_max(&self) -> usize {
        self.connections_max().div_ceil(4)
    }

    /// Share of `request_bytes_max` for one peer.
    #[must_use]
    pub fn request_bytes_per_peer_max(&self) -> u64 {
        self.request_bytes_max / 2
    }
}

impl RawListen {
    /// Checks the limits against `message_bytes_max`, the maximum length of a message.
    pub(crate) fn agree(&self, message_bytes_max: u64, checker: &mut Checker) {
        if self.request_bytes_max / 2 < message_bytes_max {
            let problem = format!(
                "must be at least twice the longest message, which has {message_bytes_max} bytes (compiler.script_bytes_max and \
                 {MESSAGE_REST_BYTES_MAX}): a peer may have half of it"
            );
            checker.record("listen.request_bytes_max", problem);
        }
    }
}
