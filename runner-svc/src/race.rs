//! The race of the interpreter against a compile: a first run does not wait for a slow compile; the first to
//! finish wins.
//!
//! Rules:
//! * A run starts without native code only if the compile is long, nothing is stored and a worker is idle.
//! * The compile gives it a head start, which ends when another caller needs the code or when the
//!   interpreter ends without an answer.
//! * Native code that arrives before the answer overtakes the interpreter. If none arrives, the run goes on.
//! * Code that arrives too late for this run is cached for later ones.
//! * The interpreter's time counts if its answer is unused: it was overtaken, the compile failed, or the
//!   caller went away.
//!
//! Callers decide which compiles are long, how long a head start lasts, where code and workers come from,
//! which results are answers, and whom to charge. Nothing here depends on gRPC, scripts or workers. Errors of
//! either side end the race and reach the caller.

use std::{
    fmt,
    pin::pin,
    time::{Duration, Instant as StdInstant},
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

#[cfg(test)]
mod tests;

/// Pending native code for one run: one piece or several.
pub(crate) trait PendingCode {
    /// Why the call cannot go on.
    type Error;

    /// Waits for all pieces, or all but the slow ones. Returns whether slow ones are missing.
    fn until_long(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Waits for all pieces that arrive in time.
    fn rest(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Starts deferred long compiles now.
    fn wake(&self);

    /// Pieces of native code that have arrived.
    fn there(&self) -> usize;

    /// Caches late pieces in the background: this run goes on without them.
    fn keep_later(&mut self);
}

/// A worker from `take_idle` for a run that starts without all of its native code. None if there is nothing
/// to race against or no idle worker; then all native code that is available has arrived.
///
/// # Errors
/// The compile's error.
pub(crate) async fn idle_worker<C: PendingCode, W>(
    compile: &mut C,
    take_idle: impl FnOnce() -> Option<W>,
) -> Result<Option<W>, C::Error> {
    if !compile.until_long().await? {
        return Ok(None);
    }
    let worker = take_idle();
    if worker.is_none() {
        compile.wake();
        compile.rest().await?;
    }
    Ok(worker)
}

/// An interpreted run in a race.
pub(crate) struct EarlyRun<F, I, O> {
    /// The run, from now to its end. Dropping it must stop it.
    pub run: F,
    /// Whether a result is an answer. Native code may succeed where the interpreter did not.
    pub is_answer: I,
    /// Receives the run's time if its answer is unused.
    pub overtaken: O,
}

/// An answer, usually the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interpreted<A> {
    /// The result.
    pub answer: A,
    /// Start of the run.
    pub began: StdInstant,
}

impl<F, I, O> EarlyRun<F, I, O> {
    /// Returns the interpreter's answer if it arrives before the missing native code, or if that fails; none
    /// if native code arrived instead. A caller that goes away stops the run.
    ///
    /// # Errors
    /// The compile's error; the run's error, if no native code arrived either.
    pub(crate) async fn race<C, A>(self, compile: &mut C) -> Result<Option<Interpreted<A>>, C::Error>
    where
        C: PendingCode,
        F: Future<Output = Result<A, C::Error>>,
        I: FnOnce(&A) -> bool,
        O: FnOnce(Duration),
    {
        let Self { run, is_answer, overtaken } = self;
        let mut timer = RunTimer::begin(overtaken);
        let had = compile.there();
        let mut run = pin!(run);
        let answered = tokio::select! {
            biased;
            come = compile.rest() => come.map(|()| None),
            ended = &mut run => Ok(Some(ended)),
        };
        let ended = match answered {
            Ok(Some(Ok(answer))) if is_answer(&answer) => {
                compile.keep_later();
                return Ok(Some(timer.heard(answer)));
            }
            Ok(ended) => ended,
            Err(error) => return Err(error),
        };
        if ended.is_some() {
            compile.wake();
            compile.rest().await?;
        }
        if compile.there() > had {
            return Ok(None);
        }
        let ended = match ended {
            Some(ended) => ended,
            None => run.await,
        };
        compile.keep_later();
        let Interpreted { answer, began } = timer.heard(ended);
        Ok(Some(Interpreted { answer: answer?, began }))
    }
}

/// Measures a run until somebody receives its result; reports the time if nobody does.
pub(crate) struct RunTimer<O: FnOnce(Duration)> {
    began: Instant,
    unheard: Option<O>,
}

impl<O: FnOnce(Duration)> RunTimer<O> {
    /// For a run that starts now. `unheard` receives its time if nobody receives its result.
    pub(crate) fn begin(unheard: O) -> Self {
        Self { began: Instant::now(), unheard: Some(unheard) }
    }

    /// `answer` as the caller receives it.
    pub(crate) fn heard<A>(&mut self, answer: A) -> Interpreted<A> {
        self.unheard = None;
        Interpreted { answer, began: self.began.into_std() }
    }
}

impl<O: FnOnce(Duration)> Drop for RunTimer<O> {
    fn drop(&mut self) {
        if let Some(unheard) = self.unheard.take() {
            unheard(self.began.elapsed());
        }
    }
}

/// The interpreter's time alone before a long compile starts: they slow each other down on a shared core.
/// Held by the compile. Dropped if no compile follows: another caller already compiles, or native code is
/// available.
pub(crate) struct HeadStart {
    is_long: Box<dyn FnOnce() -> bool + Send>,
    time: Duration,
    begins: oneshot::Sender<()>,
}

/// Whether a long compile is about to start. Held by its caller.
#[derive(Debug)]
pub(crate) struct LongCompile(oneshot::Receiver<()>);

impl HeadStart {
    /// A head start of `time`, if the compile is long. Evaluates `is_long` lazily.
    pub(crate) fn new(
        time: Duration,
        is_long: impl FnOnce() -> bool + Send + 'static,
    ) -> (Self, LongCompile) {
        let (begins, is_about) = oneshot::channel();
        (Self { is_long: Box::new(is_long), time, begins }, LongCompile(is_about))
    }

    /// Returns `stored` code if the compile is long. If there is none, gives the interpreter its time until
    /// `woken`; the compile must start after that.
    ///
    /// # Errors
    /// The error of `stored`.
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
            // Either result ends the wait.
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
    /// Waits until that is known. Call it once only.
    pub(crate) async fn begins(&mut self) -> bool {
        (&mut self.0).await.is_ok()
    }
}
