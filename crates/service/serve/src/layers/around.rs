//! A layer wraps the rest of a call: it sees the request and the response, and may replace the response.

use std::{convert::Infallible, future::ready};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Service, service_fn};

use crate::status::Fault;

/// A pending response.
pub(crate) type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// The rest of a call: the layers further inside, and the services.
pub(crate) trait Rest:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Rest for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

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

/// `around` in front of the rest of each call. Everything inside is always ready.
pub(crate) fn surround(
    around: impl Around + Clone + Send + 'static,
    mut rest: impl Rest<Future = Answering>,
) -> impl Rest<Future = Answering> {
    service_fn(move |request| around.around(request, |request| rest.call(request)))
}
