//! Who may do what operators do.

use tonic::Request;

use crate::{Fault, Peer, RoleProven};

/// What proxies add to calls that they pass on: who called is not at the other end of the connection.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "x-envoy-external-address"];

/// Beside a call where peers on the loopback network are operators: the configuration says so.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackOperators;

/// Whether the caller of `request` may do what operators do: it has shown the role, or comes from the
/// loopback network where that is enough.
///
/// # Errors
/// It may not.
pub fn is_operator<T>(request: &Request<T>) -> Result<(), Fault> {
    let denied = |problem| Err(Fault::denied("OPERATOR_ONLY", problem));
    if request.extensions().get::<RoleProven>().is_some() {
        return Ok(());
    }
    if request.extensions().get::<LoopbackOperators>().is_none() {
        return denied(
            "nobody is asked who calls here, so nobody may do this: call the socket of admin.socket, or set \
             admin.loopback if nobody else's calls come from this machine",
        );
    }
    // Where nobody is asked who he is, the way in says it.
    if FORWARDED.iter().any(|name| request.metadata().contains_key(*name)) {
        return denied("calls that a proxy passes on may not do this where nobody is asked who calls");
    }
    if !Peer::of(request).is_loopback() {
        return denied("only peers on the loopback network may do this: come from within, or forward a port");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_proxy_on_this_machine_makes_nobody_an_operator() {
        let here = Peer::from("127.0.0.1:1".parse::<SocketAddr>().unwrap());
        let request = |name: Option<&'static str>| {
            let mut request = Request::new(());
            request.extensions_mut().insert(here);
            request.extensions_mut().insert(LoopbackOperators);
            if let Some(name) = name {
                request.metadata_mut().insert(name, "192.0.2.1".parse().unwrap());
            }
            request
        };
        assert!(is_operator(&request(None)).is_ok());
        let mut untold = request(None);
        untold.extensions_mut().remove::<LoopbackOperators>();
        assert!(is_operator(&untold).is_err(), "it must have been said that they may");
        for name in FORWARDED {
            assert!(is_operator(&request(Some(name))).is_err(), "{name}");
            let mut proven = request(Some(name));
            proven.extensions_mut().insert(RoleProven);
            assert!(is_operator(&proven).is_ok(), "{name}: who has shown the role may");
        }
    }
}
