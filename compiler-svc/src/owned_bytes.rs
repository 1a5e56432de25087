//! How much each tenant has stored.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use antares_serve::{Account, Fault};

/// How often the marks of a tenant that has too much are counted again.
const RECOUNT: Duration = Duration::from_secs(1);

/// Tenants whose bytes are known at once.
const COUNTED_MAX: usize = 4_096;

/// Bytes stored, by tenant.
#[derive(Debug, Default)]
pub(crate) struct Owned(Mutex<HashMap<[u8; 32], Counted>>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: u64,
    at: Instant,
}

impl Owned {
    fn counted(&self) -> MutexGuard<'_, HashMap<[u8; 32], Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `more` to what `account` has, unless that is too much.
    pub(crate) fn take(&self, account: &Account, more: u64) -> Option<Result<(), Fault>> {
        let mut counted = self.counted();
        let found = counted.get_mut(&account.holder())?;
        match account.stored_too_much(found.bytes, more) {
            Some(_) if found.at.elapsed() >= RECOUNT => None,
            Some(fault) => Some(Err(fault)),
            None => {
                found.bytes = found.bytes.saturating_add(more);
                Some(Ok(()))
            }
        }
    }

    pub(crate) fn give_back(&self, account: &Account, bytes: u64) {
        if let Some(found) = self.counted().get_mut(&account.holder()) {
            found.bytes = found.bytes.saturating_sub(bytes);
        }
    }

    pub(crate) fn set(&self, holder: [u8; 32], bytes: u64) {
        let mut counted = self.counted();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        counted.insert(holder, Counted { bytes, at: Instant::now() });
    }
}
