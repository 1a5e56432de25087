//! Who is alive: slots, tickets, the zygote that owns them, who rests, and who waits for a change.

mod news;
mod state;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

use self::state::State;
pub(crate) use self::state::{Fate, Link};
use crate::{
    PoolError, PoolStats, Reuse,
    cancel::{Recalls, Until},
    channel::Channel,
    control_group::Groups,
    reuse::{Kind, Warm},
    wire::End,
};

/// What a job was given.
#[derive(Debug)]
pub(crate) enum Admission {
    /// A slot for a child that is to be made by this zygote.
    Fresh { ticket: u64, link: Link },
    /// A child that has done such a job before.
    Warm(Warm),
}

/// The turn of a child with its first job.
pub(crate) const FIRST_TURN: u64 = 0;

/// The ledger. One lock, held for moments only.
#[derive(Debug)]
pub(crate) struct Ledger {
    workers_max: usize,
    reuse: Reuse,
    /// Where workers have control groups of their own.
    groups: Option<Groups>,
    state: Mutex<State>,
    /// A slot came free, or a zygote came up.
    vacancy: Condvar,
    /// A child's fate became known.
    news: Condvar,
    /// Wakes the supervisor: the pool was closed, or a child of a zygote that retires has ended.
    bell: OwnedFd,
}

/// What counts in the statistics beside the ledger's own events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Lost,
    /// The zygote could not make a worker.
    NotForked,
    /// A look found nobody.
    Blind,
    Violation,
    /// A violation by native code that touched memory far from all that it may touch.
    WildFault,
    /// A report that cannot be true.
    FalseReport,
    /// A library whose machine code was refused.
    CodeRefused,
    Deadline,
    ZygoteLost,
    ZygoteRenewed,
}

impl Ledger {
    pub(crate) fn new(workers_max: usize, reuse: Reuse, groups: Option<Groups>) -> io::Result<Self> {
        let (state, vacancy, news) = Default::default();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { workers_max, reuse, groups, state, vacancy, news, bell })
    }

    pub(crate) fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way through a change.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.is_sound(self.workers_max, self.reuse.idle_max), "{state:?}");
        state
    }

    /// Waits for a slot, and for a child of `kind` that rests or a zygote to make one; the slot is taken
    /// until the child has ended or rests.
    pub(crate) fn admit(
        &self,
        kind: Option<&Kind>,
        debug_bytes: u64,
        until: &Until,
    ) -> Result<Admission, PoolError> {
        let mut state = self.state();
        loop {
            if until.is_cancelled() {
                return Err(PoolError::Cancelled);
            }
            if state.busy < self.workers_max {
                if let Some(warm) = kind.and_then(|kind| state.wake(kind, debug_bytes)) {
                    return Ok(Admission::Warm(warm));
                }
                if let Some(link) = state.link.clone() {
                    if state.alive < self.workers_max + self.reuse.idle_max {
                        return Ok(Admission::Fresh { ticket: state.enter(link.number), link });
                    }
                    // Who rests makes room, unless somebody is making room already.
                    if state.alive == state.busy + state.resting.len() {
                        state.retire_longest();
                    }
                }
            }
            let left = until.deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(match state.link {
                    Some(_) => PoolError::Busy { workers_max: self.workers_max },
                    None => PoolError::ZygoteLost,
                });
            }
            state = self.vacancy.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A slot and a child of `kind` that rests, if there are both now.
    pub(crate) fn try_wake(&self, kind: &Kind, debug_bytes: u64) -> Option<Warm> {
        let mut state = self.state();
        if state.busy < self.workers_max { state.wake(kind, debug_bytes) } else { None }
    }

    /// `channel` leads to the child that is about to be made for `ticket`.
    pub(crate) fn connect(&self, ticket: u64, channel: &Arc<Channel>) {
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.channel = Some(Arc::clone(channel));
        }
    }

    /// The child of `warm` has done its job and waits for another one, unless it has ended or was taken back.
    pub(crate) fn idle(&self, warm: Warm) {
        let mut state = self.state();
        let present = state.link.as_ref().map(|link| link.number);
        let Some(entry) = state.entries.get_mut(&warm.ticket) else { return };
        if entry.condemned || entry.fate.is_some() || Some(entry.zygote) != present {
            drop(state);
            return self.forget(warm.ticket);
        }
        entry.rests = true;
        entry.turn += 1;
        let turn = entry.turn;
        state.busy -= 1;
        state.resting.push(Warm { turn, ..warm });
        if state.resting.len() > self.reuse.idle_max {
            state.retire_longest();
        }
        drop(state);
        self.vacancy.notify_one();
    }

    /// The child's pidfd arrived.
    pub(crate) fn spawned(&self, ticket: u64, handle: OwnedFd) {
        let group = self.groups.as_ref().map(|groups| groups.take_in(handle.as_fd()));
        let group = group.transpose().inspect_err(|error| tracing::warn!(%error, "a worker without a group"));
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.handle = Some(handle);
            // It was said that all have one.
            if entry.condemned || group.is_err() {
                entry.condemn();
            }
            entry.group = group.ok().flatten();
        }
        if self.groups.is_some() {
            self.news.notify_all();
        }
    }

    /// Waits until the ticket's child has its control group, where workers have some: before any job.
    pub(crate) fn wait_for_group(&self, ticket: u64, deadline: Instant) {
        if self.groups.is_none() {
            return;
        }
        let waits = |state: &mut State| {
            state.entries.get(&ticket).is_some_and(|entry| entry.handle.is_none() && entry.fate.is_none())
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // Past the deadline its caller finds out by itself.
        drop(self.news.wait_timeout_while(self.state(), left, waits));
    }

    /// The child's fate is known; its slot is free.
    pub(crate) fn ended(&self, ticket: u64, fate: Fate) {
        let group = self.state().entries.get_mut(&ticket).and_then(|entry| entry.group.take());
        let fate = match (&group, fate) {
            (Some(group), Fate::Ended(End::Signal(libc::SIGKILL))) if group.was_out_of_memory() => {
                Fate::OutOfMemory
            }
            (_, fate) => fate,
        };
        drop(group);
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&ticket) else { return };
        if entry.fate.is_some() {
            return;
        }
        entry.fate = Some(fate);
        entry.handle = None;
        if let Some(channel) = entry.channel.take() {
            channel.close();
        }
        let (rests, zygote) = (entry.rests, entry.zygote);
        if entry.forgotten || rests {
            state.entries.remove(&ticket);
        }
        state.alive -= 1;
        if rests {
            state.resting.retain(|warm| warm.ticket != ticket);
        } else {
            state.busy -= 1;
        }
        let retires = state.link.as_ref().is_some_and(|link| link.number != zygote);
        drop(state);
        self.vacancy.notify_one();
        self.news.notify_all();
        if retires {
            self.ring_bell();
        }
    }

    /// Kills the ticket's child, now or as soon as it exists; the caller will not come back for the fate.
    pub(crate) fn forget(&self, ticket: u64) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(&ticket) {
            entry.condemn();
            entry.forgotten = true;
            if entry.fate.is_some() {
                state.entries.remove(&ticket);
            }
        }
    }

    /// Waits for the fate of the ticket's child.
    pub(crate) fn fate(&self, ticket: u64, deadline: Instant) -> Option<Fate> {
        let mut state = self.state();
        loop {
            if let Some(fate) = state.entries.get(&ticket).and_then(|entry| entry.fate.clone()) {
                return Some(fate);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A zygote is ready, and makes the workers from now on. Those of another one end when they rest.
    pub(crate) fn link(&self, link: Link) {
        let mut state = self.state();
        (state.link, state.deserted_since) = (Some(link), None);
        while !state.resting.is_empty() {
            state.retire_longest();
        }
        drop(state);
        self.vacancy.notify_all();
    }

    /// Whether no child of the zygote `number` is alive.
    pub(crate) fn is_idle(&self, number: u64) -> bool {
        !self.state().entries.values().any(|entry| entry.zygote == number && entry.fate.is_none())
    }

    /// What is readable when the supervisor has something to look at.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Answers whether the pool is still open.
    pub(crate) fn hear_bell(&self) -> bool {
        // It may have been heard before.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        !self.state().closed
    }

    fn ring_bell(&self) {
        // It fails only if it rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// The zygote behind `link` does not listen any more. Until its end is noticed nobody shall ask it.
    pub(crate) fn lost(&self, link: &Link) {
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|present| Arc::ptr_eq(&present.socket, &link.socket)) {
            state.desert();
        }
    }

    /// Whether there was no zygote for `long` or longer.
    pub(crate) fn is_deserted(&self, long: Duration) -> bool {
        self.state().deserted_since.is_some_and(|since| since.elapsed() >= long)
    }

    /// The zygote `number` is gone: so are all its children.
    pub(crate) fn unlink(&self, number: u64) {
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|link| link.number == number) {
            state.desert();
        }
        let living = state.entries.iter().filter(|(_, entry)| entry.zygote == number && entry.fate.is_none());
        let tickets: Vec<u64> = living
            .map(|(ticket, entry)| {
                // Their parent-death signal does the same; this is for a kernel that loses it.
                entry.execute();
                *ticket
            })
            .collect();
        drop(state);
        for ticket in tickets {
            self.ended(ticket, Fate::ZygoteLost);
        }
    }

    /// No zygote is wanted any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.link = None;
        drop(state);
        self.ring_bell();
    }

    pub(crate) fn count(&self, count: Count) {
        let mut state = self.state();
        match count {
            Count::Lost => state.stats.lost_total += 1,
            Count::Blind => state.stats.blind_total += 1,
            Count::NotForked => state.stats.not_forked_total += 1,
            Count::Violation => state.stats.violations_total += 1,
            Count::WildFault => {
                state.stats.violations_total += 1;
                state.stats.wild_faults_total += 1;
            }
            Count::FalseReport => {
                state.stats.violations_total += 1;
                state.stats.false_reports_total += 1;
            }
            Count::CodeRefused => state.stats.code_refused_total += 1,
            Count::Deadline => state.stats.deadline_total += 1,
            Count::ZygoteLost => state.stats.zygote_restarts_total += 1,
            Count::ZygoteRenewed => state.stats.zygote_renewals_total += 1,
        }
    }

    pub(crate) fn count_inspected(&self, looked_at: u64, unfenced: u64) {
        let mut state = self.state();
        state.stats.inspected_total += looked_at;
        state.stats.unfenced_total += unfenced;
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let state = self.state();
        let zygote_pid = state.link.as_ref().map(|link| link.pid);
        let (busy, resting) = (state.busy, state.resting.len());
        PoolStats { busy, resting, workers_max: self.workers_max, zygote_pid, ..state.stats }
    }
}

impl Recalls for Ledger {
    fn recall(&self, jobs: &[(u64, u64)]) {
        // Whoever looked before it was taken back waits by now, since it held the lock until then.
        let mut state = self.state();
        for (ticket, turn) in jobs {
            let entry = state.entries.get_mut(ticket).filter(|entry| entry.turn == *turn);
            if let Some(entry) = entry {
                entry.condemn();
            }
        }
        drop(state);
        self.vacancy.notify_all();
    }
}

#[cfg(test)]
mod tests;
