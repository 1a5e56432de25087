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
