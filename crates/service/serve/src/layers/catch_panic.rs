//! A wall against panics: one fails its own call, and no other.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::Request;
use tonic::{Status, body::Body};

use super::around::{Answering, Around};
use crate::status::Fault;

/// The layer.
#[derive(Clone, Debug)]
pub(crate) struct CatchPanic;

impl Around for CatchPanic {
    fn around(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let rest = AssertUnwindSafe(rest(request)).catch_unwind();
        Box::pin(async move {
            // The panic hook has told where. The connection and its other calls live on.
            rest.await.unwrap_or_else(|_| Ok(Status::from(Fault::logged()).into_http()))
        })
    }
}
