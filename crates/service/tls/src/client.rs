//! TLS clients: connections to servers that use TLS, with authorities and a certificate from files that may
//! change.

use std::{error::Error, io, net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, task, time::Duration};

use arc_swap::ArcSwap;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as Tls, RootCertStore, pki_types::ServerName,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use crate::pem::{ALPN, TlsError, authorities, pair, provider};

/// How long to wait for the server's first data after the handshake before the connection is used anyway.
const FIRST_WORD_MAX: Duration = Duration::from_millis(500);

/// PEM files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities of servers; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate chain.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
}

impl ClientFiles {
    fn load(&self) -> Result<ClientConfig, TlsError> {
        let roots = match &self.ca {
            Some(path) => authorities(path)?,
            None => system_authorities()?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let (chain, der) = pair(certificate, key)?;
                let config = builder.with_client_auth_cert(chain, der);
                config.map_err(|source| TlsError::Pair(certificate.clone(), key.clone(), source))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    /// All configured files, for a file watcher.
    pub fn all(&self) -> Vec<PathBuf> {
        [&self.ca, &self.certificate, &self.key].into_iter().flatten().cloned().collect()
    }
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemAuthorities) } else { Ok(roots) }
}

/// Makes TLS connections with the contents of its files.
#[derive(Clone, Debug)]
pub struct TlsClient {
    files: ClientFiles,
    config: Arc<ArcSwap<ClientConfig>>,
    /// The expected host of the certificate, if it differs from the host of the address.
    host: Option<String>,
}

impl TlsClient {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn load(files: &ClientFiles) -> Result<Self, TlsError> {
        let config = Arc::new(ArcSwap::from_pointee(files.load()?));
        Ok(Self { files: files.clone(), config, host: None })
    }

    /// Reads the files again; later connections use the new contents. If a file is invalid, nothing changes.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.config.store(Arc::new(self.files.load()?));
        Ok(())
    }

    /// The files of this client.
    pub fn files(&self) -> &ClientFiles {
        &self.files
    }

    /// A channel to `https://host:port`, or to `address`, one of the addresses of the host. It connects on
    /// demand, with an endpoint configured by `shape`.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn channel(
        &self,
        url: &str,
        address: Option<SocketAddr>,
        shape: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, tonic::transport::Error> {
        let host = address.and_then(|_| Some(bare(url.parse::<Uri>().ok()?.host()?).to_owned()));
        Ok(shape(endpoint(url, address)?).connect_with_connector_lazy(Self { host, ..self.clone() }))
    }

    /// As [`TlsClient::channel`], but connects immediately.
    ///
    /// # Errors
    /// The URL is invalid, or the server is unreachable or refuses the connection.
    pub async fn connect(
        &self,
        url: &str,
        shape: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, tonic::transport::Error> {
        shape(endpoint(url, None)?).connect_with_connector(self.clone()).await
    }
}

/// An endpoint for calls to `url`, at its host or at one `address` of it. Its scheme is `http`, because this
/// file encrypts instead of tonic; the origin of calls has the real scheme.
///
/// # Errors
/// The URL is invalid.
pub fn endpoint(url: &str, address: Option<SocketAddr>) -> Result<Endpoint, tonic::transport::Error> {
    let place =
        address.map_or_else(|| url.replacen("https://", "http://", 1), |address| format!("http://{address}"));
    let endpoint = Endpoint::from_shared(place)?.tcp_nodelay(true);
    Ok(match url.parse() {
        Ok(origin) => endpoint.origin(origin),
        Err(_) => endpoint,
    })
}

impl Service<Uri> for TlsClient {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), ConnectError>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = TlsConnector::from(self.config.load_full());
        let expected = self.host.clone();
        Box::pin(async move { Ok(TokioIo::new(connect(connector, &uri, expected).await?)) })
    }
}

async fn connect(
    connector: TlsConnector,
    uri: &Uri,
    expected: Option<String>,
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let host = bare(uri.host().unwrap_or_default()).to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let expected = expected.unwrap_or_else(|| host.clone());
    let name = ServerName::try_from(expected.clone())
        .map_err(|_| ConnectError(format!("{expected} is no name that a certificate can have")))?;
    let stream = TcpStream::connect((host, port)).await.map_err(|error| ConnectError(error.to_string()))?;
    // A failure only costs latency.
    let _ = stream.set_nodelay(true);
    let mut stream = connector.connect(name, stream).await.map_err(not_agreed)?;
    // A server may reject the client's certificate after the client has completed the handshake. A server
    // that accepts it sends its first frame immediately.
    match timeout(FIRST_WORD_MAX, first_word(&mut stream)).await {
        Ok(Err(error)) => Err(not_agreed(error)),
        Ok(Ok(())) | Err(_) => Ok(stream),
    }
}

/// A host without the brackets of an IPv6 address.
pub fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Waits until data is readable, without consuming it.
async fn first_word(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    struct Ready<'a>(&'a TcpStream);
    impl io::Read for Ready<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.try_read(buffer)
        }
    }
    let (socket, session) = stream.get_mut();
    loop {
        let state = session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if state.plaintext_bytes_to_read() > 0 {
            return Ok(());
        }
        socket.readable().await?;
        match session.read_tls(&mut Ready(socket)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Why a connection failed, as text for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

/// The handshake failed.
fn not_agreed(error: io::Error) -> ConnectError {
    let tls = error.get_ref().and_then(|inner| (inner as &dyn Error).downcast_ref::<Tls>());
    ConnectError(tls.map_or_else(|| format!("the server ended the handshake: {error}"), tls_problem))
}

fn tls_problem(error: &Tls) -> String {
    use CertificateError as Certificate;
    match error {
        Tls::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate is of no authority that is trusted here".to_owned()
        }
        Tls::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        Tls::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "its certificate is not valid yet".to_owned()
        }
        Tls::InvalidCertificate(
            problem @ (Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }),
        ) => format!("its certificate is for another name: {problem}"),
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a client certificate, and got none".to_owned()
        }
        Tls::AlertReceived(AlertDescription::UnknownCA) => {
            "it refuses the client certificate: of no authority that it trusts".to_owned()
        }
        Tls::AlertReceived(AlertDescription::CertificateExpired) => {
            "it refuses the client certificate: expired".to_owned()
        }
        Tls::AlertReceived(AlertDescription::CertificateRevoked) => {
            "it refuses the client certificate: revoked".to_owned()
        }
        Tls::AlertReceived(alert) => format!("it refuses the connection ({alert:?})"),
        Tls::InvalidMessage(_) => "it does not speak TLS; http:// may be meant".to_owned(),
        other => format!("TLS: {other}"),
    }
}
