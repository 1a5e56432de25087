//! Who may do what operators do.

use tonic::Request;

use crate::{CallContext, Fault};

/// What proxies add to calls that they pass on: who called is not at the other end of the connection.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "x-envoy-external-address"];

/// Whether the caller of `request` may do what operators do: it has shown the role, or comes from the
/// loopback network where that is enough.
///
/// # Errors
/// It may not.
pub fn is_operator<T>(request: &Request<T>) -> Result<(), Fault> {
    let denied = |problem| Err(Fault::denied("OPERATOR_ONLY", problem));
    let context = CallContext::of(request);
    if context.has_role() {
        return Ok(());
    }
    if !context.proven.loopback {
        return denied(
            "nobody is asked who calls here, so nobody may do this: call the socket of admin.socket, or set \
             admin.loopback if nobody else's calls come from this machine",
        );
    }
    // Where nobody is asked who he is, the way in says it.
    if FORWARDED.iter().any(|name| request.metadata().contains_key(*name)) {
        return denied("calls that a proxy passes on may not do this where nobody is asked who calls");
    }
    if !context.peer().is_loopback() {
        return denied("only peers on the loopback network may do this: come from within, or forward a port");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::Peer;

    #[test]
    fn a_proxy_on_this_machine_makes_nobody_an_operator() {
        let here = Peer::from("127.0.0.1:1".parse::<SocketAddr>().unwrap());
        let operators = CallContext::outside().from_operators(here);
        let request = |name: Option<&'static str>, context: CallContext| {
            let mut request = Request::new(());
            request.extensions_mut().insert(context);
            if let Some(name) = name {
                request.metadata_mut().insert(name, "192.0.2.1".parse().unwrap());
            }
            request
        };
        assert!(is_operator(&request(None, operators.clone())).is_ok());
        let untold = CallContext { proven: Default::default(), ..operators.clone() };
        assert!(is_operator(&request(None, untold)).is_err(), "it must have been said that they may");
        for name in FORWARDED {
            assert!(is_operator(&request(Some(name), operators.clone())).is_err(), "{name}");
            let proven = operators.clone().with_role();
            assert!(is_operator(&request(Some(name), proven)).is_ok(), "{name}: who has shown the role may");
        }
    }
}
