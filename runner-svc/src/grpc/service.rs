//! The calls of `RunnerService`.

use std::time::Instant;

use antares_proto::v1::{self, runner_service_server};
use antares_serve::CallContext;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming, async_trait, codegen::BoxStream};
use tracing::{Instrument, field};

use crate::{
    ended::{Ended, Execution},
    execute::{batch::Context, order::Order},
    grpc::{
        answers::answer_stream,
        convert::{
            batch::{batch_executed, batch_order},
            capabilities, executed, order,
        },
        session::Session,
        status::{name_call, new_id, record_on_span, signed},
        verify_call::VerifyCaller,
        verify_session::VerifySession,
    },
    limits::SESSION_ANSWERS_MAX,
    metrics::ended_name,
    runner::Runner,
    tenant::tenant,
};

/// The gRPC service for a [`Runner`].
#[derive(Clone)]
pub(crate) struct Service {
    runner: Runner,
    message_bytes_max: u64,
}

impl Service {
    pub(crate) fn new(runner: Runner, message_bytes_max: u64) -> Self {
        Self { runner, message_bytes_max }
    }

    /// The caller that wants transactions of `request` verified.
    fn caller<T>(&self, request: &Request<T>) -> Result<VerifyCaller, Status> {
        Ok(VerifyCaller {
            tenant: tenant(request)?,
            deadline: self.deadline(request),
            room: CallContext::of(request).bytes,
            is_patient: false,
        })
    }

    /// Deadline of the call of `request`.
    fn deadline<T>(&self, request: &Request<T>) -> Instant {
        let longest = Instant::now() + self.runner.limits().call_time_max;
        CallContext::of(request).deadline.map_or(longest, |deadline| deadline.min(longest))
    }
}

#[async_trait]
impl runner_service_server::RunnerService for Service {
    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let call = CallContext::of(&request);
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        let id = begin(&call, &request_id);
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
            let result = self.runner.executor.execute(order, deadline).await;
            if let Ok(execution) = &result {
                call.set_subject(execution.script);
            }
            match &result {
                Ok(execution) => record_verdict(execution),
                Err(error) => record_on_span(error),
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
        let call = CallContext::of(&request);
        let message = request.into_inner();
        let request_id = message.request_id.clone();
        let id = begin(&call, &request_id);
        let (context, inputs) = batch_order(message, self.runner.limits())?;
        let account = tenant.account.clone();
        let context = Context { tenant, ..context };
        let (tier, count) = (context.tier, inputs.len());
        let span = tracing::info_span!("batch", execution_id = id, request_id, ?tier, inputs = count);
        let execution =
            async { self.runner.executor.batch(context, inputs, deadline).await.inspect_err(record_on_span) };
        let execution = execution.instrument(span).await?;
        call.set_subject(execution.script);
        Ok(Response::new(batch_executed(execution, &account, id, request_id)))
    }

    type ExecuteSessionStream = BoxStream<v1::ExecuteSessionResponse>;

    async fn execute_session(
        &self,
        request: Request<Streaming<v1::ExecuteSessionRequest>>,
    ) -> Result<Response<Self::ExecuteSessionStream>, Status> {
        let (deadline, tenant) = (self.deadline(&request), tenant(&request)?);
        let (call, id) = (CallContext::of(&request), new_id());
        name_call(&id, "");
        let span = tracing::info_span!("session", execution_id = id, request_id = field::Empty);
        // One slot more, for how the session ended.
        let (answers, stream) = mpsc::channel(SESSION_ANSWERS_MAX + 1);
        let session = Session { runner: self.runner.clone(), id, tenant, deadline, call };
        tokio::spawn(session.serve(request.into_inner(), answers).instrument(span));
        Ok(Response::new(answer_stream(stream)))
    }

    async fn verify_transaction(
        &self,
        request: Request<v1::VerifyTransactionRequest>,
    ) -> Result<Response<v1::VerifyTransactionResponse>, Status> {
        let (caller, call) = (self.caller(&request)?, CallContext::of(&request));
        let message = request.into_inner();
        let id = begin(&call, &message.request_id);
        Ok(Response::new(self.runner.verify_message(&caller, message, id).await?))
    }

    async fn verify_batch(
        &self,
        request: Request<v1::VerifyBatchRequest>,
    ) -> Result<Response<v1::VerifyBatchResponse>, Status> {
        let caller = VerifyCaller { is_patient: true, ..self.caller(&request)? };
        let call = CallContext::of(&request);
        let message = request.into_inner();
        let request_id = message.shared.as_ref().map(|shared| shared.request_id.clone()).unwrap_or_default();
        let execution_id = begin(&call, &request_id);
        let transactions = message.transactions.len();
        let span = tracing::info_span!("verify_batch", execution_id, request_id, transactions);
        let results = self.runner.verify_batch(caller, message).instrument(span).await?;
        Ok(Response::new(v1::VerifyBatchResponse { execution_id, request_id, results }))
    }

    type VerifySessionStream = BoxStream<v1::VerifySessionResponse>;

    async fn verify_session(
        &self,
        request: Request<Streaming<v1::VerifySessionRequest>>,
    ) -> Result<Response<Self::VerifySessionStream>, Status> {
        let caller = VerifyCaller { is_patient: true, ..self.caller(&request)? };
        let (call, id) = (CallContext::of(&request), new_id());
        name_call(&id, "");
        let span = tracing::info_span!("verify_session", execution_id = id, request_id = field::Empty);
        // One slot more, for how the session ended.
        let (answers, stream) = mpsc::channel(SESSION_ANSWERS_MAX + 1);
        let session = VerifySession { runner: self.runner.clone(), id, caller, call };
        tokio::spawn(session.serve(request.into_inner(), answers).instrument(span));
        Ok(Response::new(answer_stream(stream)))
    }

    async fn get_capabilities(
        &self,
        request: Request<v1::GetRunnerCapabilitiesRequest>,
    ) -> Result<Response<v1::RunnerCapabilities>, Status> {
        Ok(Response::new(capabilities(
            &self.runner,
            &CallContext::of(&request).account(),
            self.message_bytes_max,
        )))
    }
}

/// Records the caller's ID of `call` in the log and the audit log, and returns the server's.
fn begin(call: &CallContext, request_id: &str) -> String {
    call.set_request_id(request_id);
    let id = new_id();
    name_call(&id, request_id);
    id
}

/// Writes the verdict into the current span and the log.
fn record_verdict(execution: &Execution) {
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
        Ended::SandboxViolation { detail } => tracing::warn!(detail, "a worker violated the sandbox policy"),
        _ => tracing::debug!("executed"),
    }
}
