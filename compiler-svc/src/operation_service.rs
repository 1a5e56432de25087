//! The calls of `OperationService`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1::{self, operation_service_server};
use antares_serve::{CallContext, Fault};
use tonic::{Request, Response, Status, async_trait};
use tracing::Instrument as _;

use crate::{
    compiler::Compiler,
    convert::{compile_order, compiled},
    operations::{Operation, State},
    order::CompileOrder,
};

/// Longest wait in one call, whatever the caller requests.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Time reserved for a call's response.
const ANSWER: Duration = Duration::from_millis(50);

/// The gRPC service for a [`Compiler`]'s operations.
#[derive(Clone)]
pub(crate) struct OperationService(pub(crate) Compiler);

impl OperationService {
    fn find<T>(&self, request: &Request<T>, name: &str) -> Result<Arc<Operation>, Fault> {
        self.0.shared.operations.find(CallContext::of(request).account().owner(), name)
    }
}

/// Runs `operation`.
async fn work(compiler: Compiler, operation: Arc<Operation>, order: CompileOrder) {
    // A background compile: it takes turns with those that follow a baseline.
    let _turn = match operation.priority {
        v1::Priority::WarmUp => compiler.shared.followers.turns.acquire().await.ok(),
        _ => None,
    };
    operation.go_on(State::Running);
    operation.go_on(match compiler.compile(&order).await {
        Ok(artifact) => State::Done(compiled(&artifact)),
        Err(error) => State::Failed(error.into()),
    });
}

#[async_trait]
impl operation_service_server::OperationService for OperationService {
    async fn start_compile(
        &self,
        request: Request<v1::StartCompileRequest>,
    ) -> Result<Response<v1::Operation>, Status> {
        let call = CallContext::of(&request);
        let v1::StartCompileRequest { compile, priority } = request.into_inner();
        let compile = compile.unwrap_or_default();
        let order = compile_order(&compile)?;
        call.set_subject(order.script);
        if compile.stored_only {
            let problem = "is for calls of Compile";
            let fault = Fault::invalid("OPTIONS_INVALID", format!("stored_only {problem}"));
            return Err(fault.violation("compile.stored_only", problem).into());
        }
        let priority = match v1::Priority::try_from(priority) {
            Ok(v1::Priority::WarmUp) => v1::Priority::WarmUp,
            Ok(v1::Priority::Interactive | v1::Priority::Unspecified) => v1::Priority::Interactive,
            Err(_) => {
                let problem = format!("has no value {priority}");
                return Err(Fault::field("OPTIONS_INVALID", "priority", &problem).into());
            }
        };
        let (account, operations) = (call.account(), &self.0.shared.operations);
        let operation = operations.begin(account.owner(), order.script.to_string(), priority)?;
        let work = work(self.0.of(account).ending_alone(), operation.clone(), order);
        // Not part of the call that started it.
        let task = tokio::spawn(work.instrument(tracing::Span::none()));
        *operation.task.lock() = Some(task.abort_handle());
        Ok(Response::new(operation.to_message()))
    }

    async fn get_operation(
        &self,
        request: Request<v1::GetOperationRequest>,
    ) -> Result<Response<v1::Operation>, Status> {
        Ok(Response::new(self.find(&request, &request.get_ref().name)?.to_message()))
    }

    async fn wait_operation(
        &self,
        request: Request<v1::WaitOperationRequest>,
    ) -> Result<Response<v1::Operation>, Status> {
        let operation = self.find(&request, &request.get_ref().name)?;
        let left = CallContext::of(&request).deadline.map_or(WAIT_MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now()).saturating_sub(ANSWER)
        });
        let asked = request.get_ref().timeout_ms.map_or(WAIT_MAX, Duration::from_millis);
        operation.ended(left.min(asked).min(WAIT_MAX)).await;
        Ok(Response::new(operation.to_message()))
    }

    async fn cancel_operation(
        &self,
        request: Request<v1::CancelOperationRequest>,
    ) -> Result<Response<v1::Operation>, Status> {
        let operation = self.find(&request, &request.get_ref().name)?;
        CallContext::of(&request).set_subject(&operation.script);
        operation.cancel();
        Ok(Response::new(operation.to_message()))
    }

    async fn list_operations(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Result<Response<v1::ListOperationsResponse>, Status> {
        let found = self.0.shared.operations.list(CallContext::of(&request).account().owner());
        let operations = found.iter().map(|operation| operation.to_message()).collect();
        Ok(Response::new(v1::ListOperationsResponse { operations }))
    }
}
