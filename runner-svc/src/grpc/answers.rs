//! The two streams of a session: its messages, and its answers, which hold resources until the caller takes
//! them.

use std::time::Instant;

use antares_config::millis;
use antares_serve::{CallContext, Fault, HeldBytes, caller_s, closing};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{timeout, timeout_at},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Status, Streaming, codegen::BoxStream};

use crate::limits::SESSION_IDLE_MAX;

/// Resources that an answer holds until the caller takes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Share of the byte budget.
    _bytes: HeldBytes,
    /// Share of the session's work in progress.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Held {
    pub(crate) fn of(bytes: HeldBytes, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self { _bytes: bytes, _turn: turn }
    }
}

/// An answer of a session with its resources.
pub(crate) type Answer<T> = (Result<T, Status>, Held);

/// Sender for the answers of a session.
pub(crate) type Answers<T> = mpsc::Sender<Answer<T>>;

/// The answers for the caller. Each holds its resources until it is taken.
pub(crate) fn answer_stream<T: Send + 'static>(answers: mpsc::Receiver<Answer<T>>) -> BoxStream<T> {
    Box::pin(ReceiverStream::new(answers).map(|(answer, _held)| answer))
}

/// Runs `steps` until they end, the caller goes away, or time runs out. The last answer says which.
pub(crate) async fn serve<T>(
    answers: &Answers<T>,
    deadline: Instant,
    steps: impl Future<Output = Result<(), Status>>,
) {
    // Reserves the slot of the last answer now: a caller that takes no answers still learns why they end.
    let Ok(last_word) = answers.clone().try_reserve_owned() else { return };
    let ended = tokio::select! {
        ended = timeout_at(deadline.into(), steps) => {
            ended.unwrap_or_else(|_| Err(Fault::call_deadline().into()))
        }
        // The caller has gone away.
        () = answers.closed() => return,
    };
    if let Err(status) = ended {
        last_word.send((Err(status), Held::default()));
    }
}

/// The next message of a session; none at its end. An idle session with a silent caller ends, and so does any
/// session when the server stops.
pub(crate) async fn next_message<M>(
    messages: &mut Streaming<M>,
    call: &CallContext,
    is_waiting: impl Fn() -> bool,
) -> Result<Option<M>, Status> {
    loop {
        let next = tokio::select! {
            next = timeout(SESSION_IDLE_MAX, messages.message()) => next,
            () = call.closed() => return Err(closing()),
        };
        match next {
            Ok(message) => return message.map_err(caller_s),
            Err(_) if is_waiting() => {}
            Err(_) => {
                let problem = format!("no input came for {} ms", millis(SESSION_IDLE_MAX));
                return Err(Fault::aborted("SESSION_IDLE", problem).into());
            }
        }
    }
}

/// The error for a session whose first message is not its start.
pub(crate) fn no_start() -> Status {
    Fault::field("REQUEST_INVALID", "start", "must be the first message").into()
}
