//! The calls of `AdminService`, for operators of a process of any service; the services' common capabilities;
//! and the definition of an operator.

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, admin_service_server};
use antares_trust::{KeyError, Trust, is_key_id};
pub use capabilities::{
    ISAS, VM_VERSIONS, build_facts, code_tier, compile_options, quotas, sandbox, versions,
};
pub use errors::operation_error;
use tonic::{Request, Response, Status, async_trait};

use crate::{CallContext, Fault, drain, set_log_filter};

mod capabilities;
mod errors;

/// Full name of the service, for health checks.
pub const ADMIN: &str = "antares.v1.AdminService";

/// The gRPC service of a process; with its signing keys, if it signs.
#[derive(Clone)]
pub struct AdminService(pub Option<Signer>);

/// Signing of native code in this process.
#[derive(Clone)]
pub struct Signer {
    /// Its keys and revocations.
    pub trust: Arc<Trust>,
    /// Stored files that belong to a digest. May block.
    pub belonging: Arc<dyn Fn(Sha256Digest) -> Option<Belonging> + Send + Sync>,
}

/// A script and its stored native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// SHA-256 of the script.
    pub script: Sha256Digest,
    /// SHA-256 of each shared object.
    pub libraries: Vec<Sha256Digest>,
}

impl Signer {
    /// Revokes `name`, and reports what it is here.
    fn revoke(&self, name: &str) -> Result<v1::RevokeResponse, KeyError> {
        self.trust.revoke(name)?;
        let Ok(digest) = name.parse::<Sha256Digest>() else {
            return Ok(v1::RevokeResponse { kind: v1::RevokedKind::Key.into(), ..Default::default() });
        };
        let Some(found) = (self.belonging)(digest) else {
            return Ok(v1::RevokeResponse { kind: v1::RevokedKind::NotStored.into(), ..Default::default() });
        };
        let is_script = found.script == digest;
        let kind = if is_script { v1::RevokedKind::Script } else { v1::RevokedKind::Library };
        Ok(v1::RevokeResponse {
            kind: kind.into(),
            script_sha256: found.script.to_string(),
            library_sha256: found.libraries.iter().map(Sha256Digest::to_string).collect(),
        })
    }
}

fn invalid(field: &str, problem: &str) -> Fault {
    Fault::field("REQUEST_INVALID", field, problem)
}

#[async_trait]
impl admin_service_server::AdminService for AdminService {
    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        is_operator(&request)?;
        tracing::warn!("drained by an operator");
        drain().map_err(|error| Fault::internal(&error))?;
        Ok(Response::new(v1::DrainResponse {}))
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeRequest>,
    ) -> Result<Response<v1::RevokeResponse>, Status> {
        is_operator(&request)?;
        let call = CallContext::of(&request);
        let name = request.into_inner().name;
        call.set_subject(&name);
        if !is_key_id(&name) && name.parse::<Sha256Digest>().is_err() {
            return Err(invalid("name", "must be the id of a key or 64 hex digits").into());
        }
        let Some(signer) = self.0.clone() else {
            return Err(Fault::precondition("NO_KEYS", "no keys are kept here; ask the compiler").into());
        };
        let asked = name.clone();
        let revoked = tokio::task::spawn_blocking(move || signer.revoke(&asked)).await;
        let answer = match revoked.map_err(|error| Fault::internal(&error))? {
            Ok(answer) => answer,
            Err(error @ (KeyError::NoSuch(_) | KeyError::Signs(_))) => {
                return Err(invalid("name", &error.to_string()).into());
            }
            Err(error) => return Err(Fault::internal(&error).into()),
        };
        tracing::warn!(name, "revoked by an operator");
        Ok(Response::new(answer))
    }

    async fn set_log_filter(
        &self,
        request: Request<v1::SetLogFilterRequest>,
    ) -> Result<Response<v1::SetLogFilterResponse>, Status> {
        is_operator(&request)?;
        CallContext::of(&request).set_subject(&request.get_ref().filter);
        let filter = request.into_inner().filter;
        let previous = set_log_filter(&filter).map_err(|problem| invalid("filter", &problem))?;
        tracing::warn!(filter, "what is logged was changed by an operator");
        Ok(Response::new(v1::SetLogFilterResponse { previous }))
    }
}

/// Headers that proxies add: the caller is then not the peer of the connection.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "x-envoy-external-address"];

/// Whether the caller of `request` is an operator: it has the role, or comes from the loopback network where
/// that suffices.
///
/// # Errors
/// It is not.
pub fn is_operator<T>(request: &Request<T>) -> Result<(), Fault> {
    let denied = |problem| Err(Fault::denied("OPERATOR_ONLY", problem));
    let context = CallContext::of(request);
    if context.proven.role {
        return Ok(());
    }
    if !context.proven.loopback {
        return denied(
            "nobody is asked who calls here, so nobody may do this: call the socket of admin.socket, or set \
             admin.loopback if nobody else's calls come from this machine",
        );
    }
    // Without authentication, only a direct connection identifies the caller.
    if FORWARDED.iter().any(|name| request.metadata().contains_key(*name)) {
        return denied("calls that a proxy passes on may not do this where nobody is asked who calls");
    }
    if !context.peer.is_loopback() {
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
        let mut operators = CallContext { peer: here, ..CallContext::outside() };
        operators.proven.loopback = true;
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
            let mut proven = operators.clone();
            proven.proven.role = true;
            assert!(is_operator(&request(Some(name), proven)).is_ok(), "{name}: who has shown the role may");
        }
    }
}
