//! Blocking work, off the runtime's threads.

use antares_serve::Fault;
use tokio::task::JoinError;

use crate::artifact::CompileError;

/// The blocking work panicked; the panic hook has logged where.
#[derive(Debug)]
pub(crate) struct Panicked;

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|_: JoinError| Panicked)
}

impl From<Panicked> for CompileError {
    fn from(Panicked: Panicked) -> Self {
        Self::Internal
    }
}

impl From<Panicked> for Fault {
    fn from(Panicked: Panicked) -> Self {
        Self::logged()
    }
}
