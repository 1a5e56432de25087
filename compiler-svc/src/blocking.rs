//! Blocking work, off the runtime's threads.

use tokio::task::JoinError;

/// The blocking work panicked; the panic hook has logged where.
#[derive(Debug)]
pub(crate) struct Panicked;

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|_: JoinError| Panicked)
}
