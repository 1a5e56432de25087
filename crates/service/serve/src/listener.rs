//! TCP listeners that hold a bounded number of connections, and what of a connection nobody else watches: one
//! that says nothing at its beginning, and one that is used for plain HTTP and falls silent.

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
    time::{Instant, Sleep, sleep},
};

use crate::{
    connections::{Connections, Link, Slot},
    peer::Peer,
    request_lines::RequestLines,
};

/// Bytes that every HTTP/2 client sends first. Until they are there nothing watches a connection but this
/// file: keepalive begins after them.
const PREFACE_BYTES: usize = 24;

/// How long accepting pauses when the system is out of descriptors: the queue stays full, and a loop without
/// a pause would spin.
const PAUSE: Duration = Duration::from_millis(50);

/// Binds `address`.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// The next connection that has a place. Those that have none are closed at once: they must not keep others
/// waiting.
pub(crate) async fn accept(listener: &TcpListener, connections: &Arc<Connections>) -> (TcpStream, Slot) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Some(place) = connections.admit(Peer::from(address)) {
                    // Without it answers are late, and no more.
                    let _ = stream.set_nodelay(true);
                    return (stream, place);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// What a connection must do not to be closed.
#[derive(Debug)]
enum Watch {
    /// Send so many bytes more, until then.
    Preface(usize),
    /// Send or take something now and then.
    Traffic(Duration),
    /// Nothing any more.
    Over,
}

/// A connection that is closed if it does not do its part.
#[derive(Debug)]
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    watch: Watch,
    end: Pin<Box<Sleep>>,
    /// Of HTTP/1.1.
    lines: Option<RequestLines>,
}

impl<S> Connection<S> {
    /// One that must send the preface of HTTP/2 within `time`.
    pub(crate) fn with_preface(stream: S, time: Duration) -> Self {
        Self { stream, watch: Watch::Preface(PREFACE_BYTES), end: Box::pin(sleep(time)), lines: None }
    }

    /// One of HTTP/1.1 on which something must move each `time`.
    pub(crate) fn with_traffic(stream: S, time: Duration, link: Arc<Link>) -> Self {
        let lines = Some(RequestLines::new(link));
        Self { stream, watch: Watch::Traffic(time), end: Box::pin(sleep(time)), lines }
    }

    /// Notes that so many bytes came or went.
    fn record(&mut self, bytes: usize, is_read: bool) {
        match &mut self.watch {
            Watch::Preface(missing) if is_read && bytes >= *missing => self.watch = Watch::Over,
            Watch::Preface(missing) if is_read => *missing -= bytes,
            Watch::Traffic(time) if bytes > 0 => self.end.as_mut().reset(Instant::now() + *time),
            Watch::Preface(_) | Watch::Traffic(_) | Watch::Over => {}
        }
    }

    /// Whether it has not done its part, looked at when nothing moves.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        !matches!(self.watch, Watch::Over) && self.end.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let this = &mut *self;
        if let Some(lines) = &mut this.lines {
            lines.follow(&mut buffer.filled_mut()[before..]);
        }
        this.record(buffer.filled().len() - before, true);
        if polled.is_pending() && self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, polled)
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
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S> Connection<S> {
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(Ok(bytes)) => self.record(*bytes, false),
            Poll::Pending if matches!(self.watch, Watch::Traffic(_)) && self.is_late(context) => {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        polled
    }
}
