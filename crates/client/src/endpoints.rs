//! Where servers are, and how they are connected to.

use std::{path::PathBuf, time::Duration};

use http::Uri;

use crate::Error;

/// Longest wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time between two looks at names and files.
const RENEW: Duration = Duration::from_secs(10);

/// Files for TLS, PEM. They are looked at every ten seconds; what is renewed in them is used by connections
/// from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that servers' certificates come from; without it the system's.
    pub ca: Option<PathBuf>,
    /// The client's certificate and those above it.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// How servers are connected to.
#[derive(Clone, Debug)]
pub(crate) struct Connecting {
    pub(crate) tls: TlsFiles,
    pub(crate) time_max: Duration,
    /// Time between two looks at addresses and files.
    pub(crate) renew: Duration,
}

impl Default for Connecting {
    fn default() -> Self {
        Self { tls: TlsFiles::default(), time_max: CONNECT_TIME_MAX, renew: RENEW }
    }
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) uri: Uri,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Url { url: text.to_owned(), problem: problem.to_owned() };
        let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("no https:// and no http://")),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("there is something behind the port"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { text: text.to_owned(), uri, host, port, is_tls })
    }

    /// Whether nobody reads along on the way.
    pub(crate) fn is_safe(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.is_tls || self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_looked_at() {
        let url = Url::parse("https://[::1]:7").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.is_tls), ("::1", 7, true));
        assert_eq!(Url::parse("http://there").unwrap().port, 80);
        assert_eq!(Url::parse("https://there/").unwrap().port, 443);
        for wrong in ["", "there:1", "ftp://there", "https://", "http://there/path", "http://there?query"] {
            assert!(matches!(Url::parse(wrong), Err(Error::Url { .. })), "{wrong}");
        }
    }
}
