//! The ledger's state under its lock: the children, and their counts.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Instant,
};

use rustix::process::{Signal, pidfd_send_signal};

use crate::{
    PoolStats,
    channel::Channel,
    control_group::Group,
    reuse::{Kind, Warm},
    wire::End,
};

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The zygote reaped it.
    Ended(End),
    /// The kernel ended it because it exceeded its control group's memory.
    OutOfMemory,
    /// The zygote could not fork it.
    NotSpawned { detail: String },
    /// The zygote died, and its children with it.
    ZygoteLost,
}

/// The socket to a ready zygote.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) pid: u32,
    /// The zygote's number in the pool.
    pub(crate) number: u64,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Number of its zygote.
    pub(super) zygote: u64,
    /// Time of its request or of its kill: news are due from then on.
    pub(super) since: Option<Instant>,
    pub(super) handle: Option<OwnedFd>,
    /// Its control group, if workers have groups.
    pub(super) group: Option<Group>,
    /// The supervisor's end, to be closed after the child's end.
    pub(super) channel: Option<Arc<Channel>>,
    pub(super) fate: Option<Fate>,
    /// Number of its current job.
    pub(super) turn: u64,
    /// The child is idle.
    pub(super) rests: bool,
    /// The child must end, because the caller has released it.
    pub(super) condemned: bool,
    /// The caller does not need the fate.
    pub(super) forgotten: bool,
}

impl Entry {
    /// Kills the child, now or as soon as it exists.
    pub(super) fn condemn(&mut self) {
        if self.handle.is_some() && !self.condemned {
            self.since = Some(Instant::now());
        }
        self.condemned = true;
        self.execute();
    }

    pub(super) fn execute(&self) {
        if let (Some(handle), None) = (&self.handle, &self.fate) {
            // Fails only if it has already ended.
            let _ = pidfd_send_signal(handle.as_fd(), Signal::KILL);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) link: Option<Link>,
    /// Time since when there is no link.
    pub(super) deserted_since: Option<Instant>,
    pub(super) entries: HashMap<u64, Entry>,
    /// Idle children, the one that is idle longest first.
    pub(super) resting: Vec<Warm>,
    pub(super) next_ticket: u64,
    pub(super) busy: usize,
    /// Children that have not ended, busy or idle.
    pub(super) alive: usize,
    pub(super) closed: bool,
    pub(super) stats: PoolStats,
}

impl State {
    /// Whether the counts match the entries and are within their limits.
    pub(super) fn is_sound(&self, workers_max: usize, idle_max: usize) -> bool {
        let living = || self.entries.values().filter(|entry| entry.fate.is_none());
        let is_resting = |warm: &Warm| self.entries.get(&warm.ticket).is_some_and(|entry| entry.rests);
        self.alive == living().count()
            && self.busy == living().filter(|entry| !entry.rests).count()
            && self.busy <= workers_max
            && self.alive <= workers_max + idle_max
            && self.resting.len() <= idle_max
            && self.resting.iter().all(is_resting)
    }

    pub(super) fn desert(&mut self) {
        (self.link, self.deserted_since) = (None, Some(Instant::now()));
    }

    /// Takes a slot for a future child.
    pub(super) fn enter(&mut self, zygote: u64) -> u64 {
        self.next_ticket += 1;
        self.busy += 1;
        self.alive += 1;
        self.stats.spawned_total += 1;
        self.entries
            .insert(self.next_ticket, Entry { zygote, since: Some(Instant::now()), ..Entry::default() });
        self.next_ticket
    }

    /// Takes a slot for the matching child that became idle last: its caches are warmest.
    pub(super) fn wake(&mut self, kind: &Kind, debug_bytes: u64) -> Option<Warm> {
        let place = self.resting.iter().rposition(|warm| warm.suits(kind, debug_bytes))?;
        let warm = self.resting.remove(place);
        self.entries.get_mut(&warm.ticket)?.rests = false;
        self.busy += 1;
        self.stats.reused_total += 1;
        Some(warm)
    }

    /// Ends the child that has been idle longest, if there is one. It counts as alive until its end.
    pub(super) fn retire_longest(&mut self) {
        if self.resting.is_empty() {
            return;
        }
        let warm = self.resting.remove(0);
        if let Some(entry) = self.entries.get_mut(&warm.ticket) {
            entry.condemn();
        }
    }
}
