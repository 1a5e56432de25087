//! Recovery from a failed store in an open cache: close it, then reopen it or replace it by an empty one.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::{
    error::{CacheError, StoreError},
    inner::{Inner, Live, Writer, load},
    opening::{How, open_or_replace},
    stats::{CacheState, count},
    store::close,
};

/// Pause between two attempts to open a store or to rebuild one in doubt.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Inner {
    /// Recovers from `failure` of store `number`. Does nothing if the store has been replaced in the
    /// meantime.
    pub(crate) fn recover(&self, writer: &mut Writer, number: u64, failure: &StoreError) {
        count(&self.counters.store_errors);
        let store = {
            let mut live = self.live.write();
            if live.number != number || live.store.is_none() {
                return;
            }
            live.state = CacheState::Unavailable;
            live.store.take()
        };
        tracing::error!(store = number, error = %failure, "the store of the cache failed and is closed");
        let is_damaged = !matches!(failure, StoreError::Io(_) | StoreError::Unsynced(_));
        if matches!(failure, StoreError::Unsynced(_)) {
            self.doubted.store(number, Ordering::Relaxed);
            self.layout.doubt(number);
        }
        if let Some(store) = store {
            close(store);
        }
        if is_damaged {
            self.set_aside(number);
        }
        writer.retry_at = None;
        self.revive(writer);
    }

    /// Opens a store if there is none and a retry is due.
    pub(crate) fn revive(&self, writer: &mut Writer) {
        if self.store().is_some() || writer.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        if let Err(error) = self.reopen(writer) {
            tracing::error!(%error, "the cache has no store and goes on without one");
            writer.retry_at = Some(Instant::now() + RETRY_PAUSE);
        }
    }

    fn reopen(&self, writer: &mut Writer) -> Result<(), CacheError> {
        let opened = open_or_replace(&self.layout)?;
        let loaded = load(&*opened.store, &mut self.account.lock(), &mut writer.failures);
        if let Err(source) = loaded {
            close(opened.store);
            self.set_aside(opened.number);
            return Err(CacheError::Open { dir: self.config.dir.clone(), source });
        }
        if opened.how == How::Replaced {
            count(&self.counters.set_aside);
        }
        if self.layout.is_in_doubt(opened.number) {
            self.doubted.store(opened.number, Ordering::Relaxed);
        }
        let rebuilt = opened.how != How::Found;
        let mut live = self.live.write();
        let state = if rebuilt { CacheState::Rebuilt } else { CacheState::Ready };
        *live = Live { store: Some(opened.store), number: opened.number, state };
        Ok(())
    }

    /// Quarantines the files of a store and empties the account.
    fn set_aside(&self, number: u64) {
        count(&self.counters.set_aside);
        self.account.lock().reload(&[]);
        if let Err(error) = self.layout.quarantine(number) {
            tracing::error!(%error, store = number, "the store could not be set aside and is removed");
            drop(self.layout.discard(number));
        }
    }
}
