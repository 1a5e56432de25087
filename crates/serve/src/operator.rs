//! Who may do what operators do.

use tonic::Request;

use crate::{Fault, Peer, RoleProven};

/// What proxies add to calls that they pass on: who called is not at the other end of the connection.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "x-envoy-external-address"];

/// Whether the caller of `request` may do what operators do: it has shown the role, or comes from the loopback network where nobody is asked.
///
/// # Errors
/// It may not.
pub fn is_operator<T>(request: &Request<T>) -> Result<(), Fault> {
    // Where nobody is asked who he is, the way in says it.
    let is_proven = request.extensions().get::<RoleProven>().is_some();
    if !is_proven && FORWARDED.iter().any(|name| request.metadata().contains_key(*name)) {
        let problem = "calls that a proxy passes on may not do this where nobody is asked who calls";
        return Err(Fault::denied("OPERATOR_ONLY", problem));
    }
    if !is_proven && !Peer::of(request).is_loopback() {
        let problem = "only peers on the loopback network may do this: come from within, or forward a port";
        return Err(Fault::denied("OPERATOR_ONLY", problem));
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
            if let Some(name) = name {
                request.metadata_mut().insert(name, "192.0.2.1".parse().unwrap());
            }
            request
        };
        assert!(is_operator(&request(None)).is_ok());
        for name in FORWARDED {
            assert!(is_operator(&request(Some(name))).is_err(), "{name}");
            let mut proven = request(Some(name));
            proven.extensions_mut().insert(RoleProven);
            assert!(is_operator(&proven).is_ok(), "{name}: who has shown the role may");
        }
    }
}
