//! A tenant's use of a rate. The cost of a run or a compile is known only at its end, so a tenant in debt
//! waits until it is paid. A run counts by an estimate from its start.
//!
//! Rate limit libraries refuse a charge above the remaining amount, and so would skip the most expensive
//! runs.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A rate, such as cycles per second. Savings last for its period.
#[derive(Debug)]
pub(crate) struct Meter {
    amount: u64,
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When all charges are paid.
    paid_at: Option<Instant>,
    /// Mean of recent charges.
    mean: Option<u64>,
}

/// Until a use has ended, the estimate is one in this many of a period's amount.
const FIRST_PARTS: u64 = 4;
/// The last charge's share of the mean is one in this many.
const MEAN_PARTS: u64 = 8;

/// Debts beyond this are forgiven: one run can cost more than a lifetime.
const DEBT_MAX: Duration = Duration::from_secs(24 * 3_600);

impl Meter {
    /// `amount` for each `period`.
    pub(crate) fn new(amount: u64, period: Duration) -> Self {
        Self { amount, period, state: Mutex::default() }
    }

    /// Whether more may be used at `now`, or the wait until then.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        self.begin(now).map(|expected| self.forgive(expected))
    }

    /// The same, and charges the estimate of one use: [`Meter::forgive`] reverts that.
    pub(crate) fn begin(&self, now: Instant) -> Result<Duration, Duration> {
        let mut state = self.state.lock();
        let latest = now + self.period;
        if let Some(paid_at) = state.paid_at.filter(|paid_at| *paid_at > latest) {
            return Err(paid_at - latest);
        }
        let expected = self.time(state.mean.unwrap_or(self.amount / FIRST_PARTS));
        state.add(expected, now);
        Ok(expected)
    }

    /// Reverts a charge.
    pub(crate) fn forgive(&self, expected: Duration) {
        let mut state = self.state.lock();
        state.paid_at = state.paid_at.and_then(|paid_at| paid_at.checked_sub(expected));
    }

    /// Charges `used`.
    pub(crate) fn charge(&self, used: u64, now: Instant) {
        let mut state = self.state.lock();
        state.add(self.time(used), now);
        let mean = state.mean.unwrap_or(used);
        state.mean = Some(mean - mean / MEAN_PARTS + used / MEAN_PARTS);
    }

    /// Time to pay `used`.
    fn time(&self, used: u64) -> Duration {
        let seconds = self.period.as_secs_f64() * (used as f64 / self.amount.max(1) as f64);
        Duration::try_from_secs_f64(seconds).unwrap_or(DEBT_MAX).min(DEBT_MAX)
    }

    /// Whether everything is paid.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.state.lock().paid_at.is_none_or(|paid_at| paid_at <= now)
    }
}

impl State {
    fn add(&mut self, time: Duration, now: Instant) {
        let from = self.paid_at.filter(|paid_at| *paid_at > now).unwrap_or(now);
        self.paid_at = Some((from + time).min(now + DEBT_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_debts_waits_until_they_are_paid() {
        let (meter, start) = (Meter::new(100, Duration::from_secs(1)), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        meter.charge(100, at(0));
        // A second's worth is available at once.
        assert_eq!(meter.admit(at(0)), Ok(()));
        meter.charge(250, at(0));
        assert_eq!(meter.admit(at(0)), Err(Duration::from_millis(2_500)));
        assert_eq!(meter.admit(at(2_499)), Err(Duration::from_millis(1)));
        assert_eq!(meter.admit(at(2_500)), Ok(()));
        assert!(!meter.is_idle(at(2_500)) && meter.is_idle(at(3_500)));
        // Savings end with the period.
        meter.charge(300, at(10_000));
        assert_eq!(meter.admit(at(10_000)), Err(Duration::from_secs(2)));
    }

    #[test]
    fn runs_that_begin_together_count_before_they_end() {
        let (meter, now) = (Meter::new(100, Duration::from_secs(1)), Instant::now());
        let begun: Vec<_> = (0..8).map_while(|_| meter.begin(now).ok()).collect();
        assert_eq!(begun.len(), 5, "nothing is known of the first");
        begun.into_iter().for_each(|expected| {
            meter.charge(200, now);
            meter.forgive(expected);
        });
        assert_eq!(meter.admit(now), Err(Duration::from_secs(9)));
        // Exhausted, and paid except for what is available at once.
        let later = now + Duration::from_secs(9);
        let expected = meter.begin(later).unwrap();
        assert_eq!(meter.begin(later), Err(Duration::from_secs(2)));
        meter.charge(10, later);
        meter.forgive(expected);
        assert_eq!(meter.admit(later), Err(Duration::from_millis(100)));
    }

    #[test]
    fn no_cost_is_too_high_to_be_charged() {
        let (meter, now) = (Meter::new(1, Duration::from_secs(3_600)), Instant::now());
        meter.charge(u64::MAX, now);
        meter.charge(u64::MAX, now);
        assert!(meter.admit(now).unwrap_err() <= DEBT_MAX);
        assert_eq!(meter.admit(now + DEBT_MAX), Ok(()));
    }
}
