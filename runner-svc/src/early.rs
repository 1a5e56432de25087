//! Native code that is left before its end, run after run, and cannot be helped by what runs teach: its script begins in the interpreter,
//! which would run all of it anyway. Now and then native code is tried again, since other inputs may go elsewhere. Other native code of the
//! script, as new hints give, has another key and begins anew.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use antares_abi::ArtifactKey;
use antares_pool::job::{RunReport, Tier};
use antares_serve::Account;

use crate::{
    execute::{Native, Origin, Shared},
    limits::{EARLY_LIBRARIES_MAX, EARLY_RUNS_MIN, EARLY_TRY_ONE_IN},
    source::Fallback,
};

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
    known: HashMap<Runs, Known>,
    /// Oldest first; those that are known no more too.
    order: VecDeque<Runs>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Runs in a row that were left.
    left: u32,
    /// Runs that began in the interpreter since.
    spared: u32,
}

impl Early {
    /// Whether a run begins in the interpreter, though this library is there.
    pub(crate) fn begins_interpreted(&self, runs: Runs) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = state.known.get_mut(&runs).filter(|known| known.left >= EARLY_RUNS_MIN) else {
            return false;
        };
        known.spared = known.spared.wrapping_add(1);
        !known.spared.is_multiple_of(EARLY_TRY_ONE_IN)
    }

    /// Notes how a run with a library went: why it had to begin again, if it had. A limit of cycles says nothing of the library.
    pub(crate) fn note(&self, runs: Runs, restarted: Option<&str>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match restarted {
            Some("out_of_cycles") => {}
            None => drop(state.known.remove(&runs)),
            Some(_) => {
                if !state.known.contains_key(&runs) {
                    state.order.push_back(runs);
                    if state.order.len() > EARLY_LIBRARIES_MAX
                        && let Some(oldest) = state.order.pop_front()
                    {
                        state.known.remove(&oldest);
                    }
                }
                let known = state.known.entry(runs).or_default();
                known.left = known.left.saturating_add(1);
            }
        }
    }
}

impl Shared {
    /// Notes whether a run left its native code before its end.
    pub(crate) fn note_left(&self, account: &Account, native: Option<Origin>, report: &RunReport) {
        if let Some(native) = native {
            self.early.note(Runs::of(account, native.key), report.restarted.as_deref());
        }
    }

    /// Native code, unless it is known to be left before its end.
    pub(crate) fn unless_left_early(
        &self,
        account: &Account,
        tier: Tier,
        (native, fallback): (Option<Native>, Option<Fallback>),
    ) -> (Option<Native>, Option<Fallback>) {
        let runs = native.as_ref().map(|native| Runs::of(account, native.key));
        if tier != Tier::Auto || !runs.is_some_and(|runs| self.early.begins_interpreted(runs)) {
            return (native, fallback);
        }
        self.metrics.note_fallback(Fallback::LeavesEarly);
        (None, Some(Fallback::LeavesEarly))
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn library(number: usize) -> Runs {
        Runs::of(&Account::nobody(), Sha256Digest::of(&number.to_le_bytes()))
    }

    #[test]
    fn what_is_left_again_and_again_is_tried_now_and_then() {
        let early = Early::default();
        for _ in 0..EARLY_RUNS_MIN {
            assert!(!early.begins_interpreted(library(1)));
            early.note(library(1), Some("unknown_target"));
            early.note(library(1), Some("out_of_cycles"));
            early.note(library(2), Some("out_of_cycles"));
        }
        assert!(!early.begins_interpreted(library(2)));
        let tried = (0..4 * EARLY_TRY_ONE_IN).filter(|_| !early.begins_interpreted(library(1)));
        assert_eq!(tried.count(), 4);
        early.note(library(1), None);
        assert!(!early.begins_interpreted(library(1)));
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
        assert!(state.order.len() <= EARLY_LIBRARIES_MAX && state.known.len() <= EARLY_LIBRARIES_MAX);
    }
}
