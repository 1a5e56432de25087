//! By which names pages may be asked for. A page of a stranger can have its own name lead here (DNS
//! rebinding), and its reader's browser then lets it read what it gets: pages for people answer only names
//! that are nobody else's.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, header::HOST, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// What programs ask for, which says nothing that a stranger's page could use; scrapers and probes use any
/// name.
const FOR_ALL: [&str; 3] = ["/metrics", "/healthz", "/livez"];

/// The names of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct PageHosts(Arc<[String]>);

impl PageHosts {
    /// `names` are in lower case.
    pub(crate) fn new(names: Arc<[String]>) -> Self {
        Self(names)
    }

    fn has(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        host.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }

    /// Whether all that a request says of whom it is for is one of ours, and it says so once.
    fn takes(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        // Names of users before an `@` are no part of the header.
        let host = host.to_str().ok().filter(|host| !host.contains('@'));
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        host.is_some_and(|host| self.has(&host)) && uri.authority().is_none_or(|asked| self.has(asked))
    }

    /// Lets a request through to its page.
    pub(crate) async fn pass(self, request: Request, next: Next) -> Response {
        if FOR_ALL.contains(&request.uri().path()) || self.takes(request.uri(), request.headers()) {
            return next.run(request).await;
        }
        let problem = "ask by an IP address, by localhost or by a name in metrics.hosts\n";
        (StatusCode::MISDIRECTED_REQUEST, problem).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn takes(hosts: &[&str], uri: &str) -> bool {
        let names = PageHosts(["antares.example".to_owned()].into());
        let hosts = hosts.iter().map(|host| (HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap()));
        names.takes(&uri.parse().unwrap(), &hosts.collect())
    }

    #[test]
    fn names_of_strangers_are_refused() {
        for host in [
            "localhost",
            "LOCALHOST:9464",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1",
            "127.0.0.1:9464",
            "[::1]:9464",
            "[fe80::1]",
            "10.0.0.7:80",
            "antares.example",
            "Antares.Example:9464",
            "antares.example.",
        ] {
            assert!(takes(&[host], "/"), "{host}");
        }
        for host in [
            "",
            "evil.test",
            "evil.test:9464",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "xlocalhost",
            "antares.example.evil.test",
            "evil-antares.example",
            "x@localhost",
            "localhost@evil.test",
            "[::1",
            "localhost evil",
            "evil.test/localhost",
            "127.1",
            "0x7f000001",
            "2130706433",
            "..",
            "localhost..",
            "\u{e4}",
        ] {
            assert!(!takes(&[host], "/"), "{host}");
        }
        assert!(!takes(&[], "/") && !takes(&["localhost", "localhost"], "/"));
        assert!(!takes(&["localhost"], "http://evil.test/") && takes(&["localhost"], "http://127.0.0.1:1/"));
    }
}
