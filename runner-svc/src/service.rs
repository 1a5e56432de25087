//! The calls of `RunnerService`.

use std::time::{Duration, Instant};

use antares_proto::v1::{self, runner_service_server};
use antares_serve::CallDeadline;
use tonic::{Request, Response, Status, async_trait};
use tracing::{Instrument, field};

use crate::{
    convert::{capabilities, executed, order},
    execute::{Ended, ExecuteError, Execution, Runner},
    metrics::ended_name,
};

/// The gRPC face of a [`Runner`].
#[derive(Clone)]
pub(crate) struct Service {
    runner: Runner,
    message_bytes_max: u64,
}

impl Service {
    pub(crate) fn new(runner: Runner, message_bytes_max: u64) -> Self {
        Self { runner, message_bytes_max }
    }
}

#[async_trait]
impl runner_service_server::RunnerService for Service {
    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let longest = Instant::now() + Duration::from_millis(self.runner.limits().call_ms_max);
        let deadline = CallDeadline::of(&request).map_or(longest, |deadline| deadline.min(longest));
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        let order = order(message, self.runner.limits())?;
        let id = format!("{:016x}", rand::random::<u64>());
        let span = tracing::info_span!(
            "execute",
            execution_id = id,
            request_id,
            tier = ?order.job.tier,
            script = field::Empty,
            outcome = field::Empty,
            cycles = field::Empty,
            native_cycles = field::Empty,
            interpreted_cycles = field::Empty,
        );
        let execution = async {
            let result = self.runner.execute(order, deadline).await;
            match &result {
                Ok(execution) => tell(execution),
                Err(ExecuteError::WorkerLost { detail }) => tracing::warn!(detail, "a worker was lost"),
                Err(error) => tracing::debug!(%error, "no verdict"),
            }
            result
        };
        let execution = execution.instrument(span).await?;
        Ok(Response::new(executed(execution, id, request_id)))
    }

    async fn get_capabilities(
        &self,
        _request: Request<v1::GetRunnerCapabilitiesRequest>,
    ) -> Result<Response<v1::RunnerCapabilities>, Status> {
        Ok(Response::new(capabilities(&self.runner, self.message_bytes_max)))
    }
}

/// Writes the verdict into the current span and the log.
fn tell(execution: &Execution) {
    let span = tracing::Span::current();
    let outcome = ended_name(&execution.ended);
    span.record("script", execution.script.to_string());
    span.record("outcome", outcome);
    if let Ended::Reported(report) = &execution.ended {
        span.record("cycles", signed(report.cycles));
        span.record("native_cycles", signed(report.native_cycles));
        span.record("interpreted_cycles", signed(report.interpreted_cycles));
    }
    match &execution.ended {
        Ended::SandboxViolation { detail } => tracing::warn!(detail, "a worker broke a rule of the fence"),
        _ => tracing::debug!("executed"),
    }
}

/// Traces have signed numbers only; others would arrive as text.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
