//! Scripts and libraries that are sealed and checked already, kept in memory by last use and bytes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::Sha256Digest;
use antares_pool::Sealed;

/// What is kept: a script by its digest, a library by its artifact key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadyKey {
    Script(Sha256Digest),
    Library(Sha256Digest),
}

/// Sealed files by last use, at most so many bytes. What is lent out lives on when it leaves.
#[derive(Debug)]
pub(crate) struct Ready {
    bytes_max: u64,
    state: Mutex<State>,
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
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Ready {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default() }
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
        if sealed.len() > self.bytes_max {
            return;
        }
        let mut state = self.state();
        state.remove(key);
        state.tick += 1;
        let tick = state.tick;
        state.bytes += sealed.len();
        state.order.insert(tick, key);
        state.entries.insert(key, Entry { sealed: sealed.clone(), tick });
        while state.bytes > self.bytes_max {
            let Some((_, oldest)) = state.order.first_key_value() else { return };
            let oldest = *oldest;
            state.remove(oldest);
        }
    }

    pub(crate) fn remove(&self, key: ReadyKey) {
        self.state().remove(key);
    }

    pub(crate) fn stats(&self) -> ReadyStats {
        let state = self.state();
        ReadyStats { bytes: state.bytes, hits: state.hits, misses: state.misses }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, key: ReadyKey) {
        if let Some(entry) = self.entries.remove(&key) {
            self.order.remove(&entry.tick);
            self.bytes -= entry.sealed.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> ReadyKey {
        ReadyKey::Library(Sha256Digest([number; 32]))
    }

    fn put(ready: &Ready, number: u8, bytes: usize) {
        ready.put(key(number), &Arc::new(Sealed::new("test", &vec![number; bytes]).unwrap()));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let ready = Ready::new(30);
        for number in 1..=3 {
            put(&ready, number, 10);
        }
        assert!(ready.get(key(1)).is_some());
        put(&ready, 4, 10);
        let kept: Vec<bool> = (1..=4).map(|number| ready.get(key(number)).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);
        assert_eq!(ready.stats(), ReadyStats { bytes: 30, hits: 4, misses: 1 });
    }

    #[test]
    fn bytes_are_counted_once_and_given_back() {
        let ready = Ready::new(30);
        put(&ready, 1, 10);
        put(&ready, 1, 20);
        assert_eq!(ready.stats().bytes, 20);
        ready.remove(key(1));
        ready.remove(key(1));
        assert_eq!(ready.stats().bytes, 0);
    }

    #[test]
    fn what_is_larger_than_everything_is_not_kept() {
        let ready = Ready::new(30);
        put(&ready, 1, 10);
        put(&ready, 2, 31);
        assert!(ready.get(key(1)).is_some() && ready.get(key(2)).is_none());
    }
}
