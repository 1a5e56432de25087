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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        authenticator::{Denied, Stopped},
        peer::Peer,
    };

    #[test]
    fn strangers_are_refused_and_others_are_not() {
        let ask = |caller| {
            let context = CallContext::new(Arc::from("s/m"), false, Peer::UNKNOWN);
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(CallContext { caller, ..context });
            Authorize.check(&mut request).err().map(|fault| fault.reason().to_owned())
        };
        assert_eq!(ask(Ok(None)), None);
        assert_eq!(ask(Err(Stopped::from(Denied::Missing))).as_deref(), Some("CREDENTIALS_MISSING"));
    }
}
