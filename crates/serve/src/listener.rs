//! A TCP listener that holds a bounded number of connections; more wait in the kernel's backlog.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Bytes that every HTTP/2 client sends first. Until they are there nothing watches a connection but this file: keepalive
/// begins after them.
const PREFACE_BYTES: usize = 24;

/// A connection and its place among the connections.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes of the preface that are still to come, and until when.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    _permit: OwnedSemaphorePermit,
}

/// The connections that `listener` accepts, at most `connections_max` at once. One that says nothing for `preface_time` at
/// its beginning is closed.
pub(crate) fn connections(
    listener: TcpListener,
    connections_max: usize,
    preface_time: Duration,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(connections_max));
    futures_util::stream::unfold((listener, slots), move |(listener, slots)| async move {
        // The semaphore is never closed.
        let permit = slots.clone().acquire_owned().await.ok()?;
        let accepted = accept(&listener).await.map(|stream| Connection {
            stream,
            preface: Some((PREFACE_BYTES, Box::pin(sleep(preface_time)))),
            _permit: permit,
        });
        Some((accepted, (listener, slots)))
    })
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let accepted = listener.accept().await;
    if let Err(error) = &accepted {
        tracing::warn!(%error, "a connection was not accepted");
        // Out of file descriptors: the queue stays full and a loop without a pause would spin.
        sleep(Duration::from_millis(50)).await;
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
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some((missing, time)) = &mut self.preface else { return polled };
        let came = buffer.filled().len() - before;
        if came >= *missing {
            self.preface = None;
            return polled;
        }
        *missing -= came;
        match (polled, time.as_mut().poll(context)) {
            (Poll::Pending, Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            (polled, _) => polled,
        }
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
