//! The span of a call: what it is, whose, and which trace of the caller's it belongs to.

use std::sync::Arc;

use http::Request;
use tonic::body::Body;
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::{admission::TENANT_BYTES_MAX, connections::Link, telemetry};

/// A span for a call of `method`, with the names that are known before it begins.
pub(crate) fn span_of(method: &str, request: &Request<Body>) -> Span {
    let span = tracing::info_span!(
        target: "antares_serve::rpc",
        "rpc",
        otel.name = method,
        otel.kind = "server",
        rpc.response.status_code = field::Empty,
        "error.type" = field::Empty,
        tenant = field::Empty,
        peer = field::Empty,
        execution_id = field::Empty,
        request_id = field::Empty,
        trace_id = field::Empty,
    );
    telemetry::adopt(&span, request.headers());
    if let Some(tenant) = request.headers().get("antares-tenant").and_then(|tenant| tenant.to_str().ok()) {
        span.record("tenant", tenant.get(..TENANT_BYTES_MAX).unwrap_or(tenant));
    }
    if let Some(peer) = request.extensions().get::<Arc<Link>>().map(|link| link.peer()) {
        span.record("peer", field::display(peer));
    }
    // For traces alone: a log line has the method already.
    span.set_attribute("rpc.system.name", "grpc");
    span.set_attribute("rpc.method", method.to_owned());
    span
}
