//! HTTP/2 on connections as they come: each with its limits, closed when it is idle, old, or in the way of others, and at the
//! end of the process. The framework's own server has no limit for idle connections, no jitter for age, and says nothing before
//! it cuts an old connection off.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tonic::body::Body;
use tower::Service;

use crate::{
    config::Listen,
    connections::{Closed, Connections, Place},
    handshake::Door,
    listener::{Connection, accept},
    stream::Stream,
    unread::Unread,
};

/// How long a connection without calls may take to close when it is told to. Peers that are gone without a word never close
/// theirs.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Bytes that a peer may send on a stream before they are taken: a chunk of an upload. All calls together can hold as many times
/// this as there are places for calls.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The same for a connection. The HTTP/2 library closes connections whose frames are many and small for this window: a smaller one
/// ends sessions whose inputs come all at once.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Serves connections of `listener` that pass `door` with clones of `service` until `closing`; returns when all of them have ended.
pub(crate) async fn serve<S>(
    listener: TcpListener,
    listen: Listen,
    connections: Arc<Connections>,
    door: Door,
    service: S,
    closing: watch::Receiver<bool>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let builder = builder_of(&listen);
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
            let stream = TokioIo::new(Connection::with_preface(stream, listen.keepalive_timeout));
            let link = place.link.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(link.clone());
                if let Some(names) = &names {
                    request.extensions_mut().insert(names.clone());
                }
                service.clone().call(request.map(|body| Body::new(Unread::new(body))))
            });
            keep(builder.serve_connection(stream, service), &listen, place, closing).await;
            drop(alive);
        });
    }
    drop((listener, alive));
    // Nothing is ever sent; it ends with the last connection.
    let _ = all_gone.recv().await;
}

fn builder_of(listen: &Listen) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(listen.streams_per_connection_max)
        .keep_alive_interval(Some(listen.keepalive_interval))
        .keep_alive_timeout(listen.keepalive_timeout)
        .max_pending_accept_reset_streams(Some(listen.pending_resets_max))
        .max_header_list_size(listen.header_bytes_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// Drives `connection` until it ends by itself, or is closed for one of the reasons that there are.
async fn keep<S, B>(
    connection: http2::Connection<TokioIo<Connection<Stream>>, S, TokioExecutor>,
    listen: &Listen,
    place: Place,
    mut closing: watch::Receiver<bool>,
) where
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = std::pin::pin!(connection);
    let old_at = Instant::now() + jittered(listen.connection_age_max);
    let mut is_stopping = false;
    let (why, until) = loop {
        let idle_since = place.link.idle_since().map(Instant::from_std);
        // A connection with calls is looked at again when it could have been idle for long enough.
        let next = (idle_since.unwrap_or_else(Instant::now) + listen.connection_idle_max).min(old_at);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep_until(next) => {
                let now = Instant::now();
                if now >= old_at {
                    break (Closed::Age, now + listen.connection_age_grace);
                }
                // As it is now: there may have been calls since it was looked at.
                if place.link.is_idle_for(listen.connection_idle_max) {
                    break (Closed::Idle, now + LINGER);
                }
            }
            () = place.link.room_wanted() => break (Closed::Room, Instant::now() + LINGER),
            // Who is waiting for calls to end says how long.
            _ = closing.wait_for(|closing| *closing), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    place.note(why);
    tracing::debug!(peer = %place.link.peer(), ?why, "a connection is closed");
    connection.as_mut().graceful_shutdown();
    // What is left of it then is cut off.
    let _ = tokio::time::timeout_at(until, connection).await;
}

/// `time`, give or take a tenth: connections that were made together shall not all come back together.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.9..1.1))
}
