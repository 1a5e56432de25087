//! Scripts and libraries that are sealed and checked already, kept in memory by last use, bytes and number:
//! each has a file in memory, which takes a descriptor and whole pages.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_pool::Sealed;
use antares_serve::Account;

use crate::artifacts::quarantine::{Quarantine, Suspect};

/// What is kept: a script by its digest, a library by its artifact key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadyKey {
    Script(Sha256Digest),
    Library(Sha256Digest),
}

/// A library as a tenant uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// What it is if it breaks a rule.
    pub(crate) suspect: Suspect,
    /// What it is ready as, for all or for this tenant.
    pub(crate) ready: ReadyKey,
}

impl Used {
    pub(crate) fn of(account: &Account, key: ArtifactKey) -> Self {
        let ready = ReadyKey::Library(Sha256Digest(account.salt().apply(key.0)));
        Self { suspect: Suspect::of(account, key), ready }
    }
}

/// Bytes that the kernel gives a file at a time.
const PAGE_BYTES: u64 = 4096;

/// Bytes that a file in memory takes beside its content: the kernel's records of it, and ours.
const FILE_BYTES: u64 = 4096;

/// Sealed files by last use, at most so many bytes and so many files. What is handed out lives on when it
/// leaves.
#[derive(Debug)]
pub(crate) struct Ready {
    bytes_max: u64,
    entries_max: usize,
    state: Mutex<State>,
    /// Libraries that are not to be handed out any more.
    pub(crate) quarantine: Quarantine,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<ReadyKey, Entry>,
    /// Keys by the tick of their last use.
    order: BTreeMap<u64, ReadyKey>,
    tick: u64,
    bytes: u64,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct Entry {
    sealed: Arc<Sealed>,
    tick: u64,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyStats {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) quarantined: u64,
}

impl Ready {
    pub(crate) fn new(bytes_max: u64, entries_max: usize) -> Self {
        Self { bytes_max, entries_max, state: Mutex::default(), quarantine: Quarantine::default() }
    }

    pub(crate) fn get(&self, key: ReadyKey) -> Option<Arc<Sealed>> {
        let mut state = self.state();
        let state = &mut *state;
        state.tick += 1;
        let Some(entry) = state.entries.get_mut(&key) else {
            state.misses += 1;
            return None;
        };
        state.hits += 1;
        state.order.remove(&entry.tick);
        entry.tick = state.tick;
        state.order.insert(entry.tick, key);
        Some(entry.sealed.clone())
    }

    /// Keeps `sealed`, in the place of what was used longest ago. What is larger than everything is not kept.
    pub(crate) fn put(&self, key: ReadyKey, sealed: &Arc<Sealed>) {
        if charge(sealed) > self.bytes_max {
            return;
        }
        let mut state = self.state();
        state.remove(key);
        state.tick += 1;
        let tick = state.tick;
        state.bytes += charge(sealed);
        state.order.insert(tick, key);
        state.entries.insert(key, Entry { sealed: sealed.clone(), tick });
        while state.bytes > self.bytes_max || state.entries.len() > self.entries_max {
            let Some((_, oldest)) = state.order.first_key_value() else { return };
            let oldest = *oldest;
            state.remove(oldest);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        (state.entries, state.order, state.bytes) = (HashMap::new(), BTreeMap::new(), 0);
    }

    pub(crate) fn remove(&self, key: ReadyKey) {
        self.state().remove(key);
    }

    /// Puts libraries into quarantine, because of what `detail` says.
    pub(crate) fn bar(&self, used: &[Used], detail: &str) {
        let suspects: Vec<_> = used.iter().map(|used| used.suspect).collect();
        self.quarantine.add(&suspects, detail);
        used.iter().for_each(|used| self.remove(used.ready));
    }

    pub(crate) fn stats(&self) -> ReadyStats {
        let state = self.state();
        ReadyStats {
            bytes: state.bytes,
            entries: state.entries.len() as u64,
            hits: state.hits,
            misses: state.misses,
            quarantined: self.quarantine.len(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `sealed` takes.
fn charge(sealed: &Sealed) -> u64 {
    sealed.len().next_multiple_of(PAGE_BYTES) + FILE_BYTES
}

impl State {
    fn remove(&mut self, key: ReadyKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.order.remove(&entry.tick);
            self.bytes -= charge(&entry.sealed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> ReadyKey {
        ReadyKey::Library(Sha256Digest([number; 32]))
    }

    /// Puts a file that takes so many pages with all that belongs to it.
    fn put(ready: &Ready, number: u8, pages: usize) {
        let content = vec![number; (pages - 1) * 4096 - 7];
        ready.put(key(number), &Arc::new(Sealed::new("test", &content).unwrap()));
    }

    fn ready(pages: u64) -> Ready {
        Ready::new(pages * PAGE_BYTES, 100)
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let ready = ready(6);
        for number in 1..=3 {
            put(&ready, number, 2);
        }
        assert!(ready.get(key(1)).is_some());
        put(&ready, 4, 2);
        let kept: Vec<bool> = (1..=4).map(|number| ready.get(key(number)).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
        assert_eq!(
            ready.stats(),
            ReadyStats { bytes: 6 * PAGE_BYTES, entries: 3, hits: 4, misses: 1, quarantined: 0 }
        );
    }

    #[test]
    fn bytes_are_counted_once_and_given_back() {
        let ready = ready(6);
        put(&ready, 1, 2);
        put(&ready, 1, 4);
        assert_eq!(ready.stats().bytes, 4 * PAGE_BYTES);
        ready.remove(key(1));
        ready.remove(key(1));
        assert_eq!(ready.stats().bytes, 0);
    }

    #[test]
    fn small_files_are_few() {
        let ready = Ready::new(1 << 30, 5);
        for number in 0..100 {
            ready.put(key(number), &Arc::new(Sealed::new("test", &[number; 8]).unwrap()));
        }
        assert_eq!((ready.stats().entries, ready.stats().bytes), (5, 10 * PAGE_BYTES));
        assert!(ready.get(key(99)).is_some() && ready.get(key(94)).is_none());
    }

    #[test]
    fn what_is_larger_than_everything_is_not_kept() {
        let ready = ready(3);
        put(&ready, 1, 2);
        put(&ready, 2, 4);
        assert!(ready.get(key(1)).is_some() && ready.get(key(2)).is_none());
    }
}
