//! HTTP/2 on accepted connections, each with limits. A connection is closed when it is idle, old or needed by
//! others, and at the end of the process. The framework's own server has no idle limit and no jitter for age,
//! and cuts old connections off without notice.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use antares_config::Listen;
use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    runtime::Handle,
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tonic::body::Body;

use crate::{
    connections::{Closed, Connections, Slot},
    handshake::Acceptor,
    layers::around::Rest,
    limits::{CONNECTION_AGE_GRACE, CONNECTION_AGE_MAX, HEADER_BYTES_MAX, PENDING_RESETS_MAX, UNREAD_GRACE},
    listener::{Connection, accept},
    status::body_failed,
};

/// Time for a connection without calls to close on request. Peers that vanished never close theirs.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Bytes that a peer may send on a stream ahead of the reader: a chunk of an upload. All calls together can
/// hold this times the number of call slots.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The same for a connection. The HTTP/2 library closes connections with many small frames for this window: a
/// smaller one would end sessions whose inputs arrive all at once.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of an HTTP/1.1 connection that are read ahead: the library reads whole heads, and at least 8 KiB.
const HTTP1_BUFFER_BYTES: usize = HEADER_BYTES_MAX as usize;

/// Protocols of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2, for gRPC.
    Grpc,
    /// HTTP/1.1 or HTTP/2, for browsers.
    Web,
}

/// How connections arrive.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) listener: TcpListener,
    pub(crate) protocol: Protocol,
    pub(crate) door: Acceptor,
}

/// Serves admitted connections of `way` with clones of `service` until `closing`; returns when all have
/// ended.
pub(crate) async fn serve(
    way: Way,
    listen: Listen,
    connections: Arc<Connections>,
    service: impl Rest,
    closing: watch::Receiver<bool>,
) {
    let Way { listener, protocol, door } = way;
    let builder = builder_of(&listen, protocol);
    let listen = Arc::new(listen);
    // Each connection holds a sender.
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    let mut stop = closing.clone();
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = stop.wait_for(|closing| *closing) => break,
        };
        let (builder, door, service) = (builder.clone(), door.clone(), service.clone());
        let (listen, closing, alive) = (listen.clone(), closing.clone(), alive.clone());
        tokio::spawn(async move {
            // Before admission no call is in progress: it may end with the process.
            let mut stop = closing.clone();
            let passed = tokio::select! {
                passed = door.pass(stream, &place.link) => passed,
                _ = stop.wait_for(|closing| *closing) => None,
            };
            let Some((stream, names)) = passed else { return };
            let mark = move |request: &mut Request<Incoming>| {
                if let Some(names) = &names {
                    request.extensions_mut().insert(names.clone());
                }
            };
            let stream = Connection::with_preface(stream, listen.keepalive_timeout);
            match protocol {
                Protocol::Grpc => serve_calls(stream, &builder, &listen, place, service, mark, closing).await,
                Protocol::Web => {
                    // Without pings nothing else reveals a peer that reads nothing.
                    let stream = Connection::with_traffic(stream, listen.call_time_max, place.link.clone());
                    serve_calls(stream, &builder, &listen, place, service, mark, closing).await;
                }
            }
            drop(alive);
        });
    }
    drop((listener, alive));
    // Nothing is ever sent; it ends with the last connection.
    let _ = all_gone.recv().await;
}

/// Serves the calls of `stream`, with the extensions from `mark`, until it ends or is closed.
pub(crate) async fn serve_calls(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    builder: &auto::Builder<TokioExecutor>,
    listen: &Listen,
    place: Slot,
    service: impl Rest,
    mark: impl Fn(&mut Request<Incoming>),
    closing: watch::Receiver<bool>,
) {
    let link = place.link.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(link.clone());
        mark(&mut request);
        service.clone().call(request.map(|body| Body::new(Unread::new(body).map_err(body_failed))))
    });
    keep(builder.serve_connection(TokioIo::new(stream), service), listen, place, closing).await;
}

/// The limits of HTTP/2 and, for browsers, of HTTP/1.1.
pub(crate) fn builder_of(listen: &Listen, protocol: Protocol) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(listen.keepalive_timeout)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(listen.streams_per_connection_max())
        .keep_alive_interval(Some(listen.keepalive_interval))
        .keep_alive_timeout(listen.keepalive_timeout)
        .max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    match protocol {
        Protocol::Grpc => builder.http2_only(),
        Protocol::Web => builder,
    }
}

/// Drives `connection` until it ends or must be closed.
async fn keep(
    connection: impl GracefulConnection,
    listen: &Listen,
    place: Slot,
    mut closing: watch::Receiver<bool>,
) {
    let mut connection = std::pin::pin!(connection);
    let old_at = Instant::now() + jittered(CONNECTION_AGE_MAX);
    let mut is_stopping = false;
    let (why, until) = loop {
        let idle_since = place.link.idle_since().map(Instant::from_std);
        // A connection with calls is checked again when it could have been idle for long enough.
        let idle_at = idle_since.unwrap_or_else(Instant::now) + listen.connection_idle_max;
        // Calls that begin later are seen then.
        let seen_at = Instant::now() + listen.run_time_max.min(listen.keepalive_interval);
        let ends = place.link.deadlines();
        let unread_at = ends.map_or(seen_at, |(first, _)| Instant::from(first) + UNREAD_GRACE);
        let next = idle_at.min(old_at).min(seen_at).min(unread_at);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep_until(next) => {
                let now = Instant::now();
                if now >= old_at {
                    break (Closed::Age, now + CONNECTION_AGE_GRACE);
                }
                // Checks the current state: there may have been calls in between.
                if place.link.is_idle_for(listen.connection_idle_max) {
                    break (Closed::Idle, now + LINGER);
                }
                // The library does not end a stream whose peer reads nothing. Other calls may end in time.
                if let Some((first, last)) = place.link.deadlines()
                    && now >= Instant::from(first) + UNREAD_GRACE
                {
                    break (Closed::Unread, Instant::from(last) + UNREAD_GRACE);
                }
            }
            () = place.link.room_wanted.notified() => break (Closed::Room, Instant::now() + LINGER),
            // The waiting server sets the time limit.
            _ = closing.wait_for(|closing| *closing), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    place.record(why);
    tracing::debug!(peer = %place.link.peer, ?why, "a connection is closed");
    connection.as_mut().graceful_shutdown();
    // The rest is cut off then.
    let _ = tokio::time::timeout_at(until, connection).await;
}

/// `time`, plus or minus a tenth: connections made together must not all reconnect together.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.9..1.1))
}

// The rest of a request after its response is read and discarded for a while. If a stream is reset while its
// peer still sends, each later frame uses up a budget of the HTTP/2 library. After 1,024 of them it ends the
// connection with all its calls.

/// Bytes read after the response: a typical script in a refused call. A peer that sends more is reset, so
/// that it stops.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// Time limit for reading them.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(2);

/// A request body that is drained in the background if dropped before its end.
pub(crate) struct Unread<B: http_body::Body<Data = Bytes> + Unpin + Send + 'static>(Option<B>);

impl<B: http_body::Body<Data = Bytes> + Unpin + Send + 'static> Unread<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Some(body))
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin + Send + 'static> http_body::Body for Unread<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin + Send + 'static> Drop for Unread<B> {
    fn drop(&mut self) {
        let body = self.0.take().filter(|body| !body.is_end_stream());
        // Without a runtime the process ends, and its connections with it.
        if let (Some(body), Ok(runtime)) = (body, Handle::try_current()) {
            runtime.spawn(timeout(UNREAD_TIME_MAX, read_rest(body)));
        }
    }
}

/// Reads `body` to its end or to the limit.
async fn read_rest<B: http_body::Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut left = UNREAD_BYTES_MAX;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use tokio::sync::mpsc::{Sender, channel};
    use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

    use super::*;

    /// A body, and the sender of its bytes.
    fn body() -> (Unread<impl http_body::Body<Data = Bytes> + Unpin + Send + 'static>, Sender<usize>) {
        let (sender, bytes) = channel(1);
        let frames = ReceiverStream::new(bytes)
            .map(|bytes| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; bytes]))));
        (Unread::new(StreamBody::new(frames)), sender)
    }

    #[tokio::test]
    async fn what_follows_an_answer_is_taken_up_to_a_limit() {
        let (body, sender) = body();
        drop(body);
        for _ in 0..UNREAD_BYTES_MAX >> 16 {
            sender.send(1 << 16).await.unwrap();
        }
        // One byte more ends it: nothing takes the next one.
        sender.send(1).await.unwrap();
        sender.closed().await;
    }

    #[tokio::test]
    async fn nobody_waits_for_it_for_long() {
        let (body, sender) = body();
        drop(body);
        sender.send(1).await.unwrap();
        sender.closed().await;
    }

    #[test]
    fn without_a_runtime_it_is_dropped() {
        let (body, sender) = body();
        drop(body);
        assert!(sender.is_closed());
    }
}
