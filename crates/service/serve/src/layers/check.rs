//! A layer of the simplest kind: it looks at a request and lets it go on, or refuses it.

use std::task::{Context, Poll};

use futures_util::future::{Either, Ready, ready};
use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use crate::status::Fault;

/// What is done before a call goes on.
pub(crate) trait Check {
    /// Looks at `request`, and writes into its context what those behind may know.
    ///
    /// # Errors
    /// The call is refused: nobody behind sees it.
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault>;
}

/// The layer that does it.
#[derive(Clone, Debug)]
pub(crate) struct Checked<C>(pub(crate) C);

impl<S, C: Clone> Layer<S> for Checked<C> {
    type Service = CheckedService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        CheckedService { inner, check: self.0.clone() }
    }
}

/// A service behind a [`Check`].
#[derive(Clone, Debug)]
pub(crate) struct CheckedService<S, C> {
    inner: S,
    check: C,
}

impl<S, C> Service<Request<Body>> for CheckedService<S, C>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    C: Check,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.check.check(&mut request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(fault) => Either::Right(ready(Ok(Status::from(fault).into_http()))),
        }
    }
}
