//! The end of a call: its response's headers or trailers, or the caller going away. Inner layers register
//! what to do then.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tonic::body::Body;

use super::{
    around::{Answering, Around},
    context::CallContext,
};
use crate::layers::deadline::Stopping;
use crate::{
    account::Account,
    connections::Link,
    status::{CANCELLED, DEADLINE_EXCEEDED, caller_error, closing, code_in, is_refusal, reason_in},
};

/// Extension of a response from another server, which has charged the call.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredElsewhere;

/// Result of a call.
#[derive(Debug)]
pub(crate) struct CallEnd {
    pub(crate) code: &'static str,
    /// The error's reason, as sent to the caller.
    pub(crate) reason: Option<String>,
    pub(crate) elapsed: Duration,
}

type Act = Box<dyn FnOnce(&CallEnd) + Send>;

/// Actions at the end of a call.
#[derive(Clone, Default)]
pub(crate) struct Ending(Arc<Mutex<Vec<Act>>>);

impl Ending {
    /// Runs `act` then, after earlier actions.
    pub(crate) fn then(&self, act: impl FnOnce(&CallEnd) + Send + 'static) {
        self.0.lock().push(Box::new(act));
    }

    /// Holds `held` until then.
    pub(crate) fn hold(&self, held: impl Send + 'static) {
        self.then(move |_| drop(held));
    }

    fn run(&self, end: &CallEnd) {
        let acts = mem::take(&mut *self.0.lock());
        acts.into_iter().for_each(|act| act(end));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome(pub(crate) Stopping);

impl Around for Outcome {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let call = Call::begin(&mut request);
        let (rest, stopping) = (rest(request), self.0.clone());
        Box::pin(async move { Ok(call.answered(rest.await?, stopping)) })
    }
}

/// A call from its first byte to its last. Dropping it runs its actions.
struct Call {
    started: Instant,
    deadline: Option<Instant>,
    /// None for calls without a payer.
    account: Option<Account>,
    /// Its connection, and its number there; none outside a server.
    link: Option<(Arc<Link>, u64)>,
    ending: Ending,
    code: Option<&'static str>,
    reason: Option<String>,
}

impl Call {
    fn begin(request: &mut Request<Body>) -> Self {
        let link = request.extensions().get::<Arc<Link>>().cloned();
        let context = CallContext::in_request(request);
        let account = context.account.clone().filter(|_| !context.is_exempt);
        let end = context.deadline.filter(|_| !context.is_exempt);
        Self {
            started: Instant::now(),
            deadline: context.deadline,
            account,
            link: link.map(|link| (link.clone(), link.begin_call(end))),
            ending: context.ending.clone(),
            code: None,
            reason: None,
        }
    }

    /// `response`, with the call ending in its headers (an error) or trailers.
    fn answered(mut self, mut response: Response<Body>, stopping: Stopping) -> Response<Body> {
        if let Some(status) = caller_error(response.headers()) {
            response = status.into_http();
        }
        if response.extensions().get::<AnsweredElsewhere>().is_some() {
            self.account = None;
        }
        match code_in(response.headers()) {
            Some(code) => {
                self.end(code, response.headers());
                drop(self);
                response
            }
            None => {
                let stop = Box::pin(stopping.ends());
                response.map(|inner| Body::new(WatchedBody { inner, call: Some(self), stop }))
            }
        }
    }

    /// Records the result in `headers` or trailers.
    fn end(&mut self, code: &'static str, headers: &HeaderMap) {
        self.code = Some(code);
        self.reason = reason_in(headers);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        // A call dropped without a status was cancelled by its deadline or its caller.
        let code = self.code.unwrap_or(if is_late { DEADLINE_EXCEEDED } else { CANCELLED });
        if let Some(account) = self.account.take().filter(|_| is_refusal(code)) {
            account.refused();
        }
        self.ending.run(&CallEnd { code, reason: self.reason.take(), elapsed: self.started.elapsed() });
        if let Some((link, number)) = self.link.take() {
            link.end_call(number);
        }
    }
}

/// A response body that records the status in its trailers, and holds the call until it is sent.
struct WatchedBody {
    inner: Body,
    call: Option<Call>,
    stop: BoxFuture<'static, ()>,
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
                let end = frame.trailers_ref().and_then(|trailers| Some((code_in(trailers)?, trailers)));
                if let (Some((code, trailers)), Some(call)) = (end, &mut self.call) {
                    call.end(code, trailers);
                    self.call = None;
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.call = None,
            Poll::Pending => {
                if self.call.is_some() && self.stop.as_mut().poll(context).is_ready() {
                    let mut trailers = closing().into_http::<()>().into_parts().0.headers;
                    trailers.remove(CONTENT_TYPE);
                    if let (Some(mut call), Some(code)) = (self.call.take(), code_in(&trailers)) {
                        call.end(code, &trailers);
                    }
                    self.inner = Body::empty();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            }
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
    use http_body_util::BodyExt as _;
    use tokio_stream::StreamExt as _;
    use tonic::Status;

    use super::*;
    use crate::peer::Peer;

    /// A call, and its actions at the end.
    fn call() -> (Request<Body>, Arc<Mutex<Vec<String>>>) {
        let context = CallContext::new(Arc::from("s/m"), false, Peer::UNKNOWN);
        let done = Arc::new(Mutex::new(Vec::new()));
        for act in ["first", "second"] {
            let done = done.clone();
            context.ending.then(move |end| done.lock().push(format!("{act} {}", end.code)));
        }
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(context);
        (request, done)
    }

    async fn answered(response: Response<Body>) -> (Response<Body>, Arc<Mutex<Vec<String>>>) {
        let (request, done) = call();
        let rest = |_| Box::pin(std::future::ready(Ok(response))) as Answering;
        (Outcome(Stopping::default()).around(request, rest).await.unwrap(), done)
    }

    #[tokio::test]
    async fn acts_are_done_once_and_in_order_where_the_call_ends() {
        let (_, done) = answered(Status::not_found("").into_http()).await;
        assert_eq!(*done.lock(), ["first NOT_FOUND", "second NOT_FOUND"]);
        let trailers = Status::ok("").into_http::<Body>().headers().clone();
        let body = http_body_util::Full::new(Bytes::from_static(b"answer"));
        let body = body.with_trailers(async move { Some(Ok(trailers)) }).map_err(|error| match error {});
        let (response, done) = answered(Response::new(Body::new(body))).await;
        assert!(done.lock().is_empty(), "it goes on until its trailers");
        response.into_body().collect().await.unwrap();
        assert_eq!(*done.lock(), ["first OK", "second OK"]);
    }

    #[tokio::test]
    async fn who_goes_away_has_ended_too_and_gives_back_what_was_held() {
        let (mut request, done) = call();
        let held = Arc::new(());
        CallContext::in_request(&mut request).ending.hold(held.clone());
        let rest = |_| Box::pin(std::future::pending()) as Answering;
        drop(Outcome(Stopping::default()).around(request, rest));
        assert_eq!(*done.lock(), ["first CANCELLED", "second CANCELLED"]);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_stream_that_goes_on_ends_with_a_status_when_the_process_stops() {
        let (request, done) = call();
        let frames = tokio_stream::iter([Ok::<_, Status>(Frame::data(Bytes::from_static(b"a")))]);
        let body = http_body_util::StreamBody::new(frames.chain(tokio_stream::pending()));
        let rest = |_| Box::pin(std::future::ready(Ok(Response::new(Body::new(body))))) as Answering;
        let stopping = Stopping::default();
        let mut body = Outcome(stopping.clone()).around(request, rest).await.unwrap().into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        stopping.end_calls();
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(code_in(&trailers), Some("UNAVAILABLE"));
        assert!(body.frame().await.is_none());
        assert_eq!(*done.lock(), ["first UNAVAILABLE", "second UNAVAILABLE"]);
    }
}
