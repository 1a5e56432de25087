//! Hedged calls: those that take longer than most are made once more, by the next server in order.
//!
//! Only calls whose repetition changes nothing are made twice. Which ones take long is known from those
//! before; how many may be made twice is a share of all, so that servers that are slow because they are busy
//! do not get twice the work.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::timeout;

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

/// Calls that may be made twice in a row, when none was for long.
const BURST: u64 = 10;

/// How many calls may be made twice: a share of all. Clones share it.
#[derive(Clone, Debug)]
pub struct HedgeBudget {
    percent: u64,
    /// Hundredths of calls that may be made twice.
    left: Arc<AtomicU64>,
}

impl HedgeBudget {
    /// Of a hundred calls, `percent` may be made twice; 0 for none.
    #[must_use]
    pub fn new(percent: u64) -> Self {
        Self { percent, left: Arc::default() }
    }

    /// Whether calls are made twice at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.percent > 0
    }

    /// Adds the share of one call.
    fn save(&self) {
        let saved = |left: u64| Some(left.saturating_add(self.percent).min(BURST * 100));
        let _ = self.left.fetch_update(Relaxed, Relaxed, saved);
    }

    /// Whether one more call may be made twice.
    fn take(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(100)).is_ok()
    }
}

/// What became of a call that took longer than most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeEvent {
    /// The second server answered first.
    Won {
        /// Whether the first one is as good as gone: the second had nothing to say, and still was first.
        is_gone: bool,
    },
    /// The first server did.
    Lost,
    /// It is not made twice yet: too many were.
    NoBudget,
}

/// A kind of calls: how long they take, and how long a silent server is waited for. Clones share what is
/// known.
#[derive(Clone, Debug)]
pub struct Hedge {
    budget: HedgeBudget,
    times: Arc<Mutex<VecDeque<Duration>>>,
    silence_max: Option<Duration>,
}

impl Hedge {
    /// Calls that share `budget` with others. A server that is as good as gone is waited for as long as
    /// `silence_max` where it may have what another one has not; none for as long as it takes.
    #[must_use]
    pub fn new(budget: HedgeBudget, silence_max: Option<Duration>) -> Self {
        Self { budget, times: Arc::default(), silence_max }
    }

    /// How long to wait for a server that is as good as gone.
    #[must_use]
    pub fn silence_max(&self) -> Option<Duration> {
        self.silence_max
    }

    /// Notes how long a call took.
    pub fn note(&self, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() >= TIMES_MAX {
            times.pop_front();
        }
        times.push_back(time);
    }

    /// How long to wait before a call is made twice.
    fn delay(&self) -> Duration {
        let mut times: Vec<_> =
            self.times.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        if times.len() < TIMES_MIN {
            return DELAY_UNKNOWN;
        }
        let at = times.len() * PERCENT / 100;
        let (_, &mut time, _) = times.select_nth_unstable(at);
        time.max(DELAY_MIN)
    }

    /// The answer of `first`, which asks all servers if need be, or where that takes longer than most, of
    /// whichever of it and `second` comes first. An answer that is not final another server may know better.
    pub async fn race<T>(
        &self,
        first: impl Future<Output = T>,
        second: impl Future<Output = T>,
        is_final: impl FnOnce(&T) -> bool,
        tell: impl Fn(HedgeEvent),
    ) -> T {
        self.budget.save();
        let delay = self.delay();
        let mut first = pin!(first);
        let mut is_refused = false;
        loop {
            match timeout(delay, first.as_mut()).await {
                Ok(answer) => return answer,
                Err(_) if self.budget.take() => break,
                Err(_) if is_refused => {}
                Err(_) => {
                    tell(HedgeEvent::NoBudget);
                    is_refused = true;
                }
            }
        }
        let mut second = pin!(second);
        let answer = tokio::select! {
            biased;
            answer = first.as_mut() => {
                // It has asked all: the other one has nothing to add.
                tell(HedgeEvent::Lost);
                return answer;
            }
            answer = second.as_mut() => answer,
        };
        let is_final = is_final(&answer);
        let other = match self.silence_max {
            _ if is_final => None,
            Some(time) => timeout(time, first).await.ok(),
            None => Some(first.await),
        };
        tell(if other.is_some() { HedgeEvent::Lost } else { HedgeEvent::Won { is_gone: !is_final } });
        other.unwrap_or(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        future::{pending, ready},
    };

    use super::*;

    /// An answer, or that there is none here.
    type Answer = Result<u32, ()>;

    /// How long a silent server is waited for.
    const SILENCE_MAX: Duration = Duration::from_secs(1);

    /// Where nothing is usual, and so nothing waited for.
    fn hedge(percent: u64) -> Hedge {
        let hedge = Hedge::new(HedgeBudget::new(percent), Some(SILENCE_MAX));
        (0..TIMES_MIN).for_each(|_| hedge.note(Duration::ZERO));
        hedge
    }

    async fn race(
        hedge: &Hedge,
        first: impl Future<Output = Answer>,
        second: impl Future<Output = Answer>,
    ) -> (Answer, Vec<HedgeEvent>) {
        let told = RefCell::<Vec<_>>::default();
        let tell = |event| told.borrow_mut().push(event);
        let answer = hedge.race(first, second, Result::is_ok, tell).await;
        (answer, told.into_inner())
    }

    async fn later(answer: Answer) -> Answer {
        tokio::time::sleep(10 * DELAY_MIN).await;
        answer
    }

    #[test]
    fn what_is_waited_for_is_what_most_calls_take() {
        let hedge = hedge(10);
        let other = Hedge::new(hedge.budget.clone(), None);
        assert_eq!(other.delay(), DELAY_UNKNOWN, "each kind has its own times");
        assert_eq!(hedge.delay(), DELAY_MIN);
        for number in 1..=1_000 {
            hedge.note(Duration::from_millis(number));
        }
        // Of the last 256.
        assert_eq!(hedge.delay(), Duration::from_millis(745 + 243));
    }

    #[tokio::test]
    async fn no_more_than_a_share_of_all_calls_is_made_twice() {
        let hedge = hedge(10);
        for _ in 0..25 {
            let (answer, told) = race(&hedge, ready(Ok(1)), ready(Ok(2))).await;
            assert_eq!((answer, told.len()), (Ok(1), 0), "who answers at once is first");
        }
        assert_eq!((0..100).filter(|_| hedge.budget.take()).count(), 2, "two of twenty-five");
        (0..1_000).for_each(|_| hedge.budget.save());
        assert_eq!(
            (0..100).filter(|_| hedge.budget.take()).count() as u64,
            BURST,
            "what is saved is bounded"
        );
        assert!(!HedgeBudget::new(0).is_on());
    }

    #[tokio::test]
    async fn the_second_answers_where_the_first_does_not() {
        let raced = race(&hedge(100), pending(), ready(Ok(2))).await;
        assert_eq!(raced, (Ok(2), vec![HedgeEvent::Won { is_gone: false }]));
    }

    #[tokio::test]
    async fn what_only_a_silent_one_may_have_is_not_waited_for_without_end() {
        let raced = race(&hedge(100), pending(), ready(Err(()))).await;
        assert_eq!(raced, (Err(()), vec![HedgeEvent::Won { is_gone: true }]));
        let patient = Hedge { silence_max: None, ..hedge(100) };
        let raced = timeout(2 * SILENCE_MAX, race(&patient, pending(), ready(Err(()))));
        assert!(raced.await.is_err(), "unless it may take as long as it takes");
    }

    #[tokio::test]
    async fn a_call_without_budget_is_made_twice_when_others_have_saved_for_it() {
        let hedge = hedge(10);
        let told = RefCell::<Vec<_>>::default();
        let tell = |event| told.borrow_mut().push(event);
        let waiting = hedge.race(pending(), ready(Answer::Ok(2)), Result::is_ok, tell);
        let others = async {
            while told.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            (0..10).for_each(|_| hedge.budget.save());
        };
        assert_eq!(tokio::join!(waiting, others).0, Ok(2));
        assert_eq!(told.into_inner(), [HedgeEvent::NoBudget, HedgeEvent::Won { is_gone: false }]);
    }

    #[tokio::test]
    async fn who_has_nothing_to_say_does_not_answer_for_the_other() {
        let hedge = hedge(100);
        assert_eq!(race(&hedge, later(Ok(1)), ready(Err(()))).await, (Ok(1), vec![HedgeEvent::Lost]));
        let raced = race(&hedge, later(Err(())), pending()).await;
        assert_eq!(raced, (Err(()), vec![HedgeEvent::Lost]), "it was not outrun: it has answered");
    }
}
