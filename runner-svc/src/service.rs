//! The calls of `RunnerService`.

use std::time::{Duration, Instant};

use antares_proto::v1::{self, runner_service_server};
use antares_serve::{Account, CallDeadline, CallNotes, RequestBytes};
use tokio::{sync::mpsc, time::timeout_at};
use tonic::{Request, Response, Status, Streaming, async_trait};
use tracing::{Instrument, field};

use crate::{
    batch::Context,
    convert::{
        batch::{batch_executed, batch_order},
        capabilities, executed, order,
        transaction::{verified, verify_order},
    },
    ended::{Ended, ExecuteError, Execution},
    limits::SESSION_ANSWERS_MAX,
    metrics::{ended_name, verification_name},
    order::Order,
    runner::Runner,
    session::{AnswerStream, Session},
    tenant::tenant,
    verify::VerifyOrder,
};

/// Bytes of a caller's name for a request that a log line has, at most; a longer one is refused.
const REQUEST_ID_LOGGED_MAX: usize = 128;

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

    /// When the call of `request` must have ended.
    fn deadline<T>(&self, request: &Request<T>) -> Instant {
        let longest = Instant::now() + Duration::from_millis(self.runner.limits().call_ms_max);
        CallDeadline::of(request).map_or(longest, |deadline| deadline.min(longest))
    }
}

/// A name for an execution.
fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Lets all that the log says of the call have the names of its execution.
fn name_call(id: &str, request_id: &str) {
    let call = tracing::Span::current();
    call.record("execution_id", id);
    if !request_id.is_empty() {
        call.record("request_id", request_id.get(..REQUEST_ID_LOGGED_MAX).unwrap_or(request_id));
    }
}

/// Tells the log why there is no verdict.
fn tell_error(error: &ExecuteError) {
    match error {
        ExecuteError::WorkerLost { detail } => tracing::warn!(detail, "a worker was lost"),
        error => tracing::debug!(%error, "no verdict"),
    }
}

#[async_trait]
impl runner_service_server::RunnerService for Service {
    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let notes = CallNotes::of(&request);
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        notes.request_id(&request_id);
        let id = new_id();
        name_call(&id, &request_id);
        let account = tenant.account.clone();
        let order = Order { tenant, ..order(message, self.runner.limits())? };
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
            if let Ok(execution) = &result {
                notes.what(execution.script);
            }
            match &result {
                Ok(execution) => tell(execution),
                Err(error) => tell_error(error),
            }
            result
        };
        let execution = execution.instrument(span).await?;
        Ok(Response::new(executed(execution, &account, id, request_id)))
    }

    async fn execute_batch(
        &self,
        request: Request<v1::ExecuteBatchRequest>,
    ) -> Result<Response<v1::ExecuteBatchResponse>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let notes = CallNotes::of(&request);
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        notes.request_id(&request_id);
        let id = new_id();
        name_call(&id, &request_id);
        let (context, inputs) = batch_order(message, self.runner.limits())?;
        let account = tenant.account.clone();
        let context = Context { tenant, ..context };
        let (tier, count) = (context.tier, inputs.len());
        let span = tracing::info_span!("batch", execution_id = id, request_id, ?tier, inputs = count);
        let execution = async { self.runner.batch(context, inputs, deadline).await.inspect_err(tell_error) };
        let execution = execution.instrument(span).await?;
        notes.what(execution.script);
        Ok(Response::new(batch_executed(execution, &account, id, request_id)))
    }

    type ExecuteSessionStream = AnswerStream;

    async fn execute_session(
        &self,
        request: Request<Streaming<v1::ExecuteSessionRequest>>,
    ) -> Result<Response<Self::ExecuteSessionStream>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let bytes = RequestBytes::of(&request);
        let id = new_id();
        name_call(&id, "");
        let span = tracing::info_span!("session", execution_id = id, request_id = field::Empty);
        // One place more, for how the session ended.
        let (answers, stream) = mpsc::channel(SESSION_ANSWERS_MAX + 1);
        let session = Session { runner: self.runner.clone(), id, tenant, deadline, bytes };
        tokio::spawn(session.serve(request.into_inner(), answers).instrument(span));
        Ok(Response::new(AnswerStream(stream)))
    }

    async fn verify_transaction(
        &self,
        request: Request<v1::VerifyTransactionRequest>,
    ) -> Result<Response<v1::VerifyTransactionResponse>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let notes = CallNotes::of(&request);
        let room = RequestBytes::of(&request);
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        notes.request_id(&request_id);
        let id = new_id();
        name_call(&id, &request_id);
        let account = tenant.account.clone();
        let mut order = VerifyOrder { tenant, ..verify_order(message, self.runner.limits())? };
        let resolved = self.runner.resolve(&mut order, room.as_ref());
        let _held =
            timeout_at(deadline.into(), resolved).await.unwrap_or(Err(ExecuteError::CallDeadline.into()))?;
        let span = tracing::info_span!(
            "verify",
            execution_id = id,
            request_id,
            tier = ?order.tier,
            outcome = field::Empty,
            cycles = field::Empty,
        );
        let verification = async {
            let result = self.runner.verify(order, deadline).await.inspect_err(tell_error);
            let span = tracing::Span::current();
            span.record(
                "outcome",
                verification_name(result.as_ref().map(|verification| &verification.ended)),
            );
            if let Ok(verification) = &result
                && let Ended::Reported(verified) = &verification.ended
            {
                span.record("cycles", signed(verified.cycles));
            }
            tracing::debug!("verified");
            result
        };
        let verification = verification.instrument(span).await?;
        Ok(Response::new(verified(verification, &account, id, request_id)))
    }

    async fn get_capabilities(
        &self,
        request: Request<v1::GetRunnerCapabilitiesRequest>,
    ) -> Result<Response<v1::RunnerCapabilities>, Status> {
        Ok(Response::new(capabilities(&self.runner, &Account::of(&request), self.message_bytes_max)))
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
