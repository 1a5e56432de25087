//! For whom a call is: the account of its tenant.

use std::sync::Arc;

use http::Request;
use tonic::body::Body;

use super::{check::Check, context::CallContext};
use crate::{account::Accounts, status::Fault};

/// The layer.
#[derive(Clone, Debug)]
pub(crate) struct Tenant(pub(crate) Arc<Accounts>);

impl Check for Tenant {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let peer = CallContext::in_request(request).peer;
        let account = self.0.of(peer, request.headers());
        CallContext::in_request(request).account = Some(account);
        Ok(())
    }
}
