//! Section `[web]`: the listener for browsers and JSON clients, and the origins that may call.

use std::net::SocketAddr;

use http::{HeaderValue, Uri};

use crate::{check::Checker, section::section};

section! {
/// The listener for gRPC-web and JSON.
"web": RawWeb {
    /// Address and port for gRPC-web and JSON over HTTP/1.1 and HTTP/2; port 0 takes a free one; empty for
    /// none. `[tls]`, `[auth]` and the limits of `[listen]` hold for it, with as many connections again.
    address: text;
    /// Whose pages may call, such as `"https://app.example.com"`; exact, and none by default.
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
        for wrong in [
            "*",
            "null",
            "",
            "a.example",
            "https://a.example/",
            "https://A.example",
            "https://a.example:443",
            "http://a.example:80",
            "ftp://a.example",
            "https://u@a.example",
            "https://*.example/x",
            "https://a.example?x",
        ] {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
    }
}
