//! How long a task looks for the answer to a short run before it hands the waiting over to a thread that may
//! block.
//!
//! Handing over and back costs more than most short scripts take, and looking is in vain for long ones:
//! whether it was worth it lately decides.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use antares_pool::{Answers, StartedRun};

/// Time that a task looks: a waking worker's way to its answer, and less than other tasks would notice.
const SPIN_MAX: Duration = Duration::from_micros(100);
/// The same while nothing else runs or waits to run: handing over would be slower than most transactions are.
const SPIN_ALONE_MAX: Duration = Duration::from_micros(400);
/// Looks in vain, one after another, from which on only some are made.
const MISSES_MAX: u32 = 4;
/// Of these, one in so many.
const ONE_IN: u32 = 32;

/// Looks in vain since the last one that was not.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveSpin(AtomicU32);

impl AdaptiveSpin {
    /// Looks for the end of `started` as long as is worth it, longer if it `is_alone`. Whether it is there.
    pub(crate) fn poll<R: Answers>(&self, started: &mut StartedRun<R>, is_alone: bool) -> bool {
        let time = self.now(is_alone);
        if time.is_zero() {
            return false;
        }
        let is_there = started.poll(time);
        self.record(is_there);
        is_there
    }

    /// How long to look this time.
    fn now(&self, is_alone: bool) -> Duration {
        let misses = self.0.load(Ordering::Relaxed);
        if misses < MISSES_MAX || misses.is_multiple_of(ONE_IN) {
            return if is_alone { SPIN_ALONE_MAX } else { SPIN_MAX };
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Duration::ZERO
    }

    /// Notes whether a look was worth it.
    fn record(&self, is_there: bool) {
        if is_there {
            self.0.store(0, Ordering::Relaxed);
        } else {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_become_rare_and_one_that_is_not_makes_up_for_them() {
        let spin = AdaptiveSpin::default();
        let looks = (0..320).filter(|_| {
            let looks = spin.now(false) == SPIN_MAX;
            if looks {
                spin.record(false);
            }
            looks
        });
        assert!((10..=15).contains(&looks.count()));
        spin.record(true);
        assert_eq!((spin.now(false), spin.now(true)), (SPIN_MAX, SPIN_ALONE_MAX));
    }
}
