//! Who may do what operators do.

use tonic::Request;

use crate::{Fault, Peer, RoleProven};

/// Whether the caller of `request` may do what operators do: it has shown the role, or comes from the loopback network where nobody is asked.
///
/// # Errors
/// It may not.
pub fn is_operator<T>(request: &Request<T>) -> Result<(), Fault> {
    // Where nobody is asked who he is, the way in says it.
    let is_proven = request.extensions().get::<RoleProven>().is_some();
    if !is_proven && !Peer::of(request).is_loopback() {
        let problem = "only peers on the loopback network may do this: come from within, or forward a port";
        return Err(Fault::denied("OPERATOR_ONLY", problem));
    }
    Ok(())
}
