//! Refuses strangers, callers without the call's role, invalid timeouts, and calls whose required audit lines
//! cannot be written.

use std::{sync::Arc, time::Duration};

use http::Request;
use tonic::body::Body;

use super::{around::Check, context::CallContext, deadline::check_timeout};
use crate::{audit::Auditor, status::Fault};

/// Wait of a caller while the audit log is broken.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Authorize(pub(crate) Option<Arc<Auditor>>);

impl Check for Authorize {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let CallContext { caller, is_exempt, .. } = CallContext::in_request(request);
        if let Err(stopped) = caller {
            return Err(stopped.denied.fault());
        }
        let is_exempt = *is_exempt;
        check_timeout(request.headers())?;
        if !is_exempt && self.0.as_ref().is_some_and(|auditor| !auditor.is_well()) {
            let problem = "the audit log cannot be written, and calls are not answered without it";
            return Err(Fault::unavailable("AUDIT_UNAVAILABLE", problem, RETRY));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        authenticator::{Denied, Stopped},
        metrics::Metrics,
        peer::Peer,
    };

    fn refused(layer: &Authorize, method: &str, caller: Result<(), Stopped>) -> Option<String> {
        let context = CallContext::new(Arc::from(method), false, Peer::UNKNOWN);
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(CallContext { caller: caller.map(|()| None), ..context });
        layer.check(&mut request).err().map(|fault| fault.reason().to_owned())
    }

    #[test]
    fn strangers_are_refused_and_all_where_lines_must_be_written_and_cannot_be() {
        // The pipe has no reader.
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("audit");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let section = antares_config::Audit { target: Some(Some(pipe)), is_required: true };
        let broken = Authorize(Auditor::start(&section, &Metrics::new()).unwrap());
        let execute = "antares.v1.RunnerService/Execute";
        for (layer, method, caller, expected) in [
            (&Authorize(None), execute, Ok(()), None),
            (&Authorize(None), execute, Err(Stopped::from(Denied::Missing)), Some("CREDENTIALS_MISSING")),
            (&broken, execute, Ok(()), Some("AUDIT_UNAVAILABLE")),
            // Probes are served.
            (&broken, "grpc.health.v1.Health/Check", Ok(()), None),
        ] {
            assert_eq!(refused(layer, method, caller).as_deref(), expected, "{method}");
        }
    }
}
