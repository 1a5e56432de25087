//! What a compile and its caller tell each other: that it is long, and that the interpreter may begin.

use std::{fmt, time::Duration};

use tokio::{sync::oneshot, time::timeout};

/// The time that the interpreter has for itself before a long compile begins: both at once slow each other
/// down where they share a core. For the compile. Dropped where there is none to wait for: another caller
/// compiles already, or native code is there.
pub(crate) struct HeadStart {
    is_long: Box<dyn FnOnce() -> bool + Send>,
    time: Duration,
    begins: oneshot::Sender<()>,
}

/// Whether a long compile is about to begin. For its caller.
#[derive(Debug)]
pub(crate) struct LongCompile(oneshot::Receiver<()>);

impl HeadStart {
    /// One of `time`, if `is_long` says so of the compile; it is not asked before.
    pub(crate) fn new(
        time: Duration,
        is_long: impl FnOnce() -> bool + Send + 'static,
    ) -> (Self, LongCompile) {
        let (begins, is_about) = oneshot::channel();
        (Self { is_long: Box::new(is_long), time, begins }, LongCompile(is_about))
    }

    /// What is `stored`, if the compile is long; if nothing is, the interpreter may begin, and has its time
    /// until `woken`. The compile is to begin after that.
    ///
    /// # Errors
    /// That of `stored`.
    pub(crate) async fn stored_or_wait<T, E>(
        self,
        stored: impl Future<Output = Result<Option<T>, E>>,
        woken: impl Future<Output = ()>,
    ) -> Result<Option<T>, E> {
        if !(self.is_long)() {
            return Ok(None);
        }
        let stored = stored.await?;
        if stored.is_none() && self.begins.send(()).is_ok() {
            // In time or not.
            let _ = timeout(self.time, woken).await;
        }
        Ok(stored)
    }
}

impl fmt::Debug for HeadStart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HeadStart").field("time", &self.time).finish_non_exhaustive()
    }
}

impl LongCompile {
    /// Waits until that is known. Once only.
    pub(crate) async fn begins(&mut self) -> bool {
        (&mut self.0).await.is_ok()
    }
}
