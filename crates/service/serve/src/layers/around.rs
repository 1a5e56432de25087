//! A layer that goes around the rest of a call: it sees the answer too, and may give another one.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

/// What is done around the rest of a call.
pub(crate) trait Around {
    /// Answers `request`, with `rest` or without.
    fn around<F, E>(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> F) -> Answering<E>
    where
        F: Future<Output = Result<Response<Body>, E>> + Send + 'static,
        E: Send + 'static;
}

/// An answer that is on its way.
pub(crate) type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// The layer that does it.
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

impl<S, A> Service<Request<Body>> for SurroundService<S, A>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Around,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = &mut self.inner;
        self.around.around(request, |request| inner.call(request))
    }
}
