//! Verification of a transaction message, from request to response: common to calls, batches and sessions.

use std::time::{Duration, Instant};

use antares_proto::v1;
use antares_serve::RequestBytes;
use tokio::time::{sleep, timeout_at};
use tonic::Status;
use tracing::{Instrument, field};

use crate::{
    ended::{Ended, ExecuteError},
    grpc::{
        convert::transaction::{verified, verify_order},
        status::{record_on_span, signed},
    },
    metrics::verification_name,
    runner::Runner,
    tenant::Tenant,
    verify::{Verification, order::VerifyOrder},
};

/// Initial and longest wait before retrying for capacity; it doubles each time.
const BYTES_WAIT: Duration = Duration::from_millis(2);
const BYTES_WAIT_MAX: Duration = Duration::from_millis(64);

/// The caller that wants transactions verified.
#[derive(Clone, Debug)]
pub(crate) struct VerifyCaller {
    pub(crate) tenant: Tenant,
    pub(crate) deadline: Instant,
    /// The budget that a transaction's bytes are charged to.
    pub(crate) room: Option<RequestBytes>,
    /// Whether it waits for capacity instead of being refused.
    pub(crate) is_patient: bool,
}

impl Runner {
    /// Verifies the transaction in `message`.
    pub(crate) async fn verify_message(
        &self,
        caller: &VerifyCaller,
        message: v1::VerifyTransactionRequest,
        id: String,
    ) -> Result<v1::VerifyTransactionResponse, Status> {
        let request_id = message.request_id.clone();
        self.verify_order(caller, verify_order(message, self.limits())?, (id, request_id)).await
    }

    /// Verifies `order` for `caller`, under the server's ID and the caller's.
    pub(crate) async fn verify_order(
        &self,
        caller: &VerifyCaller,
        order: VerifyOrder,
        (id, request_id): (String, String),
    ) -> Result<v1::VerifyTransactionResponse, Status> {
        let VerifyCaller { tenant, deadline, room, .. } = caller;
        let mut order = VerifyOrder { tenant: tenant.clone(), ..order };
        let resolved = self.cells.resolve(&mut order, room.as_ref());
        let resolved = timeout_at((*deadline).into(), resolved).await;
        let _held = resolved.unwrap_or_else(|_| Err(ExecuteError::CallDeadline.into()))?;
        let span = tracing::info_span!(
            "verify",
            execution_id = id,
            request_id,
            tier = ?order.tier,
            outcome = field::Empty,
            cycles = field::Empty,
        );
        let verification = async {
            let result = self.verify_soon(caller, order).await.inspect_err(record_on_span);
            record_verdict(result.as_ref());
            result
        };
        let verification = verification.instrument(span).await?;
        Ok(verified(verification, &tenant.account, id, request_id))
    }

    /// Verifies, and retries if it may wait for capacity.
    async fn verify_soon(
        &self,
        caller: &VerifyCaller,
        order: VerifyOrder,
    ) -> Result<Verification, ExecuteError> {
        if !caller.is_patient {
            return self.verifier.verify(order, caller.deadline).await;
        }
        let mut wait = BYTES_WAIT;
        loop {
            match self.verifier.verify(order.clone(), caller.deadline).await {
                Err(ExecuteError::QueueFull | ExecuteError::Busy)
                    if Instant::now() + wait < caller.deadline =>
                {
                    sleep(wait).await;
                    wait = (2 * wait).min(BYTES_WAIT_MAX);
                }
                // A caller that waits for capacity has run out of time, not of capacity.
                Err(ExecuteError::QueueFull | ExecuteError::Busy) => return Err(ExecuteError::CallDeadline),
                result => return result,
            }
        }
    }
}

/// Writes the verdict into the current span and the log.
fn record_verdict(result: Result<&Verification, &ExecuteError>) {
    let span = tracing::Span::current();
    span.record("outcome", verification_name(result.map(|verification| &verification.ended)));
    if let Ok(verification) = result
        && let Ended::Reported(verified) = &verification.ended
    {
        span.record("cycles", signed(verified.cycles));
    }
    tracing::debug!("verified");
}
