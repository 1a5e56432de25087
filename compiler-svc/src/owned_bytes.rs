//! Bytes stored by each tenant, and reserved by its uploads in progress.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use antares_serve::Fault;
use parking_lot::Mutex;

/// Interval between recounts of the marks of a tenant over its quota.
const RECOUNT: Duration = Duration::from_secs(1);

/// Tenants tracked at once, without those with uploads in progress.
const COUNTED_MAX: usize = 4_096;

/// Bytes stored and reserved, by tenant.
#[derive(Debug, Default)]
pub(crate) struct Owned(Mutex<HashMap<[u8; 32], Usage>>);

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    stored: u64,
    reserved: u64,
    /// All reserved bytes that have since been stored. A concurrent count may miss them.
    settled: u64,
    /// When `stored` was counted; none before the first count.
    counted_at: Option<Instant>,
}

impl Owned {
    /// Reserves `more` for `holder`, unless `too_much` refuses its total. None if its marks must be counted
    /// first.
    pub(crate) fn take(
        &self,
        holder: [u8; 32],
        more: u64,
        too_much: impl Fn(u64) -> Option<Fault>,
    ) -> Option<Result<(), Fault>> {
        let mut usage = self.0.lock();
        let found = usage.get_mut(&holder)?;
        let counted_at = found.counted_at?;
        match too_much(found.stored.saturating_add(found.reserved)) {
            Some(_) if counted_at.elapsed() >= RECOUNT => None,
            Some(fault) => Some(Err(fault)),
            None => {
                found.reserved = found.reserved.saturating_add(more);
                Some(Ok(()))
            }
        }
    }

    /// Returns reserved `bytes` that were not stored.
    pub(crate) fn release(&self, holder: [u8; 32], bytes: u64) {
        if let Some(found) = self.0.lock().get_mut(&holder) {
            found.reserved = found.reserved.saturating_sub(bytes);
        }
    }

    /// Turns reserved `bytes` into stored ones.
    pub(crate) fn settle(&self, holder: [u8; 32], bytes: u64) {
        if let Some(found) = self.0.lock().get_mut(&holder) {
            found.reserved = found.reserved.saturating_sub(bytes);
            found.stored = found.stored.saturating_add(bytes);
            found.settled = found.settled.saturating_add(bytes);
        }
    }

    /// Starts a count of the marks of `holder`. Returns a value for [`Owned::counted`].
    pub(crate) fn begin_count(&self, holder: [u8; 32]) -> u64 {
        let mut usage = self.0.lock();
        if usage.len() >= COUNTED_MAX {
            usage.retain(|_, usage| usage.reserved > 0);
        }
        usage.entry(holder).or_default().settled
    }

    /// Ends a count that found `bytes`. Adds bytes settled since its start: the count may have missed them.
    pub(crate) fn counted(&self, holder: [u8; 32], begun: u64, bytes: u64) {
        let mut usage = self.0.lock();
        let found = usage.entry(holder).or_default();
        found.stored = bytes.saturating_add(found.settled.saturating_sub(begun));
        found.counted_at = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: [u8; 32] = [7; 32];

    fn of(owned: &Owned) -> (u64, u64) {
        let usage = owned.0.lock()[&OWNER];
        (usage.stored, usage.reserved)
    }

    #[test]
    fn a_count_forgets_no_upload_in_progress() {
        let owned = Owned::default();
        let [first, second] = [(); 2].map(|()| owned.begin_count(OWNER));
        owned.counted(OWNER, first, 100);
        owned.0.lock().get_mut(&OWNER).unwrap().reserved = 30;
        // Another call counts concurrently.
        owned.counted(OWNER, second, 100);
        assert_eq!(of(&owned), (100, 30));
        owned.release(OWNER, 10);
        owned.settle(OWNER, 20);
        assert_eq!(of(&owned), (120, 0));
    }

    #[test]
    fn what_is_stored_during_a_count_is_in_its_sum() {
        let owned = Owned::default();
        let begun = owned.begin_count(OWNER);
        owned.0.lock().get_mut(&OWNER).unwrap().reserved = 30;
        owned.settle(OWNER, 30);
        owned.counted(OWNER, begun, 100);
        assert_eq!(of(&owned), (130, 0));
        let begun = owned.begin_count(OWNER);
        owned.counted(OWNER, begun, 130);
        assert_eq!(of(&owned), (130, 0));
    }

    #[test]
    fn what_is_reserved_and_what_is_stored_count() {
        let owned = Owned::default();
        owned.counted(OWNER, 0, 40);
        let take = |more| {
            let too_much = |has| (has + more > 100).then(|| Fault::unauthenticated("FULL", "full"));
            matches!(owned.take(OWNER, more, too_much), Some(Ok(())))
        };
        assert!(take(60));
        assert!(!take(1), "an upload is in progress");
        owned.release(OWNER, 30);
        assert!(take(30));
        owned.settle(OWNER, 60);
        assert!(!take(1), "all is stored");
    }

    #[test]
    fn many_tenants_displace_no_reservation() {
        let owned = Owned::default();
        owned.begin_count(OWNER);
        owned.0.lock().get_mut(&OWNER).unwrap().reserved = 1;
        for number in 0..=COUNTED_MAX {
            let mut other = [0; 32];
            other[..8].copy_from_slice(&number.to_le_bytes());
            owned.begin_count(other);
        }
        assert!(owned.0.lock().len() <= COUNTED_MAX);
        assert_eq!(of(&owned), (0, 1));
    }
}
