//! A line in the audit log for each call that needs a role, is refused, or uses resources.

use std::{sync::Arc, time::Instant};

use http::Request;
use tonic::body::Body;

use super::{around::Check, context::CallContext};
use crate::{
    audit::{Auditor, Entry},
    roles::{Need, need},
    status::Fault,
    usage::Amounts,
};

/// Writes the line when the call ends.
#[derive(Clone, Debug)]
pub(crate) struct Audit(pub(crate) Option<Arc<Auditor>>);

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
