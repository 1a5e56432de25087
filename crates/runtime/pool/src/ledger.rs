//! Live workers: slots, tickets, their zygote, idle workers, and waiters for changes.

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

/// Longest wait for a zygote after the loss of one. It needs milliseconds to start, if it can start at all.
const DESERTED_WAIT_MAX: Duration = Duration::from_secs(10);

/// The result of an admission.
#[derive(Debug)]
pub(crate) enum Admission {
    /// A slot for a child that this zygote has to fork.
    Fresh { ticket: u64, link: Link },
    /// An idle child of the same kind.
    Warm(Warm),
}

/// The turn of a child during its first job.
pub(crate) const FIRST_TURN: u64 = 0;

/// The ledger. It has one lock, which is only held briefly.
#[derive(Debug)]
pub(crate) struct Ledger {
    workers_max: usize,
    reuse: Reuse,
    /// Control groups for workers, if there are any.
    groups: Option<Groups>,
    state: Mutex<State>,
    /// A slot became free, or a zygote became ready.
    vacancy: Condvar,
    /// A child's fate became known.
    news: Condvar,
    /// Wakes the supervisor: the pool was closed, or a child of a retiring zygote has ended.
    bell: OwnedFd,
}

/// Events for the statistics, in addition to the ledger's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Lost,
    /// The zygote could not fork a worker.
    NotForked,
    /// An inspection found no process.
    Blind,
    Violation,
    /// A violation by native code with an access far outside of its memory.
    WildFault,
    /// A report that cannot be true.
    FalseReport,
    /// A library whose machine code was rejected.
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
        // No code can panic in the middle of a change under the lock.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.is_sound(self.workers_max, self.reuse.idle_max), "{state:?}");
        state
    }

    /// Waits for a slot, and for an idle child of `kind` or a zygote to fork one. The slot is taken until the
    /// child has ended or is idle.
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
                    // Retire an idle child to free its slot, unless one is already ending.
                    if state.alive == state.busy + state.resting.len() {
                        state.retire_longest();
                    }
                }
            }
            let given_up = state.deserted_since.map_or(until.deadline, |since| since + DESERTED_WAIT_MAX);
            let left = until.deadline.min(given_up).saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(match state.link {
                    Some(_) => PoolError::Busy { workers_max: self.workers_max },
                    None => PoolError::ZygoteLost,
                });
            }
            state = self.vacancy.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A slot and an idle child of `kind`, if both are available now.
    pub(crate) fn try_wake(&self, kind: &Kind, debug_bytes: u64) -> Option<Warm> {
        let mut state = self.state();
        if state.busy < self.workers_max { state.wake(kind, debug_bytes) } else { None }
    }

    /// Records the `channel` to the future child of `ticket`.
    pub(crate) fn connect(&self, ticket: u64, channel: &Arc<Channel>) {
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.channel = Some(Arc::clone(channel));
        }
    }

    /// Makes the child of `warm` idle after its job, unless it has ended or was cancelled.
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

    /// Records the child's pidfd.
    pub(crate) fn spawned(&self, ticket: u64, handle: OwnedFd) {
        let group = self.groups.as_ref().map(|groups| groups.take_in(handle.as_fd()));
        let group = group.transpose().inspect_err(|error| tracing::warn!(%error, "a worker without a group"));
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.handle = Some(handle);
            // Every worker must have a group.
            if entry.condemned || group.is_err() {
                entry.condemn();
            }
            entry.group = group.ok().flatten();
        }
        if self.groups.is_some() {
            self.news.notify_all();
        }
    }

    /// Waits until the ticket's child is in its control group, if workers have groups: before any job.
    pub(crate) fn wait_for_group(&self, ticket: u64, deadline: Instant) {
        if self.groups.is_none() {
            return;
        }
        let waits = |state: &mut State| {
            state.entries.get(&ticket).is_some_and(|entry| entry.handle.is_none() && entry.fate.is_none())
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // The caller detects a passed deadline itself.
        drop(self.news.wait_timeout_while(self.state(), left, waits));
    }

    /// Records the child's fate, and frees its slot.
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

    /// Kills the ticket's child, now or as soon as it exists; the caller does not need the fate.
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

    /// Uses a ready zygote for new workers. Idle workers of the previous one end.
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

    /// Readable when the supervisor has an event to process.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Clears the bell; returns whether the pool is still open.
    pub(crate) fn hear_bell(&self) -> bool {
        // The bell may have been cleared before.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        !self.state().closed
    }

    fn ring_bell(&self) {
        // Fails only if the bell is already set.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Records that the zygote of `link` does not receive any more. It gets no further requests.
    pub(crate) fn lost(&self, link: &Link) {
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|present| Arc::ptr_eq(&present.socket, &link.socket)) {
            state.desert();
        }
    }

    /// Whether there has been no zygote for at least `long`.
    pub(crate) fn is_deserted(&self, long: Duration) -> bool {
        self.state().deserted_since.is_some_and(|since| since.elapsed() >= long)
    }

    /// Records the end of the zygote `number` and of all its children.
    pub(crate) fn unlink(&self, number: u64) {
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|link| link.number == number) {
            state.desert();
        }
        let living = state.entries.iter().filter(|(_, entry)| entry.zygote == number && entry.fate.is_none());
        let tickets: Vec<u64> = living
            .map(|(ticket, entry)| {
                // The parent-death signal also kills them; this is for a kernel that loses it.
                entry.execute();
                *ticket
            })
            .collect();
        drop(state);
        for ticket in tickets {
            self.ended(ticket, Fate::ZygoteLost);
        }
    }

    /// Closes the pool: no zygote is needed any more.
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
        // A call that checked for cancellation before is waiting by now, since it held the lock until then.
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
