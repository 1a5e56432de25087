//! `/`, `/metrics` and `/healthz` over plain HTTP, on an address of their own.

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{Html, IntoResponse, Response},
    routing::get,
};

use crate::{health::Health, metrics::Metrics, status_page::status_page};

/// Media type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes.
pub(crate) fn router(metrics: Metrics, health: Health) -> Router {
    Router::new()
        .route("/", get(page).with_state((metrics.clone(), health.clone())))
        .route("/metrics", get(scrape).with_state(metrics))
        .route("/healthz", get(healthz).with_state(health))
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    // The hooks take locks that others may hold while they write to a disk.
    let text = tokio::task::spawn_blocking(move || metrics.text()).await;
    match text {
        Ok(Ok(text)) => ([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Ok(Err(error)) => {
            tracing::error!(%error, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        // It panicked; the hook has told where.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn page(State((metrics, health)): State<(Metrics, Health)>) -> Response {
    let text = tokio::task::spawn_blocking(move || metrics.text()).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    Html(status_page(&health.services(), &String::from_utf8_lossy(&text))).into_response()
}

async fn healthz(State(health): State<Health>) -> Response {
    if health.is_serving() {
        "serving\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n").into_response()
    }
}
