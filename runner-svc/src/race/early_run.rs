//! The interpreter's side of the race: a run that has begun without native code.

use std::{
    pin::pin,
    time::{Duration, Instant as StdInstant},
};

use tokio::time::Instant;

use super::PendingCode;

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
