//! Who is alive: slots, tickets, the zygote that owns them, and who waits for which of them to change.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Signal, pidfd_send_signal};

use crate::{PoolError, PoolStats, cancel::Until, wire::End};

/// How a child's life ended, as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The zygote reaped it.
    Ended(End),
    /// The zygote could not make it.
    NotSpawned { detail: String },
    /// The zygote died, and its children with it.
    ZygoteLost,
}

/// The socket to a zygote that is ready.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) pid: u32,
}

#[derive(Debug, Default)]
struct Entry {
    handle: Option<OwnedFd>,
    fate: Option<Fate>,
    /// The caller is done with the child; it must not live on.
    condemned: bool,
    /// The caller will not ask for the fate any more.
    forgotten: bool,
}

impl Entry {
    fn execute(&self) {
        if let (Some(handle), None) = (&self.handle, &self.fate) {
            // The only failure is that it is dead already.
            let _ = pidfd_send_signal(handle.as_fd(), Signal::KILL);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    link: Option<Link>,
    entries: HashMap<u64, Entry>,
    next_ticket: u64,
    busy: usize,
    closed: bool,
    stats: PoolStats,
}

/// The ledger. One lock, held for moments only.
#[derive(Debug)]
pub(crate) struct Ledger {
    workers_max: usize,
    state: Mutex<State>,
    /// A slot came free, or a zygote came up.
    vacancy: Condvar,
    /// A child's fate became known, or the pool was closed.
    news: Condvar,
}

/// What counts in the statistics beside the ledger's own events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Lost,
    Violation,
    Deadline,
}

impl Ledger {
    pub(crate) fn new(workers_max: usize) -> Self {
        let (state, vacancy, news) = Default::default();
        Self { workers_max, state, vacancy, news }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot and a zygote; the slot is taken until the ticket's child has ended.
    pub(crate) fn admit(&self, until: &Until) -> Result<(u64, Link), PoolError> {
        let mut state = self.state();
        loop {
            if until.is_cancelled() {
                return Err(PoolError::Cancelled);
            }
            let link = match &state.link {
                Some(link) if state.busy < self.workers_max => link.clone(),
                _ => {
                    let left = until.deadline.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        return Err(match state.link {
                            Some(_) => PoolError::Busy { workers_max: self.workers_max },
                            None => PoolError::ZygoteLost,
                        });
                    }
                    let waited = self.vacancy.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            state.next_ticket += 1;
            state.busy += 1;
            state.stats.spawned_total += 1;
            let ticket = state.next_ticket;
            state.entries.insert(ticket, Entry::default());
            return Ok((ticket, link));
        }
    }

    /// The child's pidfd arrived.
    pub(crate) fn spawned(&self, ticket: u64, handle: OwnedFd) {
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.handle = Some(handle);
            if entry.condemned {
                entry.execute();
            }
        }
    }

    /// The child's fate is known; its slot is free.
    pub(crate) fn ended(&self, ticket: u64, fate: Fate) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&ticket) else { return };
        if entry.fate.is_some() {
            return;
        }
        entry.fate = Some(fate);
        entry.handle = None;
        if entry.forgotten {
            state.entries.remove(&ticket);
        }
        state.busy -= 1;
        drop(state);
        self.vacancy.notify_one();
        self.news.notify_all();
    }

    /// Kills the ticket's child, now or as soon as it exists.
    pub(crate) fn condemn(&self, ticket: u64) {
        if let Some(entry) = self.state().entries.get_mut(&ticket) {
            entry.condemned = true;
            entry.execute();
        }
    }

    /// The caller takes back the job with this ticket, or one that waits for its ticket.
    pub(crate) fn recall(&self, ticket: Option<u64>) {
        match ticket {
            Some(ticket) => self.condemn(ticket),
            None => {
                // Whoever looked before it was taken back waits by now, since it held the lock until then.
                drop(self.state());
                self.vacancy.notify_all();
            }
        }
    }

    /// As [`Ledger::condemn`], and the caller will not come back for the fate.
    pub(crate) fn forget(&self, ticket: u64) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(&ticket) {
            entry.condemned = true;
            entry.forgotten = true;
            entry.execute();
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

    /// A zygote is ready. Answers whether it is still wanted.
    pub(crate) fn link(&self, link: Link) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.link = Some(link);
        drop(state);
        self.vacancy.notify_all();
        true
    }

    /// The zygote behind `link` does not listen any more; its end will be noticed. Until then nobody shall ask it.
    pub(crate) fn lost(&self, link: &Link) {
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|present| Arc::ptr_eq(&present.socket, &link.socket)) {
            state.link = None;
        }
    }

    /// The zygote is gone: so are all its children. Answers whether another one is wanted.
    pub(crate) fn unlink(&self) -> bool {
        let mut state = self.state();
        state.link = None;
        let tickets: Vec<u64> = state
            .entries
            .iter()
            .filter(|(_, entry)| entry.fate.is_none())
            .map(|(ticket, _)| *ticket)
            .collect();
        for entry in state.entries.values() {
            // Their parent-death signal does the same; this is for a kernel that loses it.
            entry.execute();
        }
        let wanted = !state.closed;
        state.stats.zygote_restarts_total += u64::from(wanted);
        drop(state);
        for ticket in tickets {
            self.ended(ticket, Fate::ZygoteLost);
        }
        wanted
    }

    /// Waits for `pause`, or until the pool is closed. Answers whether it is still open.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = self.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left == Duration::ZERO {
                return !state.closed;
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No zygote is wanted any more. Answers with the socket of the present one.
    pub(crate) fn close(&self) -> Option<Link> {
        let mut state = self.state();
        state.closed = true;
        let link = state.link.take();
        drop(state);
        self.news.notify_all();
        link
    }

    pub(crate) fn count(&self, count: Count) {
        let mut state = self.state();
        match count {
            Count::Lost => state.stats.lost_total += 1,
            Count::Violation => state.stats.violations_total += 1,
            Count::Deadline => state.stats.deadline_total += 1,
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let state = self.state();
        let zygote_pid = state.link.as_ref().map(|link| link.pid);
        PoolStats { busy: state.busy, workers_max: self.workers_max, zygote_pid, ..state.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet_pair;

    fn ledger() -> Ledger {
        let ledger = Ledger::new(1);
        let socket = Arc::new(packet_pair().unwrap().0);
        assert!(ledger.link(Link { socket, pid: 1 }));
        ledger
    }

    #[test]
    fn a_slot_is_free_when_its_child_has_ended() {
        let ledger = ledger();
        let (first, _) = ledger.admit(&Instant::now().into()).unwrap();
        assert!(matches!(ledger.admit(&Instant::now().into()), Err(PoolError::Busy { workers_max: 1 })));
        ledger.forget(first);
        assert!(matches!(ledger.admit(&Instant::now().into()), Err(PoolError::Busy { workers_max: 1 })));
        ledger.ended(first, Fate::Ended(End::Exit(0)));
        ledger.ended(first, Fate::ZygoteLost);
        let (second, _) = ledger.admit(&Instant::now().into()).unwrap();
        assert_eq!(ledger.fate(second, Instant::now()), None);
        ledger.ended(second, Fate::Ended(End::Signal(9)));
        assert_eq!(ledger.fate(second, Instant::now()), Some(Fate::Ended(End::Signal(9))));
        ledger.forget(second);
        assert_eq!(ledger.stats().busy, 0);
        assert!(ledger.state().entries.is_empty());
    }

    #[test]
    fn a_lost_zygote_takes_its_children_along() {
        let ledger = ledger();
        let (ticket, _) = ledger.admit(&Instant::now().into()).unwrap();
        assert!(ledger.unlink());
        assert_eq!(ledger.fate(ticket, Instant::now()), Some(Fate::ZygoteLost));
        assert!(matches!(ledger.admit(&Instant::now().into()), Err(PoolError::ZygoteLost)));
        ledger.close();
        assert!(!ledger.unlink());
        assert_eq!(ledger.stats().zygote_restarts_total, 1);
    }
}
