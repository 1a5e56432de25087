//! The span of a call: what it is, whose, and which trace of the caller's it belongs to. And a log line at
//! its end.

use std::sync::Arc;

use antares_config::TENANT_BYTES_MAX;
use http::{Request, header::HOST, uri::Authority};
use tonic::body::Body;
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{
    around::{Answering, Around},
    context::CallContext,
    outcome::CallEnd,
};
use crate::{connections::Link, telemetry};

/// Characters of a server's name that are kept: as many as a name of DNS may have.
const HOST_CHARS_MAX: usize = 255;

/// What filters of the log call these lines.
const TARGET: &str = "antares_serve::call";

/// The layer.
#[derive(Clone, Debug)]
pub(crate) struct Trace;

impl Around for Trace {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let (method, is_exempt) = {
            let context = CallContext::in_request(&mut request);
            (context.method.clone(), context.is_exempt)
        };
        let span = if is_exempt { Span::none() } else { span_of(&method, &request) };
        let context = CallContext::in_request(&mut request);
        context.span = span.clone();
        let ended = span.clone();
        context.ending.then(move |end| record_end(&ended, end));
        Box::pin(rest(request).instrument(span))
    }
}

/// Writes into `span` and the log how its call ended.
fn record_end(span: &Span, end: &CallEnd) {
    let (code, reason) = (end.code, end.reason.as_deref());
    span.record("rpc.response.status_code", code);
    if code != "OK" {
        span.record("error.type", reason.unwrap_or(code));
    }
    span.in_scope(|| {
        let elapsed_us = u64::try_from(end.elapsed.as_micros()).unwrap_or(u64::MAX);
        match code {
            "OK" => tracing::debug!(target: TARGET, elapsed_us, "call done"),
            _ => tracing::info!(target: TARGET, elapsed_us, code, reason, "call done"),
        }
    });
}

/// A span for a call of `method`, with the names that are known before it begins.
fn span_of(method: &str, request: &Request<Body>) -> Span {
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
    if let Some(server) = requested(request) {
        span.set_attribute("server.address", server.host().chars().take(HOST_CHARS_MAX).collect::<String>());
        if let Some(port) = server.port_u16() {
            span.set_attribute("server.port", i64::from(port));
        }
    }
    span
}

/// The server as the caller calls it: what stands in `:authority`, or in `Host` where that is HTTP/1.1's.
fn requested(request: &Request<Body>) -> Option<Authority> {
    let host = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    request.uri().authority().cloned().or_else(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_what_its_caller_calls_it() {
        let asked = |uri: &str, host: Option<&str>| {
            let request = Request::builder().uri(uri);
            let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
            requested(&request.body(Body::empty()).unwrap()).map(|server| server.to_string())
        };
        assert_eq!(asked("http://runner:50051/a/b", None).as_deref(), Some("runner:50051"));
        assert_eq!(asked("http://[::1]:1/a/b", Some("other")).as_deref(), Some("[::1]:1"));
        assert_eq!(asked("/a/b", Some("runner.example")).as_deref(), Some("runner.example"));
        for nobody in [None, Some(""), Some("a b"), Some("a/b")] {
            assert_eq!(asked("/a/b", nobody), None, "{nobody:?}");
        }
    }
}
