//! Calls to a compiler that take longer than most: made once more, by the next compiler in the script's
//! order.
//!
//! Only calls whose repetition changes nothing are made twice. Which ones take long is known from those
//! before; how many may be made twice is a share of all, so that compilers that are slow because they are
//! busy do not get twice the work.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use antares_serve::Metrics;
use prometheus::IntCounterVec;
use tokio::time::timeout;

use crate::source::{Fallback, SourceError};

/// Times that are remembered of each kind of call.
const TIMES_MAX: usize = 256;

/// Of these, so many must be known before they say what is usual.
const TIMES_MIN: usize = 32;

/// Calls of a hundred that take no longer than what is waited for before one is made twice.
const PERCENT: usize = 95;

/// What is waited for while it is not known what is usual.
const DELAY_UNKNOWN: Duration = Duration::from_secs(1);

/// Nothing that is faster than this is waited for in vain.
const DELAY_MIN: Duration = Duration::from_millis(5);

/// How long a compiler is waited for that is as good as gone, where it may have what another one has not: a
/// script is read in less.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Calls that may be made twice in a row, when none was for long.
const BURST: u64 = 10;

/// A call that may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The bytes of a script.
    Script,
    /// Native code, compiled if need be. Only those that were compiled say how long it takes: a compile that
    /// takes no longer than others is not made by two.
    Artifact,
}

impl Asked {
    const ALL: [Self; 2] = [Self::Script, Self::Artifact];

    fn name(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Artifact => "artifact",
        }
    }

    /// How long to wait for a compiler that is as good as gone; none for as long as it takes, which for a
    /// compile may be long.
    pub(crate) fn silence_max(self) -> Option<Duration> {
        match self {
            Self::Script => Some(SILENCE_MAX),
            Self::Artifact => None,
        }
    }
}

/// What became of a call that took longer than most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HedgeResult {
    /// The second compiler answered first.
    Won,
    /// The first one did.
    Lost,
    /// It was not made twice: too many were.
    NoBudget,
}

impl HedgeResult {
    const ALL: [Self; 3] = [Self::Won, Self::Lost, Self::NoBudget];

    fn name(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Lost => "lost",
            Self::NoBudget => "no_budget",
        }
    }
}

/// How long calls take, and how many more may be made twice. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Hedges {
    state: Arc<Mutex<State>>,
    /// Of a hundred calls, so many may be made twice; 0 for none.
    percent: u64,
    counts: IntCounterVec,
}

#[derive(Debug, Default)]
struct State {
    times: [VecDeque<Duration>; Asked::ALL.len()],
    /// Hundredths of calls that may be made twice.
    budget: u64,
}

impl Hedges {
    pub(crate) fn new(percent: u64, metrics: &Metrics) -> Self {
        let help = "Calls to a compiler that took longer than most and may be made by the next one too, by what became of them.";
        let counts = metrics.counters("antares_compiler_hedges_total", help, &["call", "result"]);
        for asked in Asked::ALL {
            for result in HedgeResult::ALL {
                counts.with_label_values(&[asked.name(), result.name()]);
            }
        }
        Self { state: Arc::default(), percent, counts }
    }

    /// Whether calls are made twice at all.
    pub(crate) fn is_on(&self) -> bool {
        self.percent > 0
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes how long a call took.
    pub(crate) fn note(&self, asked: Asked, time: Duration) {
        self.change(|state| {
            let times = &mut state.times[asked as usize];
            if times.len() >= TIMES_MAX {
                times.pop_front();
            }
            times.push_back(time);
        });
    }

    /// How long to wait before a call is made twice. Adds its share to what may be.
    fn begin(&self, asked: Asked) -> Duration {
        let percent = self.percent;
        let mut times: Vec<_> = self.change(|state| {
            state.budget = state.budget.saturating_add(percent).min(BURST * 100);
            state.times[asked as usize].iter().copied().collect()
        });
        if times.len() < TIMES_MIN {
            return DELAY_UNKNOWN;
        }
        let at = times.len() * PERCENT / 100;
        let (_, &mut time, _) = times.select_nth_unstable(at);
        time.max(DELAY_MIN)
    }

    /// Whether one more call may be made twice.
    fn take(&self) -> bool {
        self.change(|state| {
            let left = state.budget.checked_sub(100);
            state.budget = left.unwrap_or(state.budget);
            left.is_some()
        })
    }

    fn count(&self, asked: Asked, result: HedgeResult) {
        self.counts.with_label_values(&[asked.name(), result.name()]).inc();
    }

    /// The answer of `first`, which asks all compilers if need be, or where that takes longer than most, of
    /// whichever of it and `second` comes first. Tells `outrun` when that was the second one, and whether the
    /// first one is as good as gone.
    pub(crate) async fn race<T>(
        &self,
        asked: Asked,
        first: impl Future<Output = Result<T, SourceError>>,
        second: impl Future<Output = Result<T, SourceError>>,
        outrun: impl FnOnce(bool),
    ) -> Result<T, SourceError> {
        let delay = self.begin(asked);
        let mut first = pin!(first);
        let mut is_refused = false;
        loop {
            match timeout(delay, first.as_mut()).await {
                Ok(answer) => return answer,
                Err(_) if self.take() => break,
                Err(_) if is_refused => {}
                Err(_) => {
                    self.count(asked, HedgeResult::NoBudget);
                    is_refused = true;
                }
            }
        }
        let mut second = pin!(second);
        let (answer, is_second) = tokio::select! {
            biased;
            answer = first.as_mut() => (answer, false),
            answer = second.as_mut() => (answer, true),
        };
        if !is_second {
            // It has asked all: the other one has nothing to add.
            self.count(asked, HedgeResult::Lost);
            return answer;
        }
        let is_final = is_last_word(&answer);
        let other = match asked.silence_max() {
            _ if is_final => None,
            Some(time) => timeout(time, first).await.ok(),
            None => Some(first.await),
        };
        self.count(asked, if other.is_some() { HedgeResult::Lost } else { HedgeResult::Won });
        if other.is_none() {
            outrun(!is_final);
        }
        other.unwrap_or(answer)
    }
}

/// Whether another compiler would say the same.
pub(crate) fn is_last_word<T>(answer: &Result<T, SourceError>) -> bool {
    !matches!(
        answer,
        Err(SourceError::Unavailable { .. }
            | SourceError::ScriptNotFound(_)
            | SourceError::NoArtifact { why: Fallback::WorkersBusy, .. })
    )
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use antares_abi::Sha256Digest;

    use super::*;

    type Answer = Result<u32, SourceError>;

    /// Where nothing is usual, and so nothing waited for.
    fn hedges(percent: u64) -> Hedges {
        let hedges = Hedges::new(percent, &Metrics::new());
        (0..TIMES_MIN).for_each(|_| hedges.note(Asked::Script, Duration::ZERO));
        hedges
    }

    fn counted(hedges: &Hedges) -> [u64; 3] {
        let count = |result: HedgeResult| hedges.counts.with_label_values(&["script", result.name()]).get();
        HedgeResult::ALL.map(count)
    }

    fn missing() -> Answer {
        Err(SourceError::ScriptNotFound(Sha256Digest([7; 32])))
    }

    async fn race(hedges: &Hedges, first: impl Future<Output = Answer>, second: Answer) -> Answer {
        hedges.race(Asked::Script, first, ready(second), |_| {}).await
    }

    #[test]
    fn what_is_waited_for_is_what_most_calls_take() {
        let hedges = hedges(10);
        assert_eq!(hedges.begin(Asked::Artifact), DELAY_UNKNOWN, "each kind has its own times");
        assert_eq!(hedges.begin(Asked::Script), DELAY_MIN);
        for number in 1..=1_000 {
            hedges.note(Asked::Script, Duration::from_millis(number));
        }
        // Of the last 256.
        assert_eq!(hedges.begin(Asked::Script), Duration::from_millis(745 + 243));
    }

    #[tokio::test]
    async fn no_more_than_a_share_of_all_calls_is_made_twice() {
        let hedges = hedges(10);
        for _ in 0..25 {
            assert_eq!(race(&hedges, ready(Ok(1)), Ok(2)).await.unwrap(), 1, "who answers at once is first");
        }
        assert_eq!((0..100).filter(|_| hedges.take()).count(), 2, "two of twenty-five");
        (0..1_000).for_each(|_| {
            hedges.begin(Asked::Script);
        });
        assert_eq!((0..100).filter(|_| hedges.take()).count() as u64, BURST, "what is saved is bounded");
        assert!(!Hedges::new(0, &Metrics::new()).is_on());
    }

    #[tokio::test]
    async fn the_second_answers_where_the_first_does_not() {
        let (hedges, mut outrun) = (hedges(100), None);
        let raced =
            hedges.race(Asked::Script, pending(), ready(Ok(2)), |is_gone| outrun = Some(is_gone)).await;
        assert_eq!((raced.unwrap(), outrun, counted(&hedges)), (2, Some(false), [1, 0, 0]));
    }

    #[tokio::test]
    async fn what_only_a_silent_one_may_have_is_not_waited_for_without_end() {
        let (hedges, mut outrun) = (hedges(100), None);
        let raced =
            hedges.race(Asked::Script, pending(), ready(missing()), |is_gone| outrun = Some(is_gone)).await;
        assert!(matches!(raced, Err(SourceError::ScriptNotFound(_))));
        assert_eq!((outrun, counted(&hedges)), (Some(true), [1, 0, 0]));
    }

    #[tokio::test]
    async fn a_call_without_budget_is_made_twice_when_others_have_saved_for_it() {
        let hedges = hedges(10);
        let waiting = race(&hedges, pending(), Ok(2));
        let others = async {
            while counted(&hedges)[2] == 0 {
                tokio::task::yield_now().await;
            }
            (0..10).for_each(|_| {
                hedges.begin(Asked::Script);
            });
        };
        assert_eq!(tokio::join!(waiting, others).0.unwrap(), 2);
        assert_eq!(counted(&hedges), [1, 0, 1]);
    }

    #[tokio::test]
    async fn who_has_nothing_to_say_does_not_answer_for_the_other() {
        let (hedges, later) = (hedges(100), || tokio::time::sleep(10 * DELAY_MIN));
        let slow = async {
            later().await;
            Ok(1)
        };
        assert_eq!(race(&hedges, slow, missing()).await.unwrap(), 1);
        let fails = async {
            later().await;
            missing()
        };
        let outrun = |_| panic!("it was not outrun: it has answered");
        let raced = hedges.race(Asked::Script, fails, pending(), outrun).await;
        assert!(matches!(raced, Err(SourceError::ScriptNotFound(_))));
        assert_eq!(counted(&hedges), [0, 2, 0]);
    }
}
