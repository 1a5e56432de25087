//! The body of a response: untaken bytes are charged to the same budget as requests, until the last one has
//! been sent.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::{
    body::{over_budget, owned},
    budget::{Budget, Spent},
    peer::Peer,
};

/// Shorter frames are free: each call has one, besides the contents of the connection's window.
const FREE_BYTES: usize = 4 << 10;

type Polled = Option<Result<Frame<Bytes>, Status>>;

/// A response body within its peer's budget.
pub(crate) struct MeteredAnswer {
    inner: tonic::body::Body,
    budget: Arc<Budget<Peer>>,
    peer: Peer,
    /// Frames taken from the service before the connection requests them.
    first: Option<Polled>,
    is_over: bool,
}

/// `response` with its body charged. A message that is ready is encoded and charged now: otherwise a
/// connection with a closed window could keep it uncharged indefinitely.
pub(crate) async fn metered(
    response: Response<tonic::body::Body>,
    budget: Arc<Budget<Peer>>,
    peer: Peer,
) -> Response<tonic::body::Body> {
    let (parts, inner) = response.into_parts();
    let mut body = MeteredAnswer { inner, budget, peer, first: None, is_over: false };
    let first = poll_fn(|context| Poll::Ready(Pin::new(&mut body.inner).poll_frame(context))).await;
    match first {
        Poll::Pending => {}
        Poll::Ready(Some(Ok(frame))) => match body.charge(frame) {
            Ok(frame) => body.first = Some(Some(Ok(frame))),
            Err(spent) => return refusal(spent).into_http(),
        },
        // The head ends the stream: without trailers, some clients would consider the response truncated.
        Poll::Ready(None) => body.is_over = true,
        Poll::Ready(other) => body.first = Some(other),
    }
    Response::from_parts(parts, tonic::body::Body::new(body))
}

/// The error that replaces a response beyond the budget.
fn refusal(spent: Spent) -> Status {
    over_budget(spent).into()
}

impl MeteredAnswer {
    fn charge(&self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Spent> {
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(trailers) => return Ok(trailers),
        };
        if bytes.len() <= FREE_BYTES {
            return Ok(Frame::data(bytes));
        }
        let grant = self.budget.take(&self.peer, bytes.len() as u64)?;
        Ok(Frame::data(owned(bytes, grant)))
    }
}

impl Body for MeteredAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Polled> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        Poll::Ready(Some(Ok(self.charge(frame).unwrap_or_else(|spent| {
            self.is_over = true;
            let mut trailers = refusal(spent).into_http::<()>().into_parts().0.headers;
            trailers.remove(http::header::CONTENT_TYPE);
            Frame::trailers(trailers)
        }))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && (self.is_over || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.first.is_some() || self.is_over { SizeHint::default() } else { self.inner.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::status::{code_in, reason_in};

    fn response(frames: &[usize]) -> Response<tonic::body::Body> {
        let frames: Vec<_> =
            frames.iter().map(|bytes| Ok::<_, Status>(Frame::data(vec![7; *bytes].into()))).collect();
        Response::new(tonic::body::Body::new(StreamBody::new(tokio_stream::iter(frames))))
    }

    #[tokio::test]
    async fn an_answer_without_a_body_stays_one() {
        let budget = Arc::new(Budget::new(64 << 10, 32 << 10));
        let status = Status::not_found("it is not there").into_http();
        assert!(metered(status, budget, Peer::UNKNOWN).await.body().is_end_stream());
    }

    #[tokio::test]
    async fn what_nobody_takes_is_charged_until_it_has_left() {
        let budget = Arc::new(Budget::new(64 << 10, 32 << 10));
        let answered = metered(response(&[20 << 10]), budget.clone(), Peer::UNKNOWN).await;
        assert_eq!(budget.total(), 20 << 10, "charged before anybody asks");
        let refused = metered(response(&[20 << 10]), budget.clone(), Peer::UNKNOWN).await;
        assert_eq!(code_in(refused.headers()), Some("RESOURCE_EXHAUSTED"));
        assert_eq!(reason_in(refused.headers()).as_deref(), Some("REQUEST_BYTES"));
        let small = metered(response(&[FREE_BYTES]), budget.clone(), Peer::UNKNOWN).await;
        assert_eq!(code_in(small.headers()), None);
        let bytes = answered.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((bytes.len(), budget.total()), (20 << 10, 20 << 10), "as long as it is held");
        drop(bytes);
        assert_eq!(budget.total(), 0);
    }

    #[tokio::test]
    async fn a_stream_ends_where_its_caller_takes_too_little() {
        let budget = Arc::new(Budget::new(64 << 10, 32 << 10));
        let answered = metered(response(&[20 << 10, 20 << 10, 5]), budget.clone(), Peer::UNKNOWN).await;
        let mut body = answered.into_body();
        let held = body.frame().await.unwrap().unwrap();
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(code_in(&trailers), Some("RESOURCE_EXHAUSTED"));
        assert!(body.frame().await.is_none());
        drop((held, body));
        assert_eq!(budget.total(), 0);
    }
}
