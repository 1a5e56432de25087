//! How a client's servers are connected to: with TLS files that are read again, at names that are looked up
//! again.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::{
    Error,
    balance::{Balance, Server},
    circuit_breaker::CircuitSettings,
    resolve::{ResolveSettings, Resolver, Url},
};

/// Longest wait for a connection.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// A connection with calls on it that is silent for so long is asked whether it still is one.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Time between two looks at names and files.
const RENEW: Duration = Duration::from_secs(10);

/// How names become servers, for a client.
const RESOLVE: ResolveSettings = ResolveSettings {
    // A headless service of a large cluster.
    addresses_max: 1024,
    circuit: CircuitSettings {
        // Every server can answer every call, so nothing is lost where one that came back waits for its turn.
        open: Duration::from_secs(5),
        // Nothing is asked of two servers at once.
        outrun_max: u32::MAX,
    },
};

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

/// The servers at `urls`, looked up again as long as somebody has them. Call it within a runtime.
pub(crate) fn connect(urls: Vec<Url>, connecting: Connecting) -> Result<Balance, Error> {
    let files = Files::read(&connecting.tls, &urls)?;
    let resolver = Resolver::new(urls.clone(), RESOLVE, files.clone().connect(connecting.time_max));
    let balance = resolver.by_name()?;
    tokio::spawn(renew(balance.downgrade(), resolver, Renewal { urls, connecting, files }));
    Ok(balance)
}

/// What is read again beside names.
struct Renewal {
    urls: Vec<Url>,
    connecting: Connecting,
    files: Files,
}

/// Looks names and files up for as long as there is a client. What is of no use changes nothing.
async fn renew(balance: Weak<ArcSwap<Vec<Arc<Server>>>>, mut resolver: Resolver, mut renewal: Renewal) {
    // Whether there are files that no server was made with.
    let mut is_new = false;
    loop {
        let Some(balance) = Balance::upgrade(&balance) else { return };
        let files = Files::read(&renewal.connecting.tls, &renewal.urls);
        if let Some(files) = files.ok().filter(|files| *files != renewal.files) {
            resolver.set_connect(files.clone().connect(renewal.connecting.time_max));
            (renewal.files, is_new) = (files, true);
        }
        is_new &= !resolver.look_up(&balance, is_new).await.is_whole;
        drop(balance);
        tokio::time::sleep(renewal.connecting.renew).await;
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
        if !urls.iter().any(|url| url.is_tls()) {
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

    /// Makes channels with what the files held.
    fn connect(self, time_max: Duration) -> Arc<crate::resolve::Connect> {
        Arc::new(move |url, address| self.channel(url, address, time_max))
    }

    fn channel(
        &self,
        url: &Url,
        address: Option<SocketAddr>,
        time_max: Duration,
    ) -> Result<Channel, transport::Error> {
        let scheme = if url.is_tls() { "https" } else { "http" };
        let place = address.map_or(url.text.clone(), |address| format!("{scheme}://{address}"));
        let endpoint = Endpoint::from_shared(place)?
            .origin(url.uri.clone())
            .connect_timeout(time_max)
            .http2_keep_alive_interval(KEEPALIVE)
            .tcp_nodelay(true);
        Ok(match url.is_tls() {
            true => endpoint.tls_config(self.config(url.host()))?,
            false => endpoint,
        }
        .connect_lazy())
    }
}
