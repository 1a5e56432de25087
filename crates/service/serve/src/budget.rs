//! A budget of slots or bytes: a total, a limit for each owner, and a reserve for owners that hold little.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use antares_config::{RESERVE_PARTS, open_max};
use parking_lot::Mutex;

/// An owner holds little up to one part in this many of the reserve.
const NEWCOMERS: u64 = 4;

/// Why nothing more is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The whole budget is used up, or all but the reserve.
    All,
    /// The owner's share is used up.
    Share,
}

/// Grants by owner.
#[derive(Debug)]
pub(crate) struct Budget<K> {
    max: u64,
    share_max: u64,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    total: u64,
    held: HashMap<K, u64>,
}

/// A part of the budget; returned on drop.
#[derive(Debug)]
pub(crate) struct Grant<K: Eq + Hash + Clone> {
    budget: Arc<Budget<K>>,
    holder: K,
    amount: AtomicU64,
}

impl<K: Eq + Hash + Clone> Budget<K> {
    /// `max` in total and `share_max` for one owner.
    pub(crate) fn new(max: u64, share_max: u64) -> Self {
        Self { max, share_max, state: Mutex::new(State { total: 0, held: HashMap::new() }) }
    }

    /// Grants `amount` to `holder`, or nothing.
    pub(crate) fn take(self: &Arc<Self>, holder: &K, amount: u64) -> Result<Grant<K>, Spent> {
        self.add(holder, amount)?;
        Ok(Grant { budget: self.clone(), holder: holder.clone(), amount: amount.into() })
    }

    /// Current grants to all.
    pub(crate) fn total(&self) -> u64 {
        self.state.lock().total
    }

    fn add(&self, holder: &K, amount: u64) -> Result<(), Spent> {
        if amount == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        let held = state.held.get(holder).copied().unwrap_or(0).saturating_add(amount);
        let total = state.total.saturating_add(amount);
        if held > self.share_max {
            return Err(Spent::Share);
        }
        let is_little = held <= self.max / RESERVE_PARTS / NEWCOMERS;
        if total > self.max || total > open_max(self.max) && !is_little {
            return Err(Spent::All);
        }
        state.total = total;
        state.held.insert(holder.clone(), held);
        Ok(())
    }

    fn give_back(&self, holder: &K, amount: u64) {
        let mut state = self.state.lock();
        state.total -= amount;
        if let Some(held) = state.held.get_mut(holder) {
            *held -= amount;
            if *held == 0 {
                state.held.remove(holder);
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Grant<K> {
    /// Adds `amount` to the grant, or nothing.
    pub(crate) fn grow(&self, amount: u64) -> Result<(), Spent> {
        self.budget.add(&self.holder, amount)?;
        self.amount.fetch_add(amount, Ordering::Relaxed);
        Ok(())
    }

    /// Returns everything above `amount`.
    pub(crate) fn shrink_to(&self, amount: u64) {
        let before = self.amount.fetch_min(amount, Ordering::Relaxed);
        if before > amount {
            self.budget.give_back(&self.holder, before - amount);
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Grant<K> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_its_share_and_others_the_reserve() {
        let budget = Arc::new(Budget::new(64, 40));
        let first = budget.take(&'a', 40).unwrap();
        assert_eq!(first.grow(1).unwrap_err(), Spent::Share);
        let second = budget.take(&'b', 16).unwrap();
        // 8 remain, for owners of at most 2.
        assert_eq!(second.grow(1).unwrap_err(), Spent::All);
        assert_eq!(budget.take(&'c', 3).unwrap_err(), Spent::All);
        let newcomers: Vec<_> =
            ['c', 'd', 'e', 'f'].iter().map(|name| budget.take(name, 2).unwrap()).collect();
        assert_eq!(budget.take(&'g', 1).unwrap_err(), Spent::All);
        drop(newcomers);
        first.shrink_to(0);
        assert_eq!(budget.total(), 16);
        second.grow(24).unwrap();
        drop((first, second));
        assert_eq!((budget.total(), budget.state.lock().held.len()), (0, 0));
    }

    #[test]
    fn a_budget_without_room_for_a_reserve_is_used_up() {
        let budget = Arc::new(Budget::new(1, 1));
        let one = budget.take(&(), 1).unwrap();
        assert!(budget.take(&(), 1).is_err());
        drop(one);
        assert!(budget.take(&(), 1).is_ok());
    }
}
