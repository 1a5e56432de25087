//! Which native code is left before its end, run after run: its script begins in the interpreter. Other native code of the script, as new
//! hints give, has another key and begins anew.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use antares_abi::ArtifactKey;
use antares_pool::LeftEarly;
use antares_serve::Account;

use crate::limits::EARLY_LIBRARIES_MAX;

/// Libraries that were left, of each tenant for itself: what one runs slows nobody else down.
#[derive(Debug, Default)]
pub(crate) struct Early(Mutex<State>);

/// A library as one tenant runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Runs {
    library: ArtifactKey,
    holder: [u8; 32],
}

impl Runs {
    pub(crate) fn of(account: &Account, library: ArtifactKey) -> Self {
        Self { library, holder: account.holder() }
    }
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Runs, LeftEarly>,
    /// The same, each once, oldest first.
    order: VecDeque<Runs>,
}

impl Early {
    /// Whether a run begins in the interpreter, though this library is there.
    pub(crate) fn begins_interpreted(&self, runs: Runs) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.known.get_mut(&runs).is_some_and(LeftEarly::begins_interpreted)
    }

    /// Notes how a run with a library went: why it had to begin again, if it had.
    pub(crate) fn note(&self, runs: Runs, restarted: Option<&str>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.known.get(&runs).copied();
        match before.unwrap_or_default().after(restarted) {
            Some(known) => _ = state.known.insert(runs, known),
            None => _ = state.known.remove(&runs),
        }
        match (before.is_some(), state.known.contains_key(&runs)) {
            (false, true) => state.order.push_back(runs),
            (true, false) => state.order.retain(|other| *other != runs),
            _ => {}
        }
        if state.order.len() > EARLY_LIBRARIES_MAX
            && let Some(oldest) = state.order.pop_front()
        {
            state.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;
    use antares_pool::EARLY_RUNS_MIN;

    use super::*;

    fn library(number: usize) -> Runs {
        Runs::of(&Account::nobody(), Sha256Digest::of(&number.to_le_bytes()))
    }

    #[test]
    fn one_that_went_well_once_is_not_forgotten_early() {
        let early = Early::default();
        for restarted in [Some("unsupported"), None, Some("unsupported")] {
            early.note(library(0), restarted);
        }
        for number in 1..EARLY_LIBRARIES_MAX {
            early.note(library(number), Some("unsupported"));
        }
        for _ in 1..EARLY_RUNS_MIN {
            early.note(library(0), Some("unsupported"));
        }
        assert!(early.begins_interpreted(library(0)));
    }

    #[test]
    fn few_are_remembered() {
        let early = Early::default();
        for number in 0..3 * EARLY_LIBRARIES_MAX {
            early.note(library(number), Some("unsupported"));
            if number % 2 == 0 {
                early.note(library(number), None);
            }
        }
        let state = early.0.lock().unwrap();
        assert_eq!(state.order.len(), state.known.len());
        assert!(state.order.len() <= EARLY_LIBRARIES_MAX && state.known.len() <= EARLY_LIBRARIES_MAX);
    }
}
