//! Section `[metrics]`.

use std::{net::SocketAddr, sync::Arc};

use crate::{check::Checker, section::section};

section! {
/// The HTTP listener of `/metrics`, `/healthz` and profiles.
"metrics": RawMetrics {
    /// Address and port for HTTP; port 0 takes a free one; empty switches it off.
    address: text = "127.0.0.1:9464".to_owned();
    /// Names of this host by which `/` and `/debug/*` may be asked for, beside `localhost` and IP addresses.
    hosts: list;
}
}

/// Maximum length of a host name in bytes.
const HOST_BYTES_MAX: usize = 253;

impl RawMetrics {
    /// Address of the listener, if enabled. `listen` is the address of the gRPC listener.
    pub(crate) fn check(&self, listen: &str, checker: &mut Checker) -> Option<SocketAddr> {
        if self.address.is_empty() {
            return None;
        }
        let address = checker.address("metrics.address", &self.address);
        if address.port() != 0 && self.address == listen {
            checker.record("metrics.address", "is the same as listen.address");
        }
        Some(address)
    }

    /// Host names by which pages may be requested, in lower case.
    pub(crate) fn page_hosts(&self, checker: &mut Checker) -> Arc<[String]> {
        let is_name = |name: &String| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            (1..=HOST_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
        };
        for name in self.hosts.iter().filter(|name| !is_name(name)) {
            let problem = format!("{name:?} is no name of a host; leave out ports and schemes");
            checker.record("metrics.hosts", problem);
        }
        self.hosts.iter().map(|name| name.to_ascii_lowercase()).collect()
    }
}
