//! A layer goes around the rest of a call: it sees the request and the answer, and may give another one.

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

/// An answer that is on its way.
pub(crate) type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// What is done around the rest of a call.
pub(crate) trait Around {
    /// Answers `request`, with `rest` or without.
    fn around(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering;
}

/// A layer that lets requests go on, or refuses them.
pub(crate) trait Check {
    /// Looks at `request`, or changes it.
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

/// A service within an [`Around`].
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
