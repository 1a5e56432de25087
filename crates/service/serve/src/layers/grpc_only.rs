//! Passes only gRPC calls: others get an HTTP error.

use std::future::ready;

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use tonic::body::Body;

use super::around::{Answering, Around};

/// Media type of gRPC, before `+proto` and parameters.
const GRPC: &str = "application/grpc";

#[derive(Clone, Debug)]
pub(crate) struct GrpcOnly;

impl Around for GrpcOnly {
    fn around(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        match not_grpc(&request) {
            Some(answer) => Box::pin(ready(Ok(answer))),
            None => rest(request),
        }
    }
}

/// HTTP response to a request that is no gRPC call.
fn not_grpc(request: &Request<Body>) -> Option<Response<Body>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::code_in;

    #[test]
    fn what_is_no_grpc_is_reported_in_http() {
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
        let others =
            "application/json application/grpc-web application/grpc-web+proto text/plain application/grpcx";
        for other in others.split(' ').map(Some).chain([Some(""), None]) {
            let answer = ask("POST", other).unwrap();
            assert_eq!((answer.status().as_u16(), code_in(answer.headers())), (415, None), "{other:?}");
        }
        for method in ["PUT", "GET", "HEAD", "DELETE", "OPTIONS"] {
            let answer = ask(method, Some("application/grpc")).unwrap();
            let allow = answer.headers()[ALLOW].to_str().unwrap();
            assert_eq!((answer.status().as_u16(), allow), (405, "POST"));
        }
    }
}
