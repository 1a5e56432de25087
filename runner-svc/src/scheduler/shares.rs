//! Worker time of each owner, and who is next: start-time fair queueing.
//!
//! The next owner is the one with the least time after one more run. Each run, also one in progress, is
//! expected to take the mean of the owner's recent ones. Idle time earns nothing: a returning owner starts
//! from the least time of the others.

use std::{collections::HashMap, hash::Hash};

/// Longest wait of the last worker for a recently active owner, and largest lead of an owner over others,
/// microseconds.
pub(super) const RECENT_US: u64 = 10_000_000;
/// Remembered owners. Beyond that, idle ones are forgotten with their time.
const SHARES_MAX: usize = 256;
/// The last run's share of the mean is one in this many.
const MEAN_PARTS: u64 = 8;

/// Waiting calls.
pub(super) trait Waiting: Default {
    /// Their number.
    fn count(&self) -> usize;

    /// Whether one of them may take the worker of `moment`.
    fn is_ready(&self, moment: Moment) -> bool;
}

/// A free worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Microseconds of any clock.
    pub(super) now: u64,
    /// Whether it is the last one of several.
    pub(super) is_last: bool,
}

/// The calls and the time of one owner.
#[derive(Debug, Default)]
pub(super) struct Share<W> {
    pub(super) waiting: W,
    /// Time of runs that have ended, microseconds.
    ended: u64,
    running: u64,
    /// Sum of the start times of runs in progress.
    began: u64,
    mean: u64,
    seen: u64,
    /// At equal time, the owner that waited longest is next.
    turn: u64,
}

#[derive(Debug)]
pub(super) struct Shares<K, W> {
    pub(super) all: HashMap<K, Share<W>>,
    /// Time of the owner that was served last.
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
    /// The share of `key`, for a call that arrives `now`.
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

    /// The next owner that may take the worker of `moment`. The last worker waits for recently active owners
    /// without one.
    pub(super) fn next(&self, moment: Moment) -> Option<K> {
        let mut shares = self.all.values();
        let waits = moment.is_last && shares.any(|share| share.running == 0 && share.is_recent(moment.now));
        let ready = self.all.iter().filter(|(_, share)| share.running == 0 || !waits);
        ready
            .filter(|(_, share)| share.waiting.is_ready(moment))
            .min_by_key(|(_, share)| (share.expected(moment.now), share.turn))
            .map(|(key, _)| key.clone())
    }

    /// Starts a run of `key`. Returns its share.
    pub(super) fn begin(&mut self, key: &K, now: u64) -> &mut Share<W> {
        self.turns += 1;
        let share = self.all.entry(key.clone()).or_default();
        self.time = self.time.max(share.used(now));
        share.running += 1;
        share.began += now;
        (share.turn, share.seen) = (self.turns, now);
        share
    }

    /// Ends the run of `key` that started at `since`. Returns its share.
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

    /// The owner with the most waiting calls; `own` if none has more.
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
