//! The call `ExecuteSession`: inputs as they arrive, answers in their order. One task owns the session and
//! ends when its caller goes away; its worker then ends with it.

use std::{sync::Arc, time::Instant};

use antares_abi::CodeTier;
use antares_proto::v1::{self, execute_session_request::Message};
use antares_serve::{CallContext, HeldBytes, RequestBytes};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::{Status, Streaming};

use crate::{
    artifacts::prepare::Prepared,
    ended::{Ended, ExecuteError},
    execute::batch::{BatchRuns, Context, Input},
    grpc::{
        answers::{Answers, Held, next_message, no_start, serve},
        convert::batch::{session_input, session_order, session_result, session_started},
    },
    limits::{INPUT_BYTES, SESSION_BYTES_MAX, SESSION_INPUTS_MAX},
    runner::Runner,
    tenant::Tenant,
};

pub(crate) struct Session {
    pub(crate) runner: Runner,
    pub(crate) id: String,
    /// The tenant that runs are charged to.
    pub(crate) tenant: Tenant,
    pub(crate) deadline: Instant,
    pub(crate) call: CallContext,
}

/// An input without an answer yet.
struct Waiting {
    id: u64,
    input: Input,
    /// Share of the session's limit.
    _share: OwnedSemaphorePermit,
    /// Share of its peer's limit.
    _held: HeldBytes,
}

impl Session {
    /// Serves until all inputs are answered, the caller goes away, or time runs out.
    pub(crate) async fn serve(
        self,
        inputs: Streaming<v1::ExecuteSessionRequest>,
        answers: Answers<v1::ExecuteSessionResponse>,
    ) {
        serve(&answers, self.deadline, self.steps(inputs, &answers)).await;
    }

    async fn steps(
        &self,
        mut inputs: Streaming<v1::ExecuteSessionRequest>,
        answers: &Answers<v1::ExecuteSessionResponse>,
    ) -> Result<(), Status> {
        let limits = self.runner.limits();
        let first = next_message(&mut inputs, &self.call, || false).await?;
        let Some(Message::Start(start)) = first.and_then(|first| first.message) else {
            return Err(no_start());
        };
        let request_id = start.request_id.clone();
        let context = Context { tenant: self.tenant.clone(), ..session_order(start, limits)? };
        tracing::Span::current().record("request_id", &*request_id);
        let prepared = self.recorded(self.runner.executor.prepare(&context, self.deadline).await)?;
        let started = session_started(&prepared, self.id.clone(), request_id);
        answers.send((Ok(started), Held::default())).await.map_err(|_| Status::cancelled(""))?;
        let (queue, queued) = mpsc::channel(SESSION_INPUTS_MAX);
        // Inputs before an invalid message are answered first.
        let read = async { Ok(self.read(inputs, queue).await) };
        let (read, ()) = tokio::try_join!(read, self.run(&context, &prepared, queued, answers))?;
        read
    }

    /// Runs the waiting inputs together, until none remain.
    async fn run(
        &self,
        context: &Context,
        prepared: &Prepared,
        mut queued: mpsc::Receiver<Waiting>,
        answers: &Answers<v1::ExecuteSessionResponse>,
    ) -> Result<(), Status> {
        let mut waiting = Vec::new();
        let mut better: Option<Prepared> = None;
        while !waiting.is_empty() || queued.recv_many(&mut waiting, SESSION_INPUTS_MAX).await > 0 {
            let inputs = waiting.iter().map(|one: &Waiting| one.input.clone()).collect();
            let native = &better.as_ref().unwrap_or(prepared).native;
            if native.as_ref().is_some_and(|native| native.tier == CodeTier::Baseline) {
                better = self.runner.executor.prepare(context, self.deadline).await.ok();
            }
            let prepared = better.as_ref().unwrap_or(prepared);
            let BatchRuns { results, mut diagnoses, .. } = self.recorded(
                self.runner.executor.run_together(context, prepared, inputs, self.deadline).await,
            )?;
            let count = answerable(&results);
            // All are charged before the first answer waits for the caller.
            diagnoses.resize(results.len(), None);
            let results = results.into_iter().zip(diagnoses);
            let held = waiting.drain(..count).zip(results).map(|(one, result)| {
                let answer = session_result(one.id, result, &self.tenant.account);
                let bytes = RequestBytes::hold(self.call.bytes.as_ref(), answer.encoded_len())?;
                Ok::<_, Status>((Ok(answer), Held::of(bytes, None)))
            });
            for answer in held.collect::<Result<Vec<_>, _>>()? {
                answers.send(answer).await.map_err(|_| Status::cancelled(""))?;
            }
        }
        Ok(())
    }

    /// Reads inputs until the stream ends. Waits while too many are unanswered.
    async fn read(
        &self,
        mut inputs: Streaming<v1::ExecuteSessionRequest>,
        queue: mpsc::Sender<Waiting>,
    ) -> Result<(), Status> {
        let shares = Arc::new(Semaphore::new(SESSION_BYTES_MAX as usize));
        let is_waiting = || shares.available_permits() < SESSION_BYTES_MAX as usize;
        while let Some(message) = next_message(&mut inputs, &self.call, is_waiting).await? {
            let (id, input) = session_input(message)?;
            let bytes: usize = input.iter().map(|arg| arg.len() + size_of::<Vec<u8>>()).sum();
            let share =
                u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(INPUT_BYTES).min(SESSION_BYTES_MAX);
            let held = RequestBytes::hold(self.call.bytes.as_ref(), share as usize)?;
            let share = shares.clone().acquire_many_owned(share).await;
            let Ok(share) = share else { return Err(Status::from(ExecuteError::Internal)) };
            if queue.send(Waiting { id, input, _share: share, _held: held }).await.is_err() {
                // Nobody runs them any more.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts an error.
    fn recorded<T>(&self, result: Result<T, ExecuteError>) -> Result<T, ExecuteError> {
        result.inspect_err(|error| {
            tracing::debug!(%error, "a session ends");
            self.runner.metrics.record_error(error);
        })
    }
}

/// How many inputs that ran together have their answer; the rest runs later. An input that started with
/// reduced time then gets its full time.
fn answerable(results: &[Option<Ended>]) -> usize {
    let count = results.iter().take_while(|result| result.is_some()).count();
    match results[..count].last() {
        Some(Some(Ended::DeadlineExceeded)) if count > 1 => count - 1,
        // A zero count would retry for ever.
        _ => count.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_others_kept_waiting_is_tried_again() {
        let violation = || Some(Ended::SandboxViolation { detail: String::new() });
        let late = || Some(Ended::DeadlineExceeded);
        assert_eq!(answerable(&[late(), None]), 1);
        assert_eq!(answerable(&[violation(), late(), None]), 1);
        assert_eq!(answerable(&[violation(), violation(), None]), 2);
        assert_eq!(answerable(&[None, None]), 1);
    }
}
