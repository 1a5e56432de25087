//! Connections to a node, with TLS where its address says so. There is no proxy and no other host than the
//! one that is named.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::error::NodeError;

/// What both kinds of connections are.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection.
pub(crate) struct Link(TokioIo<Box<dyn Stream>>);

/// Makes them.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Option<TlsConnector>,
    time: Duration,
}

impl Connector {
    /// One for nodes at `uri`, with at most `time` for a connection.
    ///
    /// # Errors
    /// It needs TLS, and the system has no authorities.
    pub(crate) fn new(uri: &Uri, time: Duration) -> Result<Self, NodeError> {
        let tls = if uri.scheme_str() == Some("https") { Some(tls()?) } else { None };
        Ok(Self { tls, time })
    }
}

fn tls() -> Result<TlsConnector, NodeError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(NodeError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.map_err(|_| NodeError::NoAuthorities)?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

impl Service<Uri> for Connector {
    type Response = Link;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, time } = self.clone();
        Box::pin(async move {
            let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
            timeout(time, open(&uri, tls)).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

async fn open(uri: &Uri, tls: Option<TlsConnector>) -> io::Result<Link> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    // Without it calls are slower, and no more.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Ok(Link(TokioIo::new(Box::new(stream)))) };
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok(Link(TokioIo::new(Box::new(tls.connect(name, stream).await?))))
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
