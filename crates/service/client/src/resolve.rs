//! Names of servers and their current addresses. A name may have many: each is a server.

use std::{io, net::SocketAddr, sync::Arc};

use antares_tls::bare;
use http::Uri;
use tokio::net::lookup_host;

use crate::{
    Error,
    balance::{Balance, Server},
    circuit_breaker::CircuitSettings,
    connect::Connector,
};

/// A server's URL, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(crate) text: String,
    has_path: bool,
    host: String,
    port: u16,
    is_tls: bool,
}

impl Url {
    /// Parses `https://host:port` and `http://host:port`, with a default port.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Url { url: text.to_owned(), problem: problem.to_owned() };
        let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("no https:// and no http://")),
        };
        let host = bare(uri.host().unwrap_or_default()).to_owned();
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        Ok(Self { text: text.to_owned(), has_path, host, port, is_tls })
    }

    /// The same, but nothing may follow the port.
    pub(crate) fn without_path(self) -> Result<Self, Error> {
        if self.has_path {
            let problem = "there is something behind the port".to_owned();
            return Err(Error::Url { url: self.text, problem });
        }
        Ok(self)
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is `https://`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The addresses of the name, unique and sorted.
    async fn addresses(&self, most: usize) -> io::Result<Vec<SocketAddr>> {
        let mut found: Vec<_> = lookup_host((self.host.as_str(), self.port)).await?.take(most).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Whether nobody can eavesdrop on the way to `url`: it is encrypted, or stays on this machine.
#[must_use]
pub fn is_private(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return url.starts_with("unix://") };
    let host = bare(uri.host().unwrap_or_default());
    matches!(uri.scheme_str(), Some("https" | "unix"))
        || host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Resolution of names to servers.
#[derive(Clone, Copy, Debug)]
pub struct ResolveSettings {
    /// Addresses used per name.
    pub addresses_max: usize,
    /// The circuits of the servers.
    pub circuit: CircuitSettings,
}

/// Result of resolving all names.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Names without an address, with the error if any.
    pub missing: Vec<(Url, Option<io::Error>)>,
    /// The new number of servers, if they changed.
    pub changed: Option<usize>,
    /// Whether servers have addresses: each name had at least one.
    pub is_whole: bool,
}

/// Resolves names and makes servers of their addresses.
#[derive(Clone, Debug)]
pub struct Resolver {
    urls: Vec<Url>,
    settings: ResolveSettings,
    connector: Connector,
    /// Each name's addresses, as resolved last.
    found: Vec<Vec<SocketAddr>>,
}

impl Resolver {
    /// For `urls`, at least one.
    #[must_use]
    pub fn new(urls: Vec<Url>, settings: ResolveSettings, connector: Connector) -> Self {
        let found = vec![Vec::new(); urls.len()];
        Self { urls, settings, connector, found }
    }

    /// The servers by name, before the first resolution.
    ///
    /// # Errors
    /// A URL is invalid.
    pub fn by_name(&self) -> Result<Balance, Error> {
        let servers = self.urls.iter().map(|url| self.server(url, None));
        Ok(Balance::new(servers.collect::<Result<_, _>>()?))
    }

    /// The server at `url`, or at one `address` of it.
    fn server(&self, url: &Url, address: Option<SocketAddr>) -> Result<Arc<Server>, Error> {
        let channel = self.connector.channel(&url.text, address).map_err(|error| {
            let problem = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            Error::Url { url: url.text.clone(), problem }
        })?;
        let place = address.map_or(url.text.clone(), |address| address.to_string());
        Ok(Arc::new(Server::new(name(url, address), place, channel, self.settings.circuit)))
    }

    /// Resolves all names once. A name that fails to resolve keeps its addresses. Remaining servers of
    /// `balance` keep their connections unless `anew` is set.
    pub async fn look_up(&mut self, balance: &Balance, anew: bool) -> Resolved {
        let mut resolved = Resolved::default();
        for (url, found) in self.urls.iter().zip(&mut self.found) {
            match url.addresses(self.settings.addresses_max).await {
                Ok(addresses) if !addresses.is_empty() => *found = addresses,
                Ok(_) => resolved.missing.push((url.clone(), None)),
                Err(error) => resolved.missing.push((url.clone(), Some(error))),
            }
        }
        // Before the first result, calls use the name.
        if self.found.iter().any(Vec::is_empty) {
            return resolved;
        }
        let known = balance.servers();
        let kept = if anew { &[][..] } else { &known[..] };
        let Ok(servers) = self.servers(kept) else { return resolved };
        resolved.is_whole = true;
        let names = |servers: &[Arc<Server>]| -> Vec<String> {
            servers.iter().map(|server| server.name().to_owned()).collect()
        };
        if anew || names(&servers) != names(&known) {
            resolved.changed = Some(servers.len());
            balance.replace(servers);
        }
        resolved
    }

    /// A server for each address: those of `kept` where they remain.
    fn servers(&self, kept: &[Arc<Server>]) -> Result<Vec<Arc<Server>>, Error> {
        let all = self.urls.iter().zip(&self.found);
        let all = all.flat_map(|(url, found)| found.iter().map(move |address| (url, Some(*address))));
        let server = |(url, address)| match kept.iter().find(|kept| kept.name() == name(url, address)) {
            Some(kept) => Ok(kept.clone()),
            None => self.server(url, address),
        };
        all.map(server).collect()
    }
}

fn name(url: &Url, address: Option<SocketAddr>) -> String {
    address.map_or(url.text.clone(), |address| format!("{} ({address})", url.text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn resolver(urls: &[&str]) -> Resolver {
        let circuit = CircuitSettings { open: Duration::from_secs(1), open_max: Duration::from_secs(1) };
        let urls = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
        Resolver::new(urls, ResolveSettings { addresses_max: 8, circuit }, Connector::default())
    }

    fn names(balance: &Balance) -> Vec<String> {
        balance.servers().iter().map(|server| server.name().to_owned()).collect()
    }

    #[test]
    fn urls_are_looked_at() {
        let url = Url::parse("https://[::1]:7").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.is_tls), ("::1", 7, true));
        assert_eq!(Url::parse("http://there").unwrap().port, 80);
        assert_eq!(Url::parse("https://there/").unwrap().port, 443);
        for wrong in ["", "there:1", "ftp://there", "https://", "http://there/path", "http://there?query"] {
            let read = Url::parse(wrong).and_then(Url::without_path);
            assert!(matches!(read, Err(Error::Url { .. })), "{wrong}");
        }
    }

    #[test]
    fn ways_on_which_nobody_reads_along() {
        for url in
            ["https://there", "http://localhost:1", "http://127.0.0.1", "http://[::1]:7", "unix:///a/b"]
        {
            assert!(is_private(url), "{url}");
        }
        for url in ["http://there", "http://10.0.0.1:1", "", "there"] {
            assert!(!is_private(url), "{url}");
        }
    }

    #[tokio::test]
    async fn names_have_addresses() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        for (url, address) in [
            ("http://127.0.0.1:50051", "127.0.0.1:50051"),
            ("https://127.0.0.1", "127.0.0.1:443"),
            ("http://[::1]:7/", "[::1]:7"),
        ] {
            assert_eq!(Url::parse(url).unwrap().addresses(8).await.unwrap(), at(address));
        }
    }

    #[tokio::test]
    async fn servers_go_by_name_until_each_name_has_an_address() {
        let mut one = resolver(&["http://127.0.0.1:1", "http://nowhere.invalid:1"]);
        let balance = one.by_name().unwrap();
        let resolved = one.look_up(&balance, false).await;
        assert_eq!((resolved.missing.len(), resolved.changed, resolved.is_whole), (1, None, false));
        assert_eq!(names(&balance), ["http://127.0.0.1:1", "http://nowhere.invalid:1"]);
        // A name that had an address keeps it.
        one.found[1] = vec!["127.0.0.2:1".parse().unwrap()];
        let resolved = one.look_up(&balance, false).await;
        assert_eq!((resolved.missing.len(), resolved.changed, resolved.is_whole), (1, Some(2), true));
        let expected = ["http://127.0.0.1:1 (127.0.0.1:1)", "http://nowhere.invalid:1 (127.0.0.2:1)"];
        assert_eq!(names(&balance), expected);
    }

    #[tokio::test]
    async fn servers_that_stay_keep_their_connections_unless_all_are_wanted_anew() {
        let mut one = resolver(&["http://127.0.0.1:1"]);
        let balance = one.by_name().unwrap();
        assert_eq!(one.look_up(&balance, false).await.changed, Some(1));
        let first = balance.servers()[0].clone();
        assert_eq!(one.look_up(&balance, false).await.changed, None);
        assert!(Arc::ptr_eq(&first, &balance.servers()[0]));
        assert_eq!(one.look_up(&balance, true).await.changed, Some(1));
        assert!(!Arc::ptr_eq(&first, &balance.servers()[0]));
    }
}
