//! The calls of `AdminService`, what an operator does to the process, of whichever service it is; and what
//! both services tell callers of themselves.

mod capabilities;
mod errors;

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, admin_service_server};
use antares_trust::{KeyError, Trust, is_key_id};
use tonic::{Request, Response, Status, async_trait};

use crate::{CallContext, Fault, drain, is_operator, set_log_filter};

pub use capabilities::{build_facts, quotas, versions};
pub use errors::operation_error;

/// Full name of the service, for health checks.
pub const ADMIN: &str = "antares.v1.AdminService";

/// The gRPC face of a process; with the keys that it signs with, if it does.
#[derive(Clone)]
pub struct AdminService {
    signer: Option<Signer>,
}

/// Where a process signs native code.
#[derive(Clone)]
pub struct Signer {
    /// Its keys, and what is revoked.
    pub trust: Arc<Trust>,
    /// What belongs to a digest, as far as it is stored here. May block.
    pub belonging: Arc<dyn Fn(Sha256Digest) -> Option<Belonging> + Send + Sync>,
}

/// A script and the native code that is stored of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// SHA-256 of the script.
    pub script: Sha256Digest,
    /// SHA-256 of each shared object.
    pub libraries: Vec<Sha256Digest>,
}

impl Signer {
    /// Revokes `name`, and tells what it is here.
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

impl AdminService {
    /// Of a process that signs as `signer` does, if it signs.
    #[must_use]
    pub fn new(signer: Option<Signer>) -> Self {
        Self { signer }
    }
}

fn invalid(field: &'static str, problem: String) -> Fault {
    Fault::invalid("REQUEST_INVALID", format!("{field} {problem}")).violation(field, problem)
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
            return Err(invalid("name", "must be the id of a key or 64 hex digits".to_owned()).into());
        }
        let Some(signer) = self.signer.clone() else {
            return Err(Fault::precondition("NO_KEYS", "no keys are kept here; ask the compiler").into());
        };
        let asked = name.clone();
        let revoked = tokio::task::spawn_blocking(move || signer.revoke(&asked)).await;
        let answer = match revoked.map_err(|error| Fault::internal(&error))? {
            Ok(answer) => answer,
            Err(error @ (KeyError::NoSuch(_) | KeyError::Signs(_))) => {
                return Err(invalid("name", error.to_string()).into());
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
        let previous = set_log_filter(&filter).map_err(|problem| invalid("filter", problem))?;
        tracing::warn!(filter, "what is logged was changed by an operator");
        Ok(Response::new(v1::SetLogFilterResponse { previous }))
    }
}
