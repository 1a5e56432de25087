//! Whoever was found to be a stranger, or to lack the role that the call needs, goes no further.

use http::Request;
use tonic::body::Body;

use super::{check::Check, context::CallContext};
use crate::status::Fault;

/// The layer.
#[derive(Clone, Debug)]
pub(crate) struct Authorize;

impl Check for Authorize {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        match &CallContext::in_request(request).caller {
            Ok(_) => Ok(()),
            Err(stopped) => Err(stopped.denied.fault()),
        }
    }
}
