//! The index of remembered failures: their number, and which expires first.

use std::collections::{BTreeSet, HashMap};

use crate::manifest::FailureRecord;

/// Tolerance in seconds for records from the future. Machines' clocks are corrected in small steps all the
/// time; a record further ahead means that the clock jumped back, and the record is void.
const CLOCK_SLACK_SECONDS: u64 = 60;

/// Keys of the remembered failures, ordered by expiry.
#[derive(Debug, Default)]
pub(crate) struct FailureBook {
    expiry: HashMap<[u8; 32], u64>,
    order: BTreeSet<(u64, [u8; 32])>,
}

impl FailureBook {
    /// Replaces the contents with the failures of a store.
    pub(crate) fn reload(&mut self, failures: &[([u8; 32], u64)]) {
        *self = Self::default();
        for &(key, expires_at) in failures {
            self.add(key, expires_at);
        }
    }

    pub(crate) fn add(&mut self, key: [u8; 32], expires_at: u64) {
        if let Some(earlier) = self.expiry.insert(key, expires_at) {
            self.order.remove(&(earlier, key));
        }
        self.order.insert((expires_at, key));
    }

    fn remove(&mut self, key: [u8; 32]) -> bool {
        let Some(expires_at) = self.expiry.remove(&key) else { return false };
        self.order.remove(&(expires_at, key))
    }

    /// Takes a key that has expired at `now`, or the one that expires first if there are more than
    /// `entries_max`.
    pub(crate) fn pop_due(&mut self, now: u64, entries_max: usize) -> Option<[u8; 32]> {
        let &(expires_at, key) = self.order.first()?;
        if expires_at > now && self.order.len() <= entries_max {
            return None;
        }
        self.remove(key);
        Some(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

/// Whether a record is valid at `now`, in seconds since 1970. A record from the future is not: after a jump
/// of the clock its lifetime is meaningless.
pub(crate) fn is_valid(record: &FailureRecord, now: u64) -> bool {
    now < record.expires_at && record.created_at <= now.saturating_add(CLOCK_SLACK_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expired_go_first_then_the_soonest() {
        let mut book = FailureBook::default();
        book.reload(&[([1; 32], 10), ([2; 32], 30), ([3; 32], 20)]);
        assert_eq!(book.pop_due(15, 10), Some([1; 32]));
        assert_eq!(book.pop_due(15, 10), None);
        assert_eq!(book.pop_due(15, 1), Some([3; 32]));
        book.add([2; 32], 5);
        assert_eq!(book.len(), 1);
        assert_eq!(book.pop_due(6, 10), Some([2; 32]));
        assert_eq!(book.pop_due(u64::MAX, 0), None);
    }

    #[test]
    fn lifetimes_survive_jumps_of_the_clock() {
        let record = FailureRecord::new(1_000, 1_600, "timeout", "");
        assert!(is_valid(&record, 1_000));
        assert!(is_valid(&record, 990), "a small step back is normal");
        assert!(!is_valid(&record, 1_600));
        assert!(!is_valid(&record, 0), "years back");
        assert!(!is_valid(&record, u64::MAX), "years ahead");
    }
}
