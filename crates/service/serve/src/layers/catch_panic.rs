//! Isolates panics: a panic fails only its own call.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::Request;
use tonic::{Status, body::Body};

use super::around::{Answering, Around};
use crate::status::Fault;

#[derive(Clone, Debug)]
pub(crate) struct CatchPanic;

impl Around for CatchPanic {
    fn around(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let rest = AssertUnwindSafe(rest(request)).catch_unwind();
        Box::pin(async move {
            // The panic hook has logged where. The connection and its other calls continue.
            rest.await.unwrap_or_else(|_| Ok(Status::from(Fault::logged()).into_http()))
        })
    }
}
