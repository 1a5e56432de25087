//! `/metrics`, `/healthz` and `/livez` over plain HTTP on a separate address: probes must not wait for calls
//! or silent connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use crate::{
    connections::Connections,
    health::Health,
    listener::{Connection, accept},
    metrics::Metrics,
    openmetrics,
};

/// Concurrent connections.
const CONNECTIONS_MAX: usize = 128;

/// Share of one peer.
const CONNECTIONS_PER_PEER_MAX: usize = 32;

/// Timeout of a silent connection.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Media type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes.
pub(crate) fn router(metrics: Metrics, health: Health) -> Router {
    Router::new()
        .route("/metrics", get(scrape).with_state(metrics))
        .route("/healthz", get(healthz).with_state(health.clone()))
        .route("/livez", get(livez).with_state(health))
}

/// A listener for [`router`].
pub(crate) struct HttpListener {
    listener: TcpListener,
    connections: Arc<Connections>,
}

impl HttpListener {
    pub(crate) fn new(listener: TcpListener, metrics: &Metrics) -> Self {
        let connections = Connections::new("http", CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, metrics);
        Self { listener, connections: Arc::new(connections) }
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, place) = accept(&self.listener, &self.connections).await;
        let address = stream.peer_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)));
        (Connection::with_traffic(stream, IDLE_MAX, place.link.clone()).in_place(place), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn scrape(State(metrics): State<Metrics>, headers: HeaderMap) -> Response {
    let is_open = wants_open_metrics(&headers);
    let kind = if is_open { openmetrics::CONTENT_TYPE } else { TEXT_FORMAT };
    let write = move || if is_open { Ok(metrics.open_metrics().into()) } else { metrics.text() };
    // The hooks take locks that other threads may hold during disk writes.
    match tokio::task::spawn_blocking(write).await {
        Ok(Ok(text)) => ([(CONTENT_TYPE, kind)], text).into_response(),
        Ok(Err(error)) => {
            tracing::error!(%error, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        // It panicked; the hook has logged where.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether a scraper accepts OpenMetrics: all that name it prefer it.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut forms = accepted.flat_map(|value| value.split(','));
    forms.any(|form| {
        let mut parts = form.split(';').map(str::trim);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"))
            && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "version=0.0.1"))
    })
}

async fn healthz(State(health): State<Health>) -> Response {
    if health.is_serving() {
        "serving\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n").into_response()
    }
}

async fn livez(State(health): State<Health>) -> Response {
    match health.ailment() {
        None => "alive\n".into_response(),
        Some(what) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("only a restart helps: {what}\n")).into_response()
        }
    }
}
