//! Connections to servers: how they are made, and names and files that are looked at again.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use antares_tls::{ClientFiles, TlsClient, endpoint_at, read};
use arc_swap::ArcSwap;
use tonic::transport::{self, Channel, Endpoint};

use crate::{
    Error,
    balance::{Balance, Server},
    circuit_breaker::CircuitSettings,
    resolve::{ResolveSettings, Resolver, Url},
};

/// Silence before a ping, and before its answer.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);

/// Time between two looks at names and files.
const RENEW: Duration = Duration::from_secs(10);

/// How names become servers, for a client.
const RESOLVE: ResolveSettings = ResolveSettings {
    // A headless service of a large cluster.
    addresses_max: 1024,
    circuit: CircuitSettings {
        // Every server can answer every call, so nothing is lost where one that came back waits for its turn.
        open: Duration::from_secs(5),
        open_max: Duration::from_secs(5),
    },
};

/// Makes connections. Clones share what the files of TLS say.
#[derive(Clone, Debug)]
pub struct Connector {
    /// Encrypts, for `https://`.
    pub tls: Option<TlsClient>,
    /// Longest wait for a connection.
    pub time_max: Duration,
    /// A connection with calls on it that is silent for so long is pinged, and closed after as long without
    /// an answer.
    pub keepalive: Duration,
    /// Bytes of an answer that are taken before they are read; of all answers on a connection together 256
    /// times as many. None for what the library takes.
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

    /// A channel to `url`, or to one `address` of those that its name has. It connects when it is needed.
    ///
    /// # Errors
    /// The URL is none.
    pub fn channel(&self, url: &str, address: Option<SocketAddr>) -> Result<Channel, transport::Error> {
        let shape = |endpoint| self.shape(endpoint);
        match (&self.tls, address) {
            (Some(tls), Some(address)) => tls.channel_at(url, address, shape),
            (Some(tls), None) => tls.channel(url, shape),
            (None, Some(address)) => Ok(shape(endpoint_at(url, address)?).connect_lazy()),
            (None, None) => Ok(shape(Endpoint::from_shared(url.to_owned())?).connect_lazy()),
        }
    }

    /// A channel to `url`, connected.
    ///
    /// # Errors
    /// The URL is none, or the server cannot be reached or refuses.
    pub async fn connect(&self, url: &str) -> Result<Channel, transport::Error> {
        let shape = |endpoint| self.shape(endpoint);
        match &self.tls {
            Some(tls) => tls.connect(url, shape).await,
            None => shape(Endpoint::from_shared(url.to_owned())?).connect().await,
        }
    }
}

/// The servers at `urls`, looked up again as long as somebody has them. Call it within a runtime.
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

/// What the files say, none where one cannot be read.
fn contents(files: &ClientFiles) -> Option<Vec<Vec<u8>>> {
    files.all().iter().map(|path| read(path).ok()).collect()
}

/// Looks names and files up for as long as there is a client. What is of no use changes nothing.
async fn renew(
    balance: Weak<ArcSwap<Vec<Arc<Server>>>>,
    mut resolver: Resolver,
    tls: Option<TlsClient>,
    mut seen: Option<Vec<Vec<u8>>>,
) {
    // Whether there are files that no server was connected to with.
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
