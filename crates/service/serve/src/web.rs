//! gRPC-web, and JSON over HTTP, for browsers and manual calls. Both become gRPC calls before the layers of
//! all calls, so that they share limits, authentication, quotas, audit, metrics and errors.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        ORIGIN, TE, VARY,
    },
};
use http_body_util::Full;
use prost_reflect::DescriptorError;
use serde_json::json;
use tonic::body::Body;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, Service as _, service_fn};

use self::{
    forms::Forms,
    json_request::{JsonRequest, json_request},
    json_response::{JSON, JsonResponse, LINES, json_response},
};
use crate::{body::BytesSlot, connections::Link, layers::around::Rest};

mod forms;
mod json_request;
mod json_response;
mod plain_json;

/// Media types of gRPC-web. Its base64 form is excluded: its responses would not be charged.
const GRPC_WEB: [&str; 2] = ["application/grpc-web", "application/grpc-web+proto"];

/// Response headers that pages may read.
const RESPONSE_HEADERS: &str =
    "grpc-message, grpc-retry-pushback-ms, grpc-status, grpc-status-details-bin, retry-after";

/// How long a browser caches the permission, seconds.
const REMEMBERED: &str = "600";

/// State common to all requests.
#[derive(Debug)]
struct Shared {
    forms: Arc<Forms>,
    origins: Vec<HeaderValue>,
    message_bytes_max: usize,
}

/// Turns HTTP calls into gRPC calls, before the layers of all calls.
#[derive(Clone, Debug)]
pub(crate) struct WebLayer(Arc<Shared>);

impl WebLayer {
    /// For the methods in the encoded descriptor sets, and pages from `origins`.
    pub(crate) fn new(
        descriptors: &[u8],
        origins: &[HeaderValue],
        message_bytes_max: usize,
    ) -> Result<Self, DescriptorError> {
        let sets = [descriptors, tonic_health::pb::FILE_DESCRIPTOR_SET, tonic_types::pb::FILE_DESCRIPTOR_SET];
        let forms = Arc::new(Forms::new(&sets)?);
        Ok(Self(Arc::new(Shared { forms, origins: origins.to_vec(), message_bytes_max })))
    }

    pub(crate) fn around<R: Rest>(&self, inner: R) -> impl Rest + use<R> {
        let shared = self.0.clone();
        service_fn(move |request: Request<Body>| {
            let is_allowed = shared.page(request.headers()) == Some(true);
            let origin = request.headers().get(ORIGIN).filter(|_| is_allowed).cloned();
            let (kind, inner) = (shared.kind(&request), inner.clone());
            async move {
                let mut answer = answer(kind, request, inner).await?;
                allow(&mut answer, origin);
                Ok(answer)
            }
        })
    }
}

/// Kind of a request.
enum Kind {
    /// gRPC-web.
    Web,
    /// JSON, with its request and response settings.
    Json(JsonRequest, JsonResponse),
    /// Neither, with the HTTP response.
    Other(Response<Body>),
}

impl Shared {
    /// Whether the requesting page is allowed; none if there is no page. A page that DNS rebinding moved to
    /// this address sends its original name, which is not allowed.
    fn page(&self, headers: &HeaderMap) -> Option<bool> {
        headers.get(ORIGIN).map(|origin| self.origins.contains(origin))
    }

    fn kind(&self, request: &Request<Body>) -> Kind {
        let headers = request.headers();
        let is_ambiguous = request
            .extensions()
            .get::<Arc<Link>>()
            .is_some_and(|link| link.is_ambiguous.load(Ordering::Relaxed));
        if is_ambiguous || headers.get_all(ORIGIN).iter().count() > 1 {
            return Kind::Other(refusal(StatusCode::BAD_REQUEST));
        }
        if self.page(headers) == Some(false) {
            return Kind::Other(refusal(StatusCode::FORBIDDEN));
        }
        let is_preflight =
            headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if request.method() == Method::OPTIONS && is_preflight {
            return Kind::Other(preflight(headers));
        }
        if request.method() != Method::POST {
            return Kind::Other(refusal(StatusCode::METHOD_NOT_ALLOWED));
        }
        let Some(method) = self.forms.method(request.uri().path()) else {
            return Kind::Other(refusal(StatusCode::NOT_FOUND));
        };
        let asks = if method.takes_stream { LINES } else { JSON };
        let is_packed = headers.get(CONTENT_ENCODING).is_some_and(|name| name != "identity");
        match media_type(headers) {
            Some(kind) if !is_packed && GRPC_WEB.contains(&&*kind) => Kind::Web,
            Some(kind) if !is_packed && kind == asks => {
                let bytes = BytesSlot::default();
                let json_request = JsonRequest {
                    message: method.input.clone(),
                    is_stream: method.takes_stream,
                    text_bytes_max: self.message_bytes_max,
                    bytes: bytes.clone(),
                };
                let (forms, method) = (self.forms.clone(), method.clone());
                Kind::Json(json_request, JsonResponse { forms, method, bytes })
            }
            _ => Kind::Other(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
        }
    }
}

/// The media type of a request, without parameters, in lower case.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let kind = value.to_str().ok()?.split(';').next()?;
    Some(kind.trim().to_ascii_lowercase())
}

/// The response to a request that is no call, in the format of errors.
fn refusal(status: StatusCode) -> Response<Body> {
    let (name, message, header) = match status {
        StatusCode::BAD_REQUEST => {
            let message =
                "a request has one Host, at most one Origin, one length, and lines that end in CRLF";
            ("INVALID_ARGUMENT", message, Some((CONNECTION, "close")))
        }
        StatusCode::FORBIDDEN => ("PERMISSION_DENIED", "web.origins has no such origin", None),
        StatusCode::NOT_FOUND => ("UNIMPLEMENTED", "there is no such call", None),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("INVALID_ARGUMENT", "calls are made with POST", Some((ALLOW, "POST")))
        }
        _ => ("INVALID_ARGUMENT", "the content-type is none of this call, or the body is encoded", None),
    };
    let error = json!({ "code": status.as_u16(), "status": name, "message": message, "details": [] });
    let text = format!("{}\n", json!({ "error": error }));
    let mut answer = json_response::answer(status, JSON, Body::new(Full::new(Bytes::from(text))));
    answer.headers_mut().extend(header.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}

/// The response to a browser's preflight. Pages from these origins may send any header.
fn preflight(requested: &HeaderMap) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    let names = requested.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    headers.extend(names.map(|names| (ACCESS_CONTROL_ALLOW_HEADERS, names)));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED));
    answer
}

/// Lets the page at `origin` read `answer`.
fn allow(answer: &mut Response<Body>, origin: Option<HeaderValue>) {
    answer.headers_mut().append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        answer.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer
            .headers_mut()
            .insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    }
}

/// Converts a JSON request to a gRPC call.
fn as_call(request: Request<Body>, how: JsonRequest) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    for name in [CONTENT_LENGTH.as_str(), "grpc-encoding", "grpc-accept-encoding"] {
        head.headers.remove(name);
    }
    head.extensions.insert(how.bytes.clone());
    Request::from_parts(head, json_request(body, how))
}

/// Answers `request` with a call of `inner`, if it is one.
async fn answer(
    kind: Kind,
    mut request: Request<Body>,
    mut inner: impl Rest,
) -> Result<Response<Body>, Infallible> {
    match kind {
        Kind::Other(answer) => Ok(answer),
        Kind::Json(json_request, how) => {
            Ok(json_response(inner.call(as_call(request, json_request)).await?, how).await)
        }
        Kind::Web => {
            // The library requires it without parameters; responses have the same type.
            for name in [CONTENT_TYPE, http::header::ACCEPT] {
                request.headers_mut().insert(name, HeaderValue::from_static(GRPC_WEB[1]));
            }
            GrpcWebLayer::new().layer(inner).call(request).await
        }
    }
}
