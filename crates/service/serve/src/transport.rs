//! HTTP/2 on connections as they come: each with its limits, closed when it is idle, old, or in the way of
//! others, and at the end of the process. The framework's own server has no limit for idle connections, no
//! jitter for age, and says nothing before it cuts an old connection off.

use std::{convert::Infallible, sync::Arc, time::Duration};

use antares_config::Listen;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tonic::body::Body;
use tower::Service;

use crate::{
    connections::{Closed, Connections, Slot},
    handshake::Acceptor,
    limits::{CONNECTION_AGE_GRACE, CONNECTION_AGE_MAX, HEADER_BYTES_MAX, PENDING_RESETS_MAX, UNREAD_GRACE},
    listener::{Connection, accept},
    status::body_failed,
    unread::Unread,
};

/// How long a connection without calls may take to close when it is told to. Peers that are gone without a
/// word never close theirs.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Bytes that a peer may send on a stream before they are taken: a chunk of an upload. All calls together can
/// hold as many times this as there are places for calls.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The same for a connection. The HTTP/2 library closes connections whose frames are many and small for this
/// window: a smaller one ends sessions whose inputs come all at once.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of a connection of HTTP/1.1 that are read ahead: the library reads whole heads, and 8 KiB at least.
const HTTP1_BUFFER_BYTES: usize = HEADER_BYTES_MAX as usize;

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2, as gRPC does.
    Grpc,
    /// HTTP/1.1 or HTTP/2, as browsers do.
    Web,
}

/// How connections come.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) listener: TcpListener,
    pub(crate) protocol: Protocol,
    pub(crate) door: Acceptor,
}

/// Serves connections of `way` that pass its door with clones of `service` until `closing`; returns when all
/// of them have ended.
pub(crate) async fn serve<S>(
    way: Way,
    listen: Listen,
    connections: Arc<Connections>,
    service: S,
    closing: watch::Receiver<bool>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let Way { listener, protocol, door } = way;
    let builder = builder_of(&listen, protocol);
    let listen = Arc::new(listen);
    // Each connection holds an end of it.
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
            // Before it has passed no call is in progress: it may end with the process.
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
                    // Without pings nothing else tells that its peer takes nothing.
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

/// Serves the calls of `stream`, each with what `mark` puts beside it, until it ends or is closed.
pub(crate) async fn serve_calls<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    builder: &auto::Builder<TokioExecutor>,
    listen: &Listen,
    place: Slot,
    service: S,
    mark: impl Fn(&mut Request<Incoming>),
    closing: watch::Receiver<bool>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
    S::Future: Send + 'static,
{
    let link = place.link.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(link.clone());
        mark(&mut request);
        service.clone().call(request.map(|body| Body::new(Unread::new(body).map_err(body_failed))))
    });
    keep(builder.serve_connection(TokioIo::new(stream), service), listen, place, closing).await;
}

/// The limits of HTTP/2, and for browsers those that HTTP/1.1 has.
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

/// Drives `connection` until it ends by itself, or is closed for one of the reasons that there are.
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
        // A connection with calls is looked at again when it could have been idle for long enough.
        let idle_at = idle_since.unwrap_or_else(Instant::now) + listen.connection_idle_max;
        // What begins later and ends earlier is seen then.
        let ends = place.link.deadlines();
        let unread_at = ends.map_or_else(|| Instant::now() + listen.call_time_max, |ends| ends.0.into());
        let next = idle_at.min(old_at).min(unread_at + UNREAD_GRACE);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep_until(next) => {
                let now = Instant::now();
                if now >= old_at {
                    break (Closed::Age, now + CONNECTION_AGE_GRACE);
                }
                // As it is now: there may have been calls since it was looked at.
                if place.link.is_idle_for(listen.connection_idle_max) {
                    break (Closed::Idle, now + LINGER);
                }
                // The library does not end a stream whose peer takes nothing. Other calls may end in time.
                if let Some((first, last)) = place.link.deadlines()
                    && now >= Instant::from(first) + UNREAD_GRACE
                {
                    break (Closed::Unread, Instant::from(last) + UNREAD_GRACE);
                }
            }
            () = place.link.slot_wanted() => break (Closed::Room, Instant::now() + LINGER),
            // Who is waiting for calls to end says how long.
            _ = closing.wait_for(|closing| *closing), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    place.record(why);
    tracing::debug!(peer = %place.link.peer(), ?why, "a connection is closed");
    connection.as_mut().graceful_shutdown();
    // What is left of it then is cut off.
    let _ = tokio::time::timeout_at(until, connection).await;
}

/// `time`, give or take a tenth: connections that were made together shall not all come back together.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.9..1.1))
}
