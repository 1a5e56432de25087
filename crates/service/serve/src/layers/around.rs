//! A layer wraps the rest of a call: it sees the request and the response, and may replace the response.

use std::{
    convert::Infallible,
    future::ready,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use crate::status::Fault;

/// A pending response.
pub(crate) type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// Wraps the rest of a call.
pub(crate) trait Around {
    /// Responds to `request`, with or without `rest`.
    fn around(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering;
}

/// A layer that passes or refuses requests.
pub(crate) trait Check {
    /// Checks or changes `request`.
    ///
    /// # Errors
    /// Why it is refused.
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault>;
}

/// A [`Check`] as a layer.
#[derive(Clone, Debug)]
pub(crate) struct Checked<C>(pub(crate) C);

impl<C: Check> Around for Checked<C> {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        match self.0.check(&mut request) {
            Ok(()) => rest(request),
            Err(fault) => refused(fault),
        }
    }
}

pub(crate) fn refused(fault: Fault) -> Answering {
    Box::pin(ready(Ok(Status::from(fault).into_http())))
}

/// The layer of an [`Around`].
#[derive(Clone, Debug)]
pub(crate) struct Surround<A>(pub(crate) A);

impl<S, A: Clone> Layer<S> for Surround<A> {
    type Service = SurroundService<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        SurroundService { inner, around: self.0.clone() }
    }
}

/// A service wrapped in an [`Around`].
#[derive(Clone, Debug)]
pub(crate) struct SurroundService<S, A> {
    inner: S,
    around: A,
}

impl<S, A: Around> Service<Request<Body>> for SurroundService<S, A>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answering>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        self.around.around(request, |request| self.inner.call(request))
    }
}
