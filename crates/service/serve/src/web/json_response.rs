//! Converts a gRPC response to JSON: one message, or one per line; an error becomes an HTTP error with its
//! details. Bytes that the caller has not read count toward the response budget.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS},
};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tonic::{Status, body::Body};

use super::forms::{Forms, Method, to_line};
use crate::{
    body::{BytesSlot, HEAD_BYTES, owned},
    status::{code_in, http_status, retry_seconds},
};

/// Media type of one message.
pub(crate) const JSON: &str = "application/json";

/// Media type of several.
pub(crate) const LINES: &str = "application/x-ndjson";

/// Settings of a response.
#[derive(Clone, Debug)]
pub(crate) struct JsonResponse {
    pub(crate) forms: Arc<Forms>,
    pub(crate) method: Method,
    pub(crate) bytes: BytesSlot,
}

/// Converts `response` to JSON.
pub(crate) async fn json_response(response: Response<Body>, how: JsonResponse) -> Response<Body> {
    let (head, body) = response.into_parts();
    if code_in(&head.headers).is_some_and(|code| code != "OK") {
        return how.refusal(&head.headers);
    }
    let mut reader = Reader { body, how, text: BytesMut::new(), is_over: false };
    if !reader.how.method.gives_stream {
        return match reader.next().await {
            Ok(Some(line)) => {
                // The trailers after it hold the status.
                match reader.next().await {
                    Ok(None) => answer(StatusCode::OK, JSON, Body::new(Full::new(line))),
                    Ok(Some(_)) => reader.how.failure(Status::unknown("an answer had two messages")),
                    Err(headers) => reader.how.refusal(&headers),
                }
            }
            Ok(None) => reader.how.failure(Status::unknown("an answer had no message")),
            Err(headers) => reader.how.refusal(&headers),
        };
    }
    let lines = stream::unfold(reader, async |mut reader| {
        let line = match reader.next().await {
            Ok(line) => line?,
            Err(headers) => {
                reader.is_over = true;
                let mut line = reader.how.forms.error(&headers, &reader.how.method.input).to_string();
                line.push('\n');
                line.into()
            }
        };
        Some((Ok::<_, Status>(Frame::data(line)), reader))
    });
    answer(StatusCode::OK, LINES, Body::new(StreamBody::new(lines)))
}

/// A response of this type.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

impl JsonResponse {
    /// The error in `headers` or trailers.
    fn refusal(&self, headers: &HeaderMap) -> Response<Body> {
        let text = format!("{}\n", self.forms.error(headers, &self.method.input));
        let mut answer = answer(http_status(headers), JSON, Body::new(Full::new(Bytes::from(text))));
        if let Some(seconds) = retry_seconds(headers) {
            answer.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        answer
    }

    fn failure(&self, status: Status) -> Response<Body> {
        self.refusal(&headers_of(status))
    }

    /// A message as a line, charged to the caller.
    fn line(&self, message: &[u8]) -> Result<Bytes, HeaderMap> {
        let text = to_line(&self.method, message).map_err(|fault| headers_of(fault.into()))?;
        let held = self.bytes.hold(text.len()).map_err(|fault| headers_of(fault.into()))?;
        Ok(owned(text, held))
    }
}

fn headers_of(status: Status) -> HeaderMap {
    status.into_http::<()>().into_parts().0.headers
}

struct Reader {
    body: Body,
    how: JsonResponse,
    /// Received bytes that are not converted yet.
    text: BytesMut,
    is_over: bool,
}

impl Reader {
    /// The next message in JSON; none after the last; headers if there is an error.
    async fn next(&mut self) -> Result<Option<Bytes>, HeaderMap> {
        loop {
            if let Some(message) = self.message() {
                return self.how.line(&message).map(Some);
            }
            if self.is_over {
                return Ok(None);
            }
            match self.body.frame().await {
                None => self.is_over = true,
                Some(Err(status)) => return Err(headers_of(status)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.text.extend_from_slice(&data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        if code_in(&trailers).is_some_and(|code| code != "OK") {
                            return Err(trailers);
                        }
                    }
                },
            }
        }
    }

    /// The next complete message. The service is ours, so its lengths are trusted.
    fn message(&mut self) -> Option<BytesMut> {
        let head = self.text.get(..HEAD_BYTES)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if self.text.len() < HEAD_BYTES + length {
            return None;
        }
        self.text.advance(HEAD_BYTES);
        Some(self.text.split_to(length))
    }
}
