//! The span of a call, with its attributes and its parent in the caller's trace, and a log line at its end.

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

/// Characters of a server's name that are recorded: the maximum of a DNS name.
const HOST_CHARS_MAX: usize = 255;

/// Target of these lines in log filters.
const TARGET: &str = "antares_serve::call";

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

/// Records the call's result in `span` and the log.
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

/// A span for a call of `method`, with the fields known at its start.
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
    if let Some(peer) = request.extensions().get::<Arc<Link>>().map(|link| link.peer) {
        span.record("peer", field::display(peer));
    }
    // For traces only: a log line already has the method.
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

/// The server's name from the caller: `:authority`, or `Host` in HTTP/1.1.
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
