//! The call `VerifySession`: transactions as they arrive, answers as they are ready. One task and the tasks
//! it owns serve a session. They end when its caller goes away; their workers then end with them.

use std::{collections::HashMap, sync::Arc};

use antares_proto::v1::{
    self, shared_transaction_result::Result as Outcome, verify_session_request::Message,
    verify_session_response::Message as Told,
};
use antares_serve::{CALL_DEADLINE, CallContext, HeldBytes, RequestBytes};
use prost::Message as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tonic::{Status, Streaming};
use tracing::Instrument as _;

use crate::{
    diagnosis::Budget,
    ended::ExecuteError,
    grpc::{
        answers::{Answers, Held, next_message, no_start, serve},
        convert::transaction::shared_result,
        verify_call::VerifyCaller,
        verify_many::{Many, wrong},
    },
    limits::SESSION_BYTES_MAX,
    runner::Runner,
};

pub(crate) struct VerifySession {
    pub(crate) runner: Runner,
    pub(crate) id: String,
    pub(crate) caller: VerifyCaller,
    pub(crate) call: CallContext,
}

/// Resources of a transaction while it is verified, and of its answer until the caller takes it.
struct Share {
    turn: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
    _held: HeldBytes,
}

/// Transactions in progress.
struct InProgress {
    many: Arc<Many>,
    answers: Answers<v1::VerifySessionResponse>,
    turns: Arc<Semaphore>,
    turns_max: usize,
    /// Bytes of messages.
    bytes: Arc<Semaphore>,
    tasks: JoinSet<()>,
    /// By the caller's numbers; closed for transactions that have ended.
    cancels: HashMap<u64, oneshot::Sender<()>>,
}

impl VerifySession {
    /// Serves until all transactions are answered, the caller goes away, or time runs out.
    pub(crate) async fn serve(
        self,
        messages: Streaming<v1::VerifySessionRequest>,
        answers: Answers<v1::VerifySessionResponse>,
    ) {
        let deadline = self.caller.deadline;
        serve(&answers, deadline, self.steps(messages, &answers)).await;
    }

    async fn steps(
        &self,
        mut messages: Streaming<v1::VerifySessionRequest>,
        answers: &Answers<v1::VerifySessionResponse>,
    ) -> Result<(), Status> {
        let first = next_message(&mut messages, &self.call, || false).await?;
        let Some(Message::Start(shared)) = first.and_then(|first| first.message) else {
            return Err(no_start());
        };
        let request_id = shared.request_id.clone();
        tracing::Span::current().record("request_id", &*request_id);
        let many = self.runner.many(self.caller.clone(), shared, Budget::new(usize::MAX)).await?;
        let turns_max = self.runner.shared_transactions_max();
        let started = v1::VerifySessionStarted {
            execution_id: self.id.clone(),
            request_id,
            transactions_max: u32::try_from(turns_max).unwrap_or(u32::MAX),
        };
        let started = v1::VerifySessionResponse { message: Some(Told::Started(started)) };
        answers.send((Ok(started), Held::default())).await.map_err(|_| Status::cancelled(""))?;
        let mut in_progress = InProgress {
            many: Arc::new(many),
            answers: answers.clone(),
            turns: Arc::new(Semaphore::new(turns_max)),
            turns_max,
            bytes: Arc::new(Semaphore::new(SESSION_BYTES_MAX as usize)),
            tasks: JoinSet::new(),
            cancels: HashMap::new(),
        };
        let read = self.read(messages, &mut in_progress).await;
        // Transactions before an invalid message are answered first.
        while in_progress.tasks.join_next().await.is_some() {}
        read
    }

    /// Starts transactions until the stream ends. Waits while too many are unanswered.
    async fn read(
        &self,
        mut messages: Streaming<v1::VerifySessionRequest>,
        in_progress: &mut InProgress,
    ) -> Result<(), Status> {
        loop {
            let is_waiting = || in_progress.turns.available_permits() < in_progress.turns_max;
            let Some(message) = next_message(&mut messages, &self.call, is_waiting).await? else {
                return Ok(());
            };
            match message.message {
                Some(Message::Transaction(transaction)) => {
                    let held = RequestBytes::hold(self.caller.room.as_ref(), transaction.encoded_len())?;
                    in_progress.begin(transaction, held).await?;
                }
                Some(Message::Cancel(id)) => in_progress.cancel(id),
                Some(Message::Start(_)) => {
                    return Err(wrong("start", "must be the first message and no other").into());
                }
                None => return Err(wrong("message", "is needed: transaction or cancel").into()),
            }
        }
    }
}

impl InProgress {
    /// Starts to verify `transaction` when there is capacity.
    async fn begin(&mut self, transaction: v1::SharedTransaction, held: HeldBytes) -> Result<(), Status> {
        let id = transaction.id;
        if self.cancels.get(&id).is_some_and(|cancel| !cancel.is_closed()) {
            return Err(wrong("transaction.id", "is that of one that waits for its answer").into());
        }
        let bytes = u32::try_from(transaction.encoded_len()).unwrap_or(u32::MAX).min(SESSION_BYTES_MAX);
        let internal = |_| Status::from(ExecuteError::Internal);
        let bytes = self.bytes.clone().acquire_many_owned(bytes).await.map_err(internal)?;
        let turn = self.turns.clone().acquire_owned().await.map_err(internal)?;
        while self.tasks.try_join_next().is_some() {}
        if self.cancels.len() >= 2 * self.turns_max {
            self.cancels.retain(|_, cancel| !cancel.is_closed());
        }
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(id, cancel);
        let (many, answers) = (self.many.clone(), self.answers.clone());
        let share = Share { turn, _bytes: bytes, _held: held };
        self.tasks.spawn(answer(many, transaction, cancelled, share, answers).in_current_span());
        Ok(())
    }

    /// Cancels a transaction, if it is in progress.
    fn cancel(&mut self, id: u64) {
        if let Some(cancel) = self.cancels.remove(&id) {
            // It may have ended.
            let _ = cancel.send(());
        }
    }
}

/// Verifies `transaction` and sends the result.
async fn answer(
    many: Arc<Many>,
    transaction: v1::SharedTransaction,
    mut cancelled: oneshot::Receiver<()>,
    share: Share,
    answers: mpsc::Sender<crate::grpc::answers::Answer<v1::VerifySessionResponse>>,
) {
    let id = transaction.id;
    let (result, bytes) = tokio::select! {
        biased;
        Ok(()) = &mut cancelled => many.charged(shared_result(id, Err(Status::cancelled("given up by the caller")))),
        one = many.one(transaction) => one,
    };
    if matches!(&result.result, Some(Outcome::Error(error)) if error.reason == CALL_DEADLINE) {
        // The session's time is over, not the transaction's: the caller can retry it in another session.
        return;
    }
    let Share { turn, .. } = share;
    let answer = v1::VerifySessionResponse { message: Some(Told::Result(result)) };
    // From here on the caller may reuse the number.
    drop(cancelled);
    // The receiver may be gone.
    let _ = answers.send((Ok(answer), Held::of(bytes, Some(turn)))).await;
}
