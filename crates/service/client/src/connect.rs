//! Connections to servers, and periodic renewal of names and files.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use antares_tls::{ClientFiles, TlsClient, endpoint, read};
use arc_swap::ArcSwap;
use tonic::transport::{self, Channel, Endpoint};

use crate::{
    Error,
    balance::{Balance, Server},
    circuit_breaker::CircuitSettings,
    resolve::{ResolveSettings, Resolver, Url},
};

/// Silence before a ping, and timeout for its answer.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);

/// Interval between checks of names and files.
const RENEW: Duration = Duration::from_secs(10);

/// A client's resolution of names to servers.
const RESOLVE: ResolveSettings = ResolveSettings {
    // A headless service of a large cluster.
    addresses_max: 1024,
    circuit: CircuitSettings {
        // Any server can answer any call, so a recovered server can wait for its turn.
        open: Duration::from_secs(5),
        open_max: Duration::from_secs(5),
    },
};

/// Makes connections. Clones share the contents of the TLS files.
#[derive(Clone, Debug)]
pub struct Connector {
    /// TLS for `https://`.
    pub tls: Option<TlsClient>,
    /// Longest wait for a connection.
    pub time_max: Duration,
    /// A connection with calls that is silent for this long is pinged, and closed after another such time
    /// without an answer.
    pub keepalive: Duration,
    /// Bytes of a response that are buffered before they are read; 256 times as many for all of a connection.
    /// None for the library's default.
    pub window_bytes: Option<u32>,
}

impl Default for Connector {
    fn default() -> Self {
        Self { tls: None, time_max: Duration::from_secs(5), keepalive: KEEPALIVE, window_bytes: None }
    }
}

impl Connector {
    fn shape(&self, endpoint: Endpoint) -> Endpoint {
        endpoint
            .connect_timeout(self.time_max)
            .tcp_nodelay(true)
            .initial_stream_window_size(self.window_bytes)
            .initial_connection_window_size(self.window_bytes.map(|bytes| bytes.saturating_mul(256)))
            .http2_keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive)
    }

    /// A channel to `url`, or to one `address` of its name. It connects on demand.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn channel(&self, url: &str, address: Option<SocketAddr>) -> Result<Channel, transport::Error> {
        let shape = |endpoint| self.shape(endpoint);
        match (&self.tls, address) {
            (Some(tls), _) => tls.channel(url, address, shape),
            (None, Some(_)) => Ok(shape(endpoint(url, address)?).connect_lazy()),
            (None, None) => Ok(shape(Endpoint::from_shared(url.to_owned())?).connect_lazy()),
        }
    }

    /// A channel to `url`, connected.
    ///
    /// # Errors
    /// The URL is invalid, or the server is unreachable or refuses.
    pub async fn connect(&self, url: &str) -> Result<Channel, transport::Error> {
        let shape = |endpoint| self.shape(endpoint);
        match &self.tls {
            Some(tls) => tls.connect(url, shape).await,
            None => shape(Endpoint::from_shared(url.to_owned())?).connect().await,
        }
    }
}

/// The servers at `urls`, resolved again while anybody uses them. Call it within a runtime.
pub(crate) fn connect(
    urls: Vec<Url>,
    files: &ClientFiles,
    mut connector: Connector,
) -> Result<Balance, Error> {
    let seen = contents(files);
    if urls.iter().any(Url::is_tls) {
        connector.tls = Some(TlsClient::load(files)?);
    }
    let tls = connector.tls.clone();
    let resolver = Resolver::new(urls, RESOLVE, connector);
    let balance = resolver.by_name()?;
    tokio::spawn(renew(balance.downgrade(), resolver, tls, seen));
    Ok(balance)
}

/// Contents of the files; none if one cannot be read.
fn contents(files: &ClientFiles) -> Option<Vec<Vec<u8>>> {
    files.all().iter().map(|path| read(path).ok()).collect()
}

/// Renews names and files while a client exists. Invalid contents change nothing.
async fn renew(
    balance: Weak<ArcSwap<Vec<Arc<Server>>>>,
    mut resolver: Resolver,
    tls: Option<TlsClient>,
    mut seen: Option<Vec<Vec<u8>>>,
) {
    // Whether there are files that no connection has used yet.
    let mut is_new = false;
    loop {
        let Some(balance) = Balance::upgrade(&balance) else { return };
        if let Some(tls) = &tls {
            let now = contents(tls.files());
            if now.is_some() && now != seen && tls.reload().is_ok() {
                (seen, is_new) = (now, true);
            }
        }
        is_new &= !resolver.look_up(&balance, is_new).await.is_whole;
        drop(balance);
        tokio::time::sleep(RENEW).await;
    }
}
