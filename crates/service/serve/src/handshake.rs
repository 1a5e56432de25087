//! The start of a connection before HTTP/2: nothing, or a TLS handshake limited in time and number.

use std::{path::PathBuf, sync::Arc, time::Duration};

use antares_config::Tls;
use antares_tls::{ALPN, TlsError, authorities, items, pair, provider};
use arc_swap::ArcSwap;
use prometheus::IntCounterVec;
use rustls::{
    ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

use crate::{
    authenticator::ClientNames, budget::Budget, connections::Link, expiry::Expiry, metrics::Metrics,
    peer::Peer, reload,
};

/// Results of a handshake, for the metric.
const RESULTS: [&str; 4] = ["busy", "failed", "ok", "timeout"];

/// Admits connections.
#[derive(Clone, Debug)]
pub(crate) enum Acceptor {
    /// Without a handshake.
    Open,
    /// After a handshake, which offers these protocols.
    Tls(Arc<Handshakes>, &'static [&'static [u8]]),
}

/// A connection, encrypted or not.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Protocols of a gRPC listener.
const GRPC: &[&[u8]] = &[b"h2"];
/// Protocols of a listener for browsers.
const WEB: &[&[u8]] = &[b"h2", b"http/1.1"];

/// The handshakes of a listener.
#[derive(Debug)]
pub(crate) struct Handshakes {
    config: Arc<ArcSwap<ServerConfig>>,
    time_max: Duration,
    places: Arc<Budget<Peer>>,
    done: IntCounterVec,
}

impl Acceptor {
    /// Reads the files of `tls`, and rereads them on changes. Call it within the runtime.
    pub(crate) fn new(tls: Option<&Tls>, metrics: &Metrics) -> Result<Self, TlsError> {
        let done = metrics.counters_of(
            "antares_tls_handshakes_total",
            "TLS handshakes, by how they ended.",
            "result",
            &RESULTS,
        );
        reload::counters(metrics);
        let Some(tls) = tls.cloned() else { return Ok(Self::Open) };
        let config = Arc::new(ArcSwap::from_pointee(load(&tls)?));
        let expiry = Expiry::new(metrics);
        expiry.record_server(&tls);
        let handshakes = Handshakes {
            config: config.clone(),
            time_max: tls.handshake_time_max,
            places: Arc::new(Budget::new(tls.handshakes_max, (tls.handshakes_max / 2).max(1))),
            done,
        };
        reload::watch("tls", files(&tls), metrics, move || {
            config.store(Arc::new(load(&tls)?));
            expiry.record_server(&tls);
            Ok::<_, TlsError>(())
        });
        Ok(Self::Tls(Arc::new(handshakes), GRPC))
    }

    /// The same for clients that may speak HTTP/1.1.
    pub(crate) fn for_web(self) -> Self {
        match self {
            Self::Open => Self::Open,
            Self::Tls(handshakes, _) => Self::Tls(handshakes, WEB),
        }
    }

    /// `stream` after its handshake, and the names in the client's certificate.
    pub(crate) async fn pass(&self, stream: TcpStream, link: &Link) -> Option<(Stream, Option<ClientNames>)> {
        let (handshakes, protocols) = match self {
            Self::Open => return Some((Stream::Left(stream), None)),
            Self::Tls(handshakes, protocols) => (handshakes, *protocols),
        };
        let stream = tokio::select! {
            stream = handshakes.shake(stream, link.peer, protocols) => stream?,
            () = link.room_wanted.notified() => return None,
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let names = shown.map(ClientNames::of);
        Some((Stream::Right(Box::new(stream)), names))
    }
}

impl Handshakes {
    async fn shake(
        &self,
        stream: TcpStream,
        peer: Peer,
        protocols: &[&[u8]],
    ) -> Option<TlsStream<TcpStream>> {
        let Ok(_place) = self.places.take(&peer, 1) else {
            self.record("busy");
            return None;
        };
        let mut config = self.config.load_full();
        if protocols != GRPC {
            let mut other = ServerConfig::clone(&config);
            other.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            config = Arc::new(other);
        }
        let acceptor = TlsAcceptor::from(config);
        match timeout(self.time_max, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                self.record("ok");
                Some(stream)
            }
            Ok(Err(error)) => {
                self.record("failed");
                // Strangers must not fill the log.
                tracing::debug!(%peer, %error, "a handshake failed");
                None
            }
            Err(_) => {
                self.record("timeout");
                None
            }
        }
    }

    fn record(&self, result: &str) {
        self.done.with_label_values(&[result]).inc();
    }
}

/// All files, for watching.
fn files(tls: &Tls) -> Vec<PathBuf> {
    let always = [tls.certificate.clone(), tls.key.clone()];
    always.into_iter().chain(tls.client_ca.clone()).chain(tls.client_crl.clone()).collect()
}

/// The current contents of the files.
fn load(tls: &Tls) -> Result<ServerConfig, TlsError> {
    let (chain, key) = pair(&tls.certificate, &tls.key)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match &tls.client_ca {
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let lists = tls.client_crl.as_deref().map(|path| items(path, "revocation list"));
            // A certificate that no list covers counts as valid.
            let verifier =
                verifier.with_crls(lists.transpose()?.unwrap_or_default()).allow_unknown_revocation_status();
            builder.with_client_cert_verifier(verifier.build()?)
        }
        None => builder.with_no_client_auth(),
    };
    let pair = |source| TlsError::Pair(tls.certificate.clone(), tls.key.clone(), source);
    let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would not show its certificate again, which may have been revoked.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
