//! A TCP listener that holds a bounded number of connections; more wait in the kernel's backlog.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A connection and its place among the connections.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

/// The connections that `listener` accepts, at most `connections_max` at once.
pub(crate) fn connections(
    listener: TcpListener,
    connections_max: usize,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(connections_max));
    futures_util::stream::unfold((listener, slots), |(listener, slots)| async move {
        // The semaphore is never closed.
        let permit = slots.clone().acquire_owned().await.ok()?;
        let accepted = accept(&listener).await.map(|stream| Connection { stream, _permit: permit });
        Some((accepted, (listener, slots)))
    })
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let accepted = listener.accept().await;
    if let Err(error) = &accepted {
        tracing::warn!(%error, "a connection was not accepted");
        // Out of file descriptors: the queue stays full and a loop without a pause would spin.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let (stream, _) = accepted?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Binds `address`.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
