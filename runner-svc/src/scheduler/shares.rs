//! Who has had how much of the workers' time, and who is next: start-time fair queueing.
//!
//! The holder is next that would have had least time after one more run, which is expected to take the mean
//! of its recent ones, as are the runs in progress. Idle time earns nothing: who comes back counts as if it
//! had had what the least of the others has.

use std::{collections::HashMap, hash::Hash};

/// How long the last worker waits for a holder that was active, and how far a holder can be ahead of others,
/// microseconds.
pub(super) const RECENT_US: u64 = 10_000_000;
/// Holders that are remembered. Beyond that, idle ones are forgotten, and with them what they have had.
const SHARES_MAX: usize = 256;
/// The last run is one part in so many of the mean.
const MEAN_PARTS: u64 = 8;

/// Calls that wait.
pub(super) trait Waiting: Default {
    /// How many.
    fn count(&self) -> usize;

    /// Whether one of them may have the worker of `moment`.
    fn is_ready(&self, moment: Moment) -> bool;
}

/// A worker that is free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Microseconds of any clock.
    pub(super) now: u64,
    /// Whether it is the last one of several.
    pub(super) is_last: bool,
}

/// The calls of one holder, and what it has had.
#[derive(Debug, Default)]
pub(super) struct Share<W> {
    pub(super) waiting: W,
    /// Time of runs that have ended, microseconds.
    ended: u64,
    running: u64,
    /// When the runs in progress began, all together.
    began: u64,
    mean: u64,
    seen: u64,
    /// Of those with equal time, who has waited longest is next.
    turn: u64,
}

#[derive(Debug)]
pub(super) struct Shares<K, W> {
    pub(super) all: HashMap<K, Share<W>>,
    /// What the one had had that was next last.
    time: u64,
    turns: u64,
}

impl<K, W> Default for Shares<K, W> {
    fn default() -> Self {
        Self { all: HashMap::new(), time: 0, turns: 0 }
    }
}

impl<W: Waiting> Share<W> {
    fn used(&self, now: u64) -> u64 {
        (self.ended + self.running * now).saturating_sub(self.began)
    }

    fn expected(&self, now: u64) -> u64 {
        self.used(now) + (self.running + 1) * self.mean
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.count() == 0
    }

    fn is_recent(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) < RECENT_US
    }
}

impl<K: Clone + Eq + Hash, W: Waiting> Shares<K, W> {
    /// The share of `key`, for a call that comes `now`.
    pub(super) fn enter(&mut self, key: &K, now: u64) -> &mut Share<W> {
        if self.all.get(key).is_none_or(|share| share.waiting.count() == 0) {
            let active = self.all.values().filter(|share| !share.is_idle());
            let least = active.map(|share| share.used(now)).min().unwrap_or(self.time);
            let least = least.max(self.time.saturating_sub(RECENT_US));
            self.turns += 1;
            let share = self.all.entry(key.clone()).or_default();
            share.ended += least.saturating_sub(share.used(now));
            share.turn = self.turns;
        }
        let share = self.all.entry(key.clone()).or_default();
        share.seen = now;
        share
    }

    /// Who is next of those who may have the worker of `moment`. The last one waits for those who have none
    /// and were active lately.
    pub(super) fn next(&self, moment: Moment) -> Option<K> {
        let mut shares = self.all.values();
        let waits = moment.is_last && shares.any(|share| share.running == 0 && share.is_recent(moment.now));
        let ready = self.all.iter().filter(|(_, share)| share.running == 0 || !waits);
        ready
            .filter(|(_, share)| share.waiting.is_ready(moment))
            .min_by_key(|(_, share)| (share.expected(moment.now), share.turn))
            .map(|(key, _)| key.clone())
    }

    /// A run of `key` begins. Gives its share.
    pub(super) fn begin(&mut self, key: &K, now: u64) -> &mut Share<W> {
        self.turns += 1;
        let share = self.all.entry(key.clone()).or_default();
        self.time = self.time.max(share.used(now));
        share.running += 1;
        share.began += now;
        (share.turn, share.seen) = (self.turns, now);
        share
    }

    /// The run of `key` that began at `since` ends. Gives its share.
    pub(super) fn end(&mut self, key: &K, since: u64, now: u64) -> Option<&mut Share<W>> {
        self.forget_idle(now);
        let share = self.all.get_mut(key)?;
        let time = now.saturating_sub(since);
        share.running -= 1;
        share.began -= since;
        share.ended += time;
        let mean = if share.mean == 0 { time } else { share.mean };
        share.mean = (mean * (MEAN_PARTS - 1) + time) / MEAN_PARTS;
        share.seen = now;
        Some(share)
    }

    /// Who has most calls that wait; `own`, if nobody has more.
    pub(super) fn most(&self, own: &K) -> Option<K> {
        let most = self.all.iter().max_by_key(|(key, share)| (share.waiting.count(), *key == own));
        most.map(|(key, _)| key.clone())
    }

    fn forget_idle(&mut self, now: u64) {
        if self.all.len() > SHARES_MAX {
            self.all.retain(|_, share| !share.is_idle() || share.is_recent(now));
        }
        if self.all.len() > SHARES_MAX {
            self.all.retain(|_, share| !share.is_idle());
        }
    }
}

impl<K: Clone + Eq + Hash, W: Waiting> Waiting for Shares<K, W> {
    fn count(&self) -> usize {
        self.all.values().map(|share| share.waiting.count()).sum()
    }

    fn is_ready(&self, moment: Moment) -> bool {
        self.next(moment).is_some()
    }
}
