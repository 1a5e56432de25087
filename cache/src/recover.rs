//! Recovery from a failed store in an open cache: close it, then reopen it or replace it by an empty one.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::{
    error::{CacheError, StoreError},
    inner::{Inner, Live, Writer},
    layout::close,
    lock::claim,
    sled_store::SledStore,
};

/// Pause between two attempts to open a store or to rebuild one in doubt.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Inner {
    /// Opens the first store. A volume that fails or is full is retried later.
    pub(crate) fn begin(&self) -> Result<(), CacheError> {
        let mut writer = self.writer.lock();
        // The first attempt may have set a store aside that cannot be read.
        let opened = self.reopen(&mut writer).or_else(|error| match error {
            CacheError::Open { .. } => self.reopen(&mut writer),
            other => Err(other),
        });
        opened.or_else(|error| error.may_pass().then(|| self.go_without(&mut writer, &error)).ok_or(error))
    }

    fn go_without(&self, writer: &mut Writer, error: &CacheError) {
        tracing::error!(%error, "the cache has no store and goes on without one");
        writer.retry_at = Some(Instant::now() + RETRY_PAUSE);
    }

    /// Recovers from `failure` of store `number`. Does nothing if the store has been replaced in the
    /// meantime.
    pub(crate) fn recover(&self, writer: &mut Writer, number: u64, failure: &StoreError) {
        self.counters.lock().store_errors += 1;
        let store = {
            let mut live = self.live.write();
            if live.number != number || live.store.is_none() {
                return;
            }
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
            self.go_without(writer, &error);
        }
    }

    fn reopen(&self, writer: &mut Writer) -> Result<(), CacheError> {
        if self.lock.get().is_none() {
            // Nobody else sets it: the caller has the only writer.
            let _ = self.lock.set(claim(&self.config)?);
        }
        let opened = self.layout.open_or_replace()?;
        self.counters.lock().set_aside += u64::from(opened.is_replaced);
        if let Err(source) = self.load(&opened.store, writer) {
            tracing::error!(error = %source, "the store cannot be read; it is set aside");
            close(opened.store);
            self.set_aside(opened.number);
            return Err(self.layout.not_open(source));
        }
        if self.layout.is_in_doubt(opened.number) {
            self.doubted.store(opened.number, Ordering::Relaxed);
        }
        *self.live.write() = Live { store: Some(opened.store), number: opened.number };
        Ok(())
    }

    /// Loads the contents of a store into the account and the failure book.
    fn load(&self, store: &SledStore, writer: &mut Writer) -> Result<(), StoreError> {
        let mut account = self.account.lock();
        account.reload(&store.entries()?);
        account.reload_pins(store.pinned()?);
        writer.failures.reload(&store.failures()?);
        // The total on disk is informational; the account is authoritative. They differ only after a crash
        // between two transactions of one eviction.
        let written = store.total_bytes()?;
        if written != account.charged_bytes() {
            tracing::info!(
                written,
                counted = account.charged_bytes(),
                "the total of the cache is counted anew"
            );
        }
        Ok(())
    }

    /// Quarantines the files of a store and empties the account.
    fn set_aside(&self, number: u64) {
        self.counters.lock().set_aside += 1;
        self.account.lock().reload(&[]);
        if let Err(error) = self.layout.quarantine(number) {
            tracing::error!(%error, store = number, "the store could not be set aside and is removed");
            drop(self.layout.discard(number));
        }
    }
}
