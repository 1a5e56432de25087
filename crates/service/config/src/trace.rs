//! Section `[trace]`.

use crate::{check::Checker, section::section};

section! {
/// Traces.
"trace": RawTrace => Trace {
    /// OTLP over gRPC, such as `http://localhost:4317`; empty switches traces off.
    endpoint: text;
    /// Share of calls that are traced where the caller has not decided, 0.0 to 1.0.
    sample_ratio: share = 1.0;
}
}

impl RawTrace {
    /// `None` if traces are off.
    pub(crate) fn section(&self, checker: &mut Checker) -> Option<Trace> {
        let trace = self.check(checker);
        if trace.endpoint.is_empty() {
            return None;
        }
        checker.url("trace.endpoint", &trace.endpoint);
        Some(trace)
    }
}
