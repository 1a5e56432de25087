//! Sections `[listen]` and `[web]`: what the listeners admit. The limits of the first apply to both.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Uri};

use crate::{
    check::Checker,
    section::{MIB, section},
};

/// Minimum streams per connection that RFC 9113 recommends.
const STREAMS_MIN: u32 = 100;

/// Chunk length in bytes that every server accepts, for a client that has not queried the limits.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// One in `RESERVE_PARTS` of a budget shared by peers is reserved for peers that use little.
pub const RESERVE_PARTS: u64 = 8;

/// The part of a budget that is available to owners that already use much.
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
    /// The same for calls that run scripts.
    run_time_max: Duration,
    /// Maximum length of a message in either direction, in bytes. Derived from the maximum length of a
    /// script.
    message_bytes_max: usize,
) {
    /// Address and port for gRPC; port 0 takes a free one.
    address: address = "127.0.0.1:50051".to_owned();
    /// Allow an address beyond loopback without encryption or without authentication.
    allow_open: flag;
    /// Maximum concurrent calls, and as many connections; further calls get RESOURCE_EXHAUSTED. Health checks
    /// do not count. A peer (an IPv4 address or an IPv6 /64 network) may use three quarters of the calls and
    /// a quarter of the connections, and each of its tenants half of that. The last eighth is reserved for
    /// peers that use few.
    calls_max: count = 1_024;
    /// Maximum bytes of requests in progress, over all connections; further requests get RESOURCE_EXHAUSTED.
    /// One peer may use half. The last eighth is reserved for peers that use few.
    request_bytes_max: positive = 256 * MIB;
    /// A connection without calls is closed after so long.
    fixed connection_idle_ms_max as connection_idle_max: time = 120_000;
    /// A connection without traffic is pinged after so long.
    fixed keepalive_interval_ms as keepalive_interval: time = 20_000;
    /// A connection that does not answer a ping for so long is closed.
    fixed keepalive_timeout_ms as keepalive_timeout: time = 10_000;
    /// On SIGTERM: time for which health reports NOT_SERVING before the listener closes; 0 closes it
    /// immediately.
    drain_delay_ms as drain_delay: pause = 500;
    /// On SIGTERM: time in which calls in progress may end.
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
    pub fn calls_per_peer_max(&self) -> usize {
        self.calls_max - self.calls_max / 4
    }

    /// Share of `calls_max` for one tenant of a peer.
    pub fn calls_per_tenant_max(&self) -> usize {
        self.calls_max.div_ceil(2)
    }

    /// Share of `calls_max` for one connection. At least what HTTP/2 recommends, so that a long-lived stream
    /// leaves slots for calls.
    pub fn streams_per_connection_max(&self) -> u32 {
        u32::try_from(self.calls_max.div_ceil(4)).unwrap_or(u32::MAX).max(STREAMS_MIN)
    }

    /// Maximum connections: one for each call.
    pub fn connections_max(&self) -> usize {
        self.calls_max
    }

    /// Share of the connections for one peer.
    pub fn connections_per_peer_max(&self) -> usize {
        self.connections_max().div_ceil(4)
    }

    /// Share of `request_bytes_max` for one peer.
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

section! {
/// The listener for gRPC-web and JSON.
"web": RawWeb {
    /// Address and port for gRPC-web and JSON over HTTP/1.1 and HTTP/2; port 0 takes a free one; empty for
    /// none. `[tls]`, `[auth]` and the limits of `[listen]` apply to it, with the same number of further
    /// connections.
    address: text;
    /// Origins whose pages may call, such as `"https://app.example.com"`; exact, and none by default.
    origins: list;
}
}

/// The listener for gRPC-web and JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// Address and port of the listener.
    pub address: SocketAddr,
    /// Origins that may call, as browsers send them.
    pub origins: Vec<HeaderValue>,
}

impl RawWeb {
    /// `listen` and `metrics`: the addresses of the other listeners.
    pub(crate) fn check(&self, listen: &str, metrics: &str, checker: &mut Checker) -> Option<Web> {
        let origins = self.origins.iter().filter_map(|origin| {
            let checked = origin_of(origin);
            if checked.is_none() {
                let problem = format!(
                    "{origin:?} is no origin: http or https, a host, perhaps a port, and nothing else"
                );
                checker.record("web.origins", problem);
            }
            checked
        });
        let origins: Vec<_> = origins.collect();
        if self.address.is_empty() {
            if !self.origins.is_empty() {
                checker.record("web.origins", "makes no sense without web.address");
            }
            return None;
        }
        let address = checker.address("web.address", &self.address);
        for (key, other) in [("listen.address", listen), ("metrics.address", metrics)] {
            if address.port() != 0 && self.address == other {
                checker.record("web.address", format!("is the same as {key}"));
            }
        }
        Some(Web { address, origins })
    }
}

/// `text` as the origin that a browser sends; `None` for an invalid origin.
fn origin_of(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let host = uri.host().filter(|host| !host.is_empty() && *host == host.to_ascii_lowercase())?;
    let port = uri.port_u16();
    // Browsers omit default ports.
    let is_usual = matches!((scheme, port), ("http", Some(80)) | ("https", Some(443)));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    (!is_usual && text == format!("{scheme}://{host}{port}")).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for right in ["https://a.example", "http://[::1]:3000"] {
            assert_eq!(origin_of(right).unwrap(), right);
        }
        let wrong = "* null a.example https://a.example/ https://A.example https://a.example:443 http://a.example:80 \
                     ftp://a.example https://u@a.example https://*.example/x https://a.example?x";
        for wrong in wrong.split(' ').chain([""]) {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
    }
}
