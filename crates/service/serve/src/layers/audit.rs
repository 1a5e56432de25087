//! A line in the audit log for each call that needs a role, that is refused, or that used something.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::Request;
use tonic::body::Body;

use super::{check::Check, context::CallContext};
use crate::{
    audit::{Auditor, Entry},
    roles::{Need, need},
    status::Fault,
    usage::Amounts,
};

/// How long a caller waits that found the audit log broken.
const RETRY: Duration = Duration::from_secs(5);

/// Has the line written when the call ends.
#[derive(Clone, Debug)]
pub(crate) struct Audit(pub(crate) Option<Arc<Auditor>>);

/// Refuses calls whose lines cannot be written, where they must be.
#[derive(Clone, Debug)]
pub(crate) struct Audited(pub(crate) Option<Arc<Auditor>>);

impl Check for Audit {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let context = CallContext::in_request(request);
        if let Some(auditor) = &self.0 {
            let (entry, usage) = (Arc::new(entry(auditor, context)), context.account().usage().clone());
            let is_due = !entry.role.is_empty() || context.caller.is_err();
            context.ending.then(move |end| {
                let later = entry.clone();
                let used = usage.take(move |used| later.write(&used, None, None));
                if is_due || used != Amounts::default() {
                    entry.write(&used, Some(end.code), end.reason.as_deref());
                }
            });
        }
        Ok(())
    }
}

fn entry(auditor: &Arc<Auditor>, context: &CallContext) -> Entry {
    let role = match need(&context.method) {
        Need::Role(role) => role.into_str(),
        _ => "",
    };
    let (who, tenant) = match &context.caller {
        Ok(caller) => (caller.as_ref().map(|caller| caller.who.clone()), context.account().tenant().into()),
        Err(stopped) => (stopped.who.clone(), stopped.tenant.clone()),
    };
    Entry {
        auditor: auditor.clone(),
        method: context.method.clone(),
        who,
        tenant,
        role,
        peer: context.peer,
        fields: context.audit.clone(),
        started: Instant::now(),
    }
}

impl Check for Audited {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let is_exempt = CallContext::in_request(request).is_exempt;
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
    use crate::{metrics::Metrics, peer::Peer};

    fn request(method: &str) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(CallContext::new(Arc::from(method), false, Peer::UNKNOWN));
        request
    }

    #[test]
    fn where_lines_must_be_written_nobody_is_answered_without() {
        // Nobody reads the pipe.
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("audit");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let section = antares_config::Audit { target: Some(Some(pipe)), is_required: true };
        let auditor = Auditor::start(&section, &Metrics::new()).unwrap();
        let refused = |method| Audited(auditor.clone()).check(&mut request(method)).err();
        assert_eq!(refused("antares.v1.RunnerService/Execute").unwrap().reason(), "AUDIT_UNAVAILABLE");
        assert!(refused("grpc.health.v1.Health/Check").is_none(), "probes are answered");
        assert!(Audited(None).check(&mut request("antares.v1.RunnerService/Execute")).is_ok());
    }

    #[test]
    fn lines_are_of_calls_that_need_a_role() {
        let folder = tempfile::tempdir().unwrap();
        let target = Some(Some(folder.path().join("audit")));
        let section = antares_config::Audit { target, is_required: false };
        let auditor = Auditor::start(&section, &Metrics::new()).unwrap().unwrap();
        let role = |method| entry(&auditor, CallContext::in_request(&mut request(method))).role;
        assert_eq!(role("antares.v1.AdminService/Drain"), "admin");
        assert_eq!(role("antares.v1.RunnerService/Execute"), "execute");
        assert_eq!(role("antares.v1.RunnerService/GetCapabilities"), "");
    }
}
