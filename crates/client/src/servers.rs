//! The servers that are known now: which of them is asked next, and what their names and files say today.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::{
    Error,
    endpoints::{Connecting, TlsFiles, Url},
    naming::Naming,
};

/// How long a server that could not be reached comes last.
const PASSED_OVER: Duration = Duration::from_secs(5);
/// Addresses of one name, at most.
const ADDRESSES_MAX: usize = 1024;
/// A connection with calls on it that is silent for so long is asked whether it still is one.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) channel: Channel,
    /// Scripts that were brought there, when, and how they are named since. One upload at a time.
    pub(crate) brought: tokio::sync::Mutex<HashMap<String, (Instant, Naming)>>,
    in_progress: AtomicUsize,
    gone: Mutex<Option<Instant>>,
}

impl Server {
    /// It could not be reached.
    pub(crate) fn pass_over(&self) {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_passed_over(&self) -> bool {
        let gone = *self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.is_some_and(|since| since.elapsed() < PASSED_OVER)
    }
}

/// A server for one attempt.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Server>);

impl Lease {
    fn of(server: &Arc<Server>) -> Self {
        server.in_progress.fetch_add(1, Ordering::Relaxed);
        Self(server.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All servers.
#[derive(Debug)]
pub(crate) struct Servers {
    known: Arc<ArcSwap<Vec<Arc<Server>>>>,
}

impl Servers {
    pub(crate) fn new(urls: Vec<Url>, connecting: Connecting) -> Result<Self, Error> {
        let files = Files::read(&connecting.tls, &urls)?;
        let maker = Maker { urls, connecting, files };
        let by_name = maker.urls.iter().map(|url| maker.make(url, None));
        let known = Arc::new(ArcSwap::from_pointee(by_name.collect::<Result<_, _>>()?));
        tokio::spawn(renew(Arc::downgrade(&known), maker));
        Ok(Self { known })
    }

    /// The server with the fewest calls in progress, of those that can be reached; another one than `last` if
    /// there is one.
    pub(crate) fn pick(&self, last: Option<&str>) -> Lease {
        let known = self.known.load();
        let burden = |server: &&Arc<Server>| {
            let is_last = last.is_some_and(|last| last == server.name);
            let calls = server.in_progress.load(Ordering::Relaxed);
            (is_last, server.is_passed_over(), calls, rand::random::<u32>())
        };
        // A client is made with one server at least, and names without an address change nothing.
        Lease::of(known.iter().min_by_key(burden).expect("there is a server"))
    }
}

/// What the files for TLS held.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
    ca: Option<Vec<u8>>,
    pair: Option<(Vec<u8>, Vec<u8>)>,
}

impl Files {
    fn read(names: &TlsFiles, urls: &[Url]) -> Result<Self, Error> {
        if !urls.iter().any(|url| url.is_tls) {
            return Ok(Self { ca: None, pair: None });
        }
        let bytes = |path: &Path| fs::read(path).map_err(|error| Error::file(path, &error));
        let pair = match (&names.certificate, &names.key) {
            (Some(certificate), Some(key)) => Some((bytes(certificate)?, bytes(key)?)),
            (None, None) => None,
            (Some(path), None) | (None, Some(path)) => {
                let problem = "a certificate and its key come together".to_owned();
                return Err(Error::File { path: path.clone(), problem });
            }
        };
        Ok(Self { ca: names.ca.as_deref().map(bytes).transpose()?, pair })
    }

    fn config(&self, host: &str) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().domain_name(host);
        let config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
            None => config.with_native_roots(),
        };
        match &self.pair {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

/// Makes servers.
struct Maker {
    urls: Vec<Url>,
    connecting: Connecting,
    files: Files,
}

impl Maker {
    /// The server at `url`, or at one `address` of those that it has.
    fn make(&self, url: &Url, address: Option<SocketAddr>) -> Result<Arc<Server>, Error> {
        let wrong = |error: tonic::transport::Error| {
            let problem = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            Error::Url { url: url.text.clone(), problem }
        };
        let scheme = if url.is_tls { "https" } else { "http" };
        let place = address.map_or(url.text.clone(), |address| format!("{scheme}://{address}"));
        let endpoint = Endpoint::from_shared(place).map_err(wrong)?;
        let mut endpoint = endpoint
            .origin(url.uri.clone())
            .connect_timeout(self.connecting.time_max)
            .http2_keep_alive_interval(KEEPALIVE)
            .tcp_nodelay(true);
        if url.is_tls {
            endpoint = endpoint.tls_config(self.files.config(&url.host)).map_err(wrong)?;
        }
        let name = address.map_or(url.text.clone(), |address| format!("{} ({address})", url.text));
        let channel = endpoint.connect_lazy();
        Ok(Arc::new(Server {
            name,
            channel,
            brought: tokio::sync::Mutex::default(),
            in_progress: AtomicUsize::new(0),
            gone: Mutex::default(),
        }))
    }

    /// What there is today: servers of `known` with their connections where they stay the same. None if a
    /// name has no address.
    async fn today(&self, known: &[Arc<Server>]) -> Option<Vec<Arc<Server>>> {
        let mut servers = Vec::new();
        for url in &self.urls {
            let found = lookup_host((url.host.as_str(), url.port)).await.ok()?;
            let mut found: Vec<_> = found.take(ADDRESSES_MAX).collect();
            found.sort_unstable();
            found.dedup();
            for address in found {
                let made = self.make(url, Some(address)).ok()?;
                let old = known.iter().find(|old| old.name == made.name).cloned();
                servers.push(old.unwrap_or(made));
            }
        }
        (!servers.is_empty()).then_some(servers)
    }
}

/// Looks names and files up for as long as there is a client. What is of no use changes nothing.
async fn renew(known: Weak<ArcSwap<Vec<Arc<Server>>>>, mut maker: Maker) {
    loop {
        let Some(held) = known.upgrade().map(|known| known.load_full()) else { return };
        let files =
            Files::read(&maker.connecting.tls, &maker.urls).ok().filter(|files| *files != maker.files);
        let are_old = files.is_some();
        let before = files.map(|files| std::mem::replace(&mut maker.files, files));
        match maker.today(if are_old { &[] } else { &held }).await {
            Some(today) if are_old || !is_same(&today, &held) => {
                let Some(known) = known.upgrade() else { return };
                known.store(Arc::new(today));
            }
            Some(_) => {}
            // Tried again with the same files the next time.
            None => maker.files = before.unwrap_or(maker.files),
        }
        drop(held);
        tokio::time::sleep(maker.connecting.renew).await;
    }
}

fn is_same(left: &[Arc<Server>], right: &[Arc<Server>]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.name == right.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    fn servers(count: u16) -> Servers {
        let urls = (1..=count).map(|port| format!("http://127.0.0.1:{port}"));
        Client::builder().servers(urls).build().unwrap().into_servers()
    }

    #[tokio::test]
    async fn calls_go_where_the_fewest_are_and_not_to_who_is_gone() {
        let servers = servers(3);
        let leases: Vec<_> = (0..3).map(|_| servers.pick(None)).collect();
        let mut names: Vec<_> = leases.iter().map(|lease| lease.0.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "each has one");
        let free = leases[1].0.name.clone();
        let mut leases = leases.into_iter();
        let first = leases.next();
        drop(leases.next());
        assert_eq!(servers.pick(None).0.name, free);
        assert_ne!(servers.pick(Some(&free)).0.name, free);
        servers.pick(None).0.pass_over();
        assert_ne!(servers.pick(None).0.name, free);
        drop(first);
    }

    #[tokio::test]
    async fn the_only_server_is_asked_again() {
        let servers = servers(1);
        let lease = servers.pick(None);
        lease.0.pass_over();
        assert_eq!(servers.pick(Some(&lease.0.name)).0.name, lease.0.name);
    }
}
