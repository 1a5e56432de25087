//! The race of the interpreter against a compile: a first run does not wait for native code that takes long,
//! and whoever is done first has it.
//!
//! What is decided here:
//! * A run begins without native code only where the compile is long, nothing is stored and a worker is idle.
//! * The compile waits for it: a head start, which ends when somebody else needs the code, or when the
//!   interpreter ended without an answer.
//! * Native code that comes before the answer overtakes the interpreter. Where none comes, the run goes on.
//! * Code that came too late for this run is kept for later ones.
//! * The interpreter's time counts where nobody has its answer: it was overtaken, the compile failed, or the
//!   caller went away.
//!
//! What is left to callers: what a long compile is, how long its head start lasts, where code and workers
//! come from, which ends of a run are answers, whom its time is charged to. Nothing here knows of gRPC, of
//! scripts or of workers. Errors of either side end the race and are the caller's.

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

/// Native code that is on its way for one run: one piece or several.
pub(crate) trait PendingCode {
    /// Why the call cannot go on.
    type Error;

    /// Waits until all has come, or all but what takes long. Gives whether something long is missing.
    fn until_long(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Waits until all has come that comes in time.
    fn rest(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Lets long compiles that wait begin at once.
    fn wake(&self);

    /// How many pieces of native code are there.
    fn there(&self) -> usize;

    /// Keeps ready what comes later: this run goes on without.
    fn keep_later(&mut self);
}

/// A worker for a run that begins without all of its native code, from `take_idle`; none where there is
/// nothing to race against or nobody to do it: then all native code has come that does.
///
/// # Errors
/// That of the compile.
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

/// A run in the interpreter, as the race sees it.
pub(crate) struct EarlyRun<F, I, O> {
    /// The run, from now to its end. Dropped where nobody needs it any more: then it is to stop.
    pub run: F,
    /// Whether such an end is an answer. Native code may manage what the interpreter did not.
    pub is_answer: I,
    /// Told how long it ran where nobody has its answer.
    pub overtaken: O,
}

/// An answer, as a rule the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interpreted<A> {
    /// How it ended.
    pub answer: A,
    /// When it began.
    pub began: StdInstant,
}

impl<F, I, O> EarlyRun<F, I, O> {
    /// The interpreter's answer, if it comes before native code that was missing, or if that does not come;
    /// else there is more native code than when it began. A caller that goes away stops it.
    ///
    /// # Errors
    /// That of the compile; that of the run, if no native code came either.
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

/// Counts the time of a run until somebody hears of its end; tells it where nobody does.
pub(crate) struct RunTimer<O: FnOnce(Duration)> {
    began: Instant,
    unheard: Option<O>,
}

impl<O: FnOnce(Duration)> RunTimer<O> {
    /// Of a run that begins now. `unheard` is told how long it ran, if nobody hears of its end.
    pub(crate) fn begin(unheard: O) -> Self {
        Self { began: Instant::now(), unheard: Some(unheard) }
    }

    /// `answer`, as its caller gets it.
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
