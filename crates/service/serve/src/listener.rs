//! TCP listeners with a bounded number of connections, and checks that nothing else makes: for a silent
//! start, and for plain HTTP that falls silent.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
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

/// Bytes that every HTTP/2 client sends first. Until then only this file watches the connection: keepalive
/// starts later.
const PREFACE_BYTES: usize = 24;

/// Pause of accepting when descriptors are exhausted: the queue stays full, so the loop would spin.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection that gets a slot. Others are closed at once: they must not block the queue.
pub(crate) async fn accept(listener: &TcpListener, connections: &Arc<Connections>) -> (TcpStream, Slot) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Some(place) = connections.admit(Peer::from(address)) {
                    // Without it responses are merely late.
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

/// Condition for keeping a connection open.
#[derive(Debug)]
enum Watch {
    /// Send this many more bytes in time.
    Preface(usize),
    /// Transfer something within each interval.
    Traffic(Duration),
    /// No condition.
    Over,
}

/// A connection that is closed if it violates its condition.
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    watch: Watch,
    end: Pin<Box<Sleep>>,
    /// For HTTP/1.1.
    lines: Option<RequestLines>,
    /// Its slot, and whether another connection needs it.
    place: Option<(Slot, BoxFuture<'static, ()>)>,
}

impl<S> Connection<S> {
    /// A connection that must send the HTTP/2 preface within `time`.
    pub(crate) fn with_preface(stream: S, time: Duration) -> Self {
        let (watch, end) = (Watch::Preface(PREFACE_BYTES), Box::pin(sleep(time)));
        Self { stream, watch, end, lines: None, place: None }
    }

    /// An HTTP/1.1 connection that must transfer something within each `time`.
    pub(crate) fn with_traffic(stream: S, time: Duration, link: Arc<Link>) -> Self {
        let lines = Some(RequestLines::new(link));
        Self { stream, watch: Watch::Traffic(time), end: Box::pin(sleep(time)), lines, place: None }
    }

    /// The same, which ends when another one needs its slot.
    pub(crate) fn in_place(self, place: Slot) -> Self {
        let link = place.link.clone();
        Self { place: Some((place, Box::pin(async move { link.room_wanted.notified().await }))), ..self }
    }

    /// Records transferred bytes.
    fn record(&mut self, bytes: usize, is_read: bool) {
        match &mut self.watch {
            Watch::Preface(missing) if is_read && bytes >= *missing => self.watch = Watch::Over,
            Watch::Preface(missing) if is_read => *missing -= bytes,
            Watch::Traffic(time) if bytes > 0 => self.end.as_mut().reset(Instant::now() + *time),
            Watch::Preface(_) | Watch::Traffic(_) | Watch::Over => {}
        }
    }

    /// Whether it violates its condition, checked when nothing moves.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        !matches!(self.watch, Watch::Over) && self.end.as_mut().poll(context).is_ready()
    }

    fn is_in_the_way(&mut self, context: &mut Context<'_>) -> bool {
        self.place.as_mut().is_some_and(|(_, wanted)| wanted.as_mut().poll(context).is_ready())
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
        if polled.is_pending() && (self.is_late(context) || self.is_in_the_way(context)) {
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
