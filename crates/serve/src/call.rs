//! One gRPC call as the server sees it: its deadline, its place among the calls in progress, and how it
//! ended.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use http_body::{Frame, SizeHint};
use prometheus::IntGauge;
use tonic::body::Body;
use tracing::Span;

use crate::{
    account::InProgress,
    admission::Places,
    audit::Entry,
    connections::Link,
    openmetrics::TracedHistograms,
    status::{CANCELLED, DEADLINE_EXCEEDED, Fault, code_in, is_refusal, reason_in},
    telemetry,
    usage::Tab,
};

/// Media type of gRPC, before `+proto` and parameters.
const GRPC: &str = "application/grpc";

/// When the answer must have begun: the caller's `grpc-timeout`, and at the latest what the server allows any
/// call. An extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDeadline(pub Instant);

impl CallDeadline {
    /// The deadline in `headers`, counted from now, and at most `longest` away.
    pub(crate) fn from_headers(headers: &HeaderMap, longest: Duration) -> Self {
        let asked = headers.get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
        Self(Instant::now() + asked.map_or(longest, |asked| asked.min(longest)))
    }

    /// The deadline of `request`; none outside of a server.
    #[must_use]
    pub fn of<T>(request: &tonic::Request<T>) -> Option<Instant> {
        request.extensions().get::<Self>().map(|deadline| deadline.0)
    }
}

/// `TimeoutValue TimeoutUnit` of the gRPC protocol: at most 8 digits and one of H M S m u n.
fn parse_timeout(text: &str) -> Option<Duration> {
    let unit_at = text.len().checked_sub(1).filter(|&digits| (1..=8).contains(&digits))?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    let timeout = match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(timeout)
}

/// Refuses a timeout that the protocol does not have: who sends one would wait for something else.
pub(crate) fn check_timeout(headers: &HeaderMap) -> Result<(), Fault> {
    let mut values = headers.get_all("grpc-timeout").iter();
    let is_good = match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value.to_str().is_ok_and(|text| parse_timeout(text).is_some()),
        _ => false,
    };
    let problem = "grpc-timeout must be once, 1 to 8 digits and one of H, M, S, m, u and n";
    if is_good { Ok(()) } else { Err(Fault::invalid("TIMEOUT_MALFORMED", problem)) }
}

/// What HTTP says to a request that is no gRPC call.
pub(crate) fn not_grpc(request: &Request<Body>) -> Option<Response<Body>> {
    let answer = |status, header: Option<(_, &'static str)>| {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = status;
        answer.headers_mut().extend(header.map(|(name, value)| (name, HeaderValue::from_static(value))));
        answer
    };
    if request.method() != Method::POST {
        return Some(answer(StatusCode::METHOD_NOT_ALLOWED, Some((ALLOW, "POST"))));
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind =
        kind.get(..GRPC.len()).filter(|start| start.eq_ignore_ascii_case(GRPC)).map(|_| &kind[GRPC.len()..]);
    let is_grpc = kind.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';', ' ']));
    (!is_grpc).then(|| answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, None))
}

/// A call from its first byte to its last. Dropping it writes down how it ended.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Arc<str>,
    pub(crate) started: Instant,
    pub(crate) deadline: CallDeadline,
    /// What its tenant used.
    pub(crate) tab: Tab,
    pub(crate) seconds: TracedHistograms,
    pub(crate) in_progress: IntGauge,
    /// Absent for a call that is refused.
    pub(crate) places: Option<Places>,
    /// Its place among those of its tenant.
    pub(crate) of_tenant: Option<InProgress>,
    /// Its line in the audit log, if it has one.
    pub(crate) audit: Option<Entry>,
    /// Its connection; none outside of a server.
    pub(crate) link: Option<Arc<Link>>,
    pub(crate) span: Span,
    pub(crate) code: Option<&'static str>,
    /// Why it failed, as its caller is told.
    pub(crate) reason: Option<String>,
}

impl Call {
    /// Notes how it ended, as `headers` or trailers tell.
    pub(crate) fn end(&mut self, code: &'static str, headers: &HeaderMap) {
        self.code = Some(code);
        self.reason = reason_in(headers);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let late = self.deadline.0 <= Instant::now();
        // A call that goes away without a status was given up, by its deadline or by its caller.
        let code = self.code.unwrap_or(if late { DEADLINE_EXCEEDED } else { CANCELLED });
        let elapsed = self.started.elapsed();
        let trace = telemetry::sampled_trace(&self.span);
        self.seconds.observe(&[&*self.method, code], elapsed.as_secs_f64(), trace);
        self.in_progress.dec();
        self.tab.note(|used| (used.calls, used.refused_calls) = (1, is_refusal(code).into()));
        self.span.record("rpc.response.status_code", code);
        let reason = self.reason.as_deref();
        if code != "OK" {
            self.span.record("error.type", reason.unwrap_or(code));
        }
        self.span.in_scope(|| {
            let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
            match code {
                "OK" => tracing::debug!(elapsed_us, "call done"),
                _ => tracing::info!(elapsed_us, code, reason, "call done"),
            }
        });
        if let Some(entry) = self.audit.take() {
            entry.end(&self.method, code, reason, elapsed);
        }
        drop((self.places.take(), self.of_tenant.take()));
        if let Some(link) = self.link.take() {
            link.end_call();
        }
    }
}

/// A response body that notes the status in its trailers and keeps the call until it is sent.
#[derive(Debug)]
pub(crate) struct WatchedBody {
    inner: Body,
    call: Option<Call>,
}

impl WatchedBody {
    pub(crate) fn new(inner: Body, call: Call) -> Self {
        Self { inner, call: Some(call) }
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(call)) = (frame.data_ref(), &self.call) {
                    call.tab.note(|used| used.sent_bytes = data.len() as u64);
                }
                let end = frame.trailers_ref().and_then(|trailers| Some((code_in(trailers)?, trailers)));
                if let (Some((code, trailers)), Some(call)) = (end, &mut self.call) {
                    call.end(code, trailers);
                    self.call = None;
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.call = None,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_grpc_is_told_so_in_http() {
        let ask = |method: &str, content_type: Option<&str>| {
            let mut request = Request::builder().method(method).uri("/grpc.health.v1.Health/Check");
            if let Some(content_type) = content_type {
                request = request.header(CONTENT_TYPE, content_type);
            }
            not_grpc(&request.body(Body::empty()).unwrap())
        };
        for good in ["application/grpc", "application/grpc+proto", "Application/gRPC;charset=utf-8"] {
            assert!(ask("POST", Some(good)).is_none(), "{good}");
        }
        let others = [
            "application/json",
            "application/grpc-web",
            "application/grpc-web+proto",
            "text/plain",
            "",
            "application/grpcx",
        ];
        for other in others.map(Some).into_iter().chain([None]) {
            let answer = ask("POST", other).unwrap();
            assert_eq!((answer.status().as_u16(), code_in(answer.headers())), (415, None), "{other:?}");
        }
        for method in ["PUT", "GET", "HEAD", "DELETE", "OPTIONS"] {
            let answer = ask(method, Some("application/grpc")).unwrap();
            let allow = answer.headers()[ALLOW].to_str().unwrap();
            assert_eq!((answer.status().as_u16(), allow), (405, "POST"));
        }
    }

    #[test]
    fn timeouts_are_read_as_the_protocol_has_them() {
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(parse_timeout("1H"), Some(Duration::from_secs(3_600)));
        for wrong in ["", "m", "1", "1x", "-1S", "+1S", "123456789m", "1 m", "1ä"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong:?}");
        }
    }
}
