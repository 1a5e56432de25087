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

/// What connections are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectSettings {
    /// Longest wait for one.
    pub time_max: Duration,
    /// One with calls on it that is silent for so long is asked whether it still is one. None where its calls
    /// have deadlines that notice as much.
    pub keepalive: Option<Duration>,
}

impl Default for ConnectSettings {
    fn default() -> Self {
        Self { time_max: Duration::from_secs(5), keepalive: Some(Duration::from_secs(20)) }
    }
}

impl ConnectSettings {
    /// The endpoint, with these.
    #[must_use]
    pub fn shape(&self, endpoint: Endpoint) -> Endpoint {
        let endpoint = endpoint.connect_timeout(self.time_max).tcp_nodelay(true);
        match self.keepalive {
            Some(keepalive) => endpoint.http2_keep_alive_interval(keepalive),
            None => endpoint,
        }
    }
}

/// How servers are connected to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connecting {
    pub(crate) tls: TlsFiles,
    pub(crate) settings: ConnectSettings,
}

/// The servers at `urls`, looked up again as long as somebody has them. Call it within a runtime.
pub(crate) fn connect(urls: Vec<Url>, connecting: Connecting) -> Result<Balance, Error> {
    let files = Files::read(&connecting.tls, &urls)?;
    let resolver = Resolver::new(urls.clone(), RESOLVE, files.clone().connect(connecting.settings));
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
            resolver.set_connect(files.clone().connect(renewal.connecting.settings));
            (renewal.files, is_new) = (files, true);
        }
        is_new &= !resolver.look_up(&balance, is_new).await.is_whole;
        drop(balance);
        tokio::time::sleep(RENEW).await;
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
    fn connect(self, settings: ConnectSettings) -> Arc<crate::resolve::Connect> {
        Arc::new(move |url, address| self.channel(url, address, settings))
    }

    fn channel(
        &self,
        url: &Url,
        address: Option<SocketAddr>,
        settings: ConnectSettings,
    ) -> Result<Channel, transport::Error> {
        let scheme = if url.is_tls() { "https" } else { "http" };
        let place = address.map_or(url.text.clone(), |address| format!("{scheme}://{address}"));
        let endpoint = settings.shape(Endpoint::from_shared(place)?.origin(url.uri.clone()));
        Ok(match url.is_tls() {
            true => endpoint.tls_config(self.config(url.host()))?,
            false => endpoint,
        }
        .connect_lazy())
    }
}
