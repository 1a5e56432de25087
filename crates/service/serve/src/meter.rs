//! What a tenant uses up of a rate, paid afterwards: what a run or a compile costs is known when it has
//! ended, so whoever has debts waits until they are paid.
//!
//! Libraries of rate limits refuse a charge that is more than what is left, which here would forget the
//! dearest runs.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A rate, such as cycles a second. What was saved up lasts for its period.
#[derive(Debug)]
pub(crate) struct Meter {
    amount: u64,
    period: Duration,
    /// When all that was charged is paid.
    paid_at: Mutex<Option<Instant>>,
}

/// Debts are forgotten beyond this: one run can cost more than a life.
const DEBT_MAX: Duration = Duration::from_secs(24 * 3_600);

impl Meter {
    /// `amount` for each `period`.
    pub(crate) fn new(amount: u64, period: Duration) -> Self {
        Self { amount, period, paid_at: Mutex::new(None) }
    }

    /// Whether more may be used at `now`, or else in how long.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let paid_at = *self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        match paid_at.and_then(|paid_at| paid_at.checked_duration_since(now + self.period)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }

    /// Charges `used`.
    pub(crate) fn charge(&self, used: u64, now: Instant) {
        let seconds = self.period.as_secs_f64() * (used as f64 / self.amount.max(1) as f64);
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(DEBT_MAX).min(DEBT_MAX);
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let from = paid_at.filter(|paid_at| *paid_at > now).unwrap_or(now);
        *paid_at = Some((from + time).min(now + DEBT_MAX));
    }

    /// Whether nothing is to be paid any more.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.paid_at.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|paid_at| paid_at <= now)
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
        // A second's worth may be used at once.
        assert_eq!(meter.admit(at(0)), Ok(()));
        meter.charge(250, at(0));
        assert_eq!(meter.admit(at(0)), Err(Duration::from_millis(2_500)));
        assert_eq!(meter.admit(at(2_499)), Err(Duration::from_millis(1)));
        assert_eq!(meter.admit(at(2_500)), Ok(()));
        assert!(!meter.is_idle(at(2_500)) && meter.is_idle(at(3_500)));
        // Nothing is saved up beyond the period.
        meter.charge(300, at(10_000));
        assert_eq!(meter.admit(at(10_000)), Err(Duration::from_secs(2)));
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
