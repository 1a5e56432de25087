//! Calls in progress, and their durations by method and status.

use http::Request;
use prometheus::IntGauge;
use tonic::body::Body;

use super::{around::Check, context::CallContext};
use crate::{
    metrics::{Metrics, RPC_SECONDS},
    openmetrics::TracedHistograms,
    status::{FAULTS, Fault},
    telemetry,
};

#[derive(Clone, Debug)]
pub(crate) struct Measure {
    seconds: TracedHistograms,
    in_progress: IntGauge,
}

impl Measure {
    pub(crate) fn new<'a>(metrics: &Metrics, methods: impl Iterator<Item = &'a str>) -> Self {
        let seconds = metrics.traced_histograms(
            "rpc_server_call_duration_seconds",
            "Duration of gRPC calls, streams included, from the first byte to the last.",
            RPC_SECONDS,
            &["rpc_method", "rpc_response_status_code"],
        );
        // A rate misses the initial value of a counter, so these start at zero.
        for method in methods {
            FAULTS.iter().for_each(|code| drop(seconds.family.with_label_values(&[method, code])));
        }
        Self { seconds, in_progress: metrics.gauge("antares_calls_in_progress", "gRPC calls in progress.") }
    }
}

impl Check for Measure {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        self.in_progress.inc();
        let Self { seconds, in_progress } = self.clone();
        let context = CallContext::in_request(request);
        let (method, span) = (context.method.clone(), context.span.clone());
        context.ending.then(move |end| {
            let trace = telemetry::sampled_trace(&span);
            seconds.observe(&[&*method, end.code], end.elapsed.as_secs_f64(), trace);
            in_progress.dec();
        });
        Ok(())
    }
}
