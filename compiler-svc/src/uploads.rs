//! Incomplete uploads: their bytes are on the store's volume, within a total budget of which one tenant may
//! use half. An interrupted one can resume until it expires or others need its space.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_cache::{Cache, Incoming};
use antares_config::CompilerSection;
use antares_serve::{Fault, Metrics, chain, set_gauge};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use strum::{IntoStaticStr, VariantNames};
use tokio::sync::Semaphore;

/// Uploads in memory at once to be stored: the store accepts one at a time.
const STORING_MAX: usize = 1;

/// A tenant's share of a limit is one part in this many.
const TENANT_PARTS: u64 = 2;

/// Why an upload cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("the upload shall go on at byte {offset}, and {received} are here")]
    Offset { offset: u64, received: u64 },
    #[error("the header says {said} bytes, and the upload began with {began}")]
    Size { said: u64, began: u64 },
    #[error("another call goes on with this upload")]
    TakenOver,
    #[error("uploads that are not complete take as much room as they may: {whose}")]
    NoRoom { whose: &'static str },
    #[error("the volume of the store is full")]
    DiskFull,
    #[error("internal error")]
    Internal,
}

/// Why a partial upload was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum Dropped {
    Expired,
    Room,
}

/// Why an upload was refused for lack of space, for the metric.
const REFUSED: [&str; 2] = ["disk_full", "upload_bytes"];

/// All incomplete uploads.
pub(crate) struct Uploads {
    bytes_max: u64,
    partial_max: u64,
    keep: Duration,
    state: Mutex<State>,
    /// Permits for storing.
    pub(crate) storing: Semaphore,
    resumed: IntCounter,
    dropped: IntCounterVec,
    refused: IntCounterVec,
}

#[derive(Default)]
struct State {
    next: u64,
    partial: HashMap<u64, Partial>,
}

/// Lock order: the file, then the state.
struct Partial {
    holder: [u8; 32],
    script: Sha256Digest,
    size: u64,
    /// Charged bytes: those received, and the piece being written.
    bytes: u64,
    /// Number of the call that may write.
    turn: u64,
    /// End of its last call; none while one is in progress.
    idle_since: Option<Instant>,
    file: Arc<Mutex<Incoming>>,
}

/// Progress of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) size: u64,
}

/// The call that may write to an upload. Dropping it lets another call continue.
pub(crate) struct Writing {
    uploads: Arc<Uploads>,
    id: u64,
    turn: u64,
    file: Arc<Mutex<Incoming>>,
    /// Drops the bytes: the upload is complete or hopeless.
    pub(crate) is_over: bool,
}

impl Uploads {
    pub(crate) fn new(limits: &CompilerSection, metrics: &Metrics) -> Arc<Self> {
        let dropped = metrics.counters_of(
            "antares_uploads_dropped_total",
            "Uploads that broke off and were not gone on with, by why their bytes were dropped.",
            "reason",
            Dropped::VARIANTS,
        );
        let refused = metrics.counters_of(
            "antares_uploads_refused_total",
            "Uploads refused because a limit was reached, by limit.",
            "reason",
            &REFUSED,
        );
        let uploads = Arc::new(Self {
            bytes_max: limits.upload_bytes_max,
            partial_max: limits.partial_uploads_max as u64,
            keep: limits.upload_keep,
            state: Mutex::default(),
            storing: Semaphore::new(STORING_MAX),
            resumed: metrics
                .counter("antares_uploads_resumed_total", "Uploads that went on after they had broken off."),
            dropped,
            refused,
        });
        let count = metrics
            .gauge("antares_partial_uploads", "Uploads that are not complete, in progress or broken off.");
        let bytes = metrics.gauge(
            "antares_partial_upload_bytes",
            "Bytes of uploads that are not complete, on the volume of the store.",
        );
        let shown = Arc::downgrade(&uploads);
        metrics.before_scrape(move || {
            let Some(uploads) = shown.upgrade() else { return };
            let state = uploads.state.lock();
            set_gauge(&count, state.partial.len() as u64);
            set_gauge(&bytes, state.bytes(|_| true));
        });
        uploads
    }

    /// Counts what was refused for lack of space.
    pub(crate) fn fault(&self, error: UploadError) -> Fault {
        let reason = match &error {
            UploadError::DiskFull => Some(REFUSED[0]),
            UploadError::NoRoom { .. } => Some(REFUSED[1]),
            _ => None,
        };
        reason.into_iter().for_each(|reason| self.refused.with_label_values(&[reason]).inc());
        error.into()
    }

    /// Starts an upload of `size` bytes, or continues one at `offset`. Blocks on the disk.
    pub(crate) fn begin(
        self: &Arc<Self>,
        cache: &Cache,
        (holder, script): ([u8; 32], Sha256Digest),
        size: u64,
        offset: u64,
    ) -> Result<Writing, UploadError> {
        if offset > 0 {
            return self.resume((holder, script), size, offset);
        }
        let file = cache.incoming().map_err(|error| {
            tracing::error!(error = chain(&error), "an upload has no place");
            UploadError::DiskFull
        })?;
        let mut state = self.state.lock();
        // An upload from the start does not need an interrupted one.
        state.partial.retain(|_, one| !one.is_of(holder, script) || one.idle_since.is_none());
        let count = |state: &State, of: &dyn Fn(&Partial) -> bool| {
            1 + state.partial.values().filter(|one| of(one)).count() as u64
        };
        self.evict_for_space(&mut state, holder, self.partial_max, count)?;
        let id = state.next;
        state.next += 1;
        let file = Arc::new(Mutex::new(file));
        let partial =
            Partial { holder, script, size, bytes: 0, turn: 0, idle_since: None, file: file.clone() };
        state.partial.insert(id, partial);
        Ok(Writing { uploads: self.clone(), id, turn: 0, file, is_over: false })
    }

    fn resume(
        self: &Arc<Self>,
        (holder, script): ([u8; 32], Sha256Digest),
        size: u64,
        offset: u64,
    ) -> Result<Writing, UploadError> {
        let nothing = UploadError::Offset { offset, received: 0 };
        let found = self.state.lock().longest(holder, script).map(|(id, one)| (id, one.file.clone()));
        let Some((id, file)) = found else { return Err(nothing) };
        // Waits for writes of the previous call.
        let held = file.lock();
        let mut state = self.state.lock();
        let Some(partial) = state.partial.get_mut(&id) else { return Err(nothing) };
        if partial.size != size {
            return Err(UploadError::Size { said: size, began: partial.size });
        }
        if offset != held.bytes() {
            return Err(UploadError::Offset { offset, received: held.bytes() });
        }
        partial.turn += 1;
        partial.idle_since = None;
        let turn = partial.turn;
        drop(state);
        drop(held);
        self.resumed.inc();
        Ok(Writing { uploads: self.clone(), id, turn, file, is_over: false })
    }

    /// Progress of the upload of `script`.
    pub(crate) fn received(&self, holder: [u8; 32], script: Sha256Digest) -> Option<Received> {
        let state = self.state.lock();
        state.longest(holder, script).map(|(_, one)| Received { bytes: one.bytes, size: one.size })
    }

    /// Bytes of `holder`'s incomplete uploads, except of `script`.
    pub(crate) fn bytes_of_others(&self, holder: [u8; 32], script: Sha256Digest) -> u64 {
        self.state.lock().bytes(|one| one.holder == holder && one.script != script)
    }

    /// Drops expired uploads.
    pub(crate) fn expire(&self) {
        let mut state = self.state.lock();
        let expired = |one: &Partial| one.idle_since.is_some_and(|since| since.elapsed() >= self.keep);
        let gone: Vec<_> = state.partial.extract_if(|_, one| expired(one)).collect();
        drop(state);
        self.dropped.with_label_values(&[Dropped::Expired.into_str()]).inc_by(gone.len() as u64);
    }

    /// Drops idle uploads, oldest first, until `used` fits into `max` for all and a part of it for `holder`.
    fn evict_for_space(
        &self,
        state: &mut State,
        holder: [u8; 32],
        max: u64,
        used: impl Fn(&State, &dyn Fn(&Partial) -> bool) -> u64,
    ) -> Result<(), UploadError> {
        let is_mine = |one: &Partial| one.holder == holder;
        while used(state, &is_mine) > (max / TENANT_PARTS).max(1) {
            self.drop_idle(state, is_mine).ok_or(UploadError::NoRoom { whose: "those of this tenant" })?;
        }
        while used(state, &|_| true) > max {
            self.drop_idle(state, |_| true).ok_or(UploadError::NoRoom { whose: "all together" })?;
        }
        Ok(())
    }

    fn drop_idle(&self, state: &mut State, of: impl Fn(&Partial) -> bool) -> Option<()> {
        let idle = state.partial.iter().filter(|(_, one)| of(one));
        let (_, id) = idle.filter_map(|(id, one)| Some((one.idle_since?, *id))).min()?;
        state.partial.remove(&id);
        self.dropped.with_label_values(&[Dropped::Room.into_str()]).inc();
        Some(())
    }
}

impl State {
    fn bytes(&self, of: impl Fn(&Partial) -> bool) -> u64 {
        self.partial.values().filter(|one| of(one)).map(|one| one.bytes).sum()
    }

    fn longest(&self, holder: [u8; 32], script: Sha256Digest) -> Option<(u64, &Partial)> {
        let of = self.partial.iter().filter(|(_, one)| one.is_of(holder, script));
        of.max_by_key(|(id, one)| (one.bytes, **id)).map(|(id, one)| (*id, one))
    }
}

impl Partial {
    fn is_of(&self, holder: [u8; 32], script: Sha256Digest) -> bool {
        self.holder == holder && self.script == script
    }
}

impl Writing {
    /// Adds `piece`; returns the received bytes. Blocks on the disk.
    pub(crate) fn add(&self, cache: &Cache, piece: &[u8]) -> Result<u64, UploadError> {
        let mut file = self.file.lock();
        let more = piece.len() as u64;
        if !cache.has_free(more) {
            return Err(UploadError::DiskFull);
        }
        self.charge(more)?;
        let added = file.add(piece);
        if let Some(partial) = self.uploads.state.lock().partial.get_mut(&self.id) {
            partial.bytes = file.bytes();
        }
        added.map(|()| file.bytes()).map_err(|error| {
            tracing::error!(error = chain(&error), "a piece of an upload was not written");
            UploadError::DiskFull
        })
    }

    fn charge(&self, more: u64) -> Result<(), UploadError> {
        let uploads = &self.uploads;
        let mut state = uploads.state.lock();
        let mine = state.partial.get(&self.id).filter(|one| one.turn == self.turn);
        let holder = mine.ok_or(UploadError::TakenOver)?.holder;
        let used = |state: &State, of: &dyn Fn(&Partial) -> bool| state.bytes(of).saturating_add(more);
        uploads.evict_for_space(&mut state, holder, uploads.bytes_max, used)?;
        if let Some(partial) = state.partial.get_mut(&self.id) {
            partial.bytes = partial.bytes.saturating_add(more);
        }
        Ok(())
    }

    /// The number of received bytes, and their digest. Blocks on the disk.
    pub(crate) fn digest(&self) -> (u64, Sha256Digest) {
        let file = self.file.lock();
        (file.bytes(), Sha256Digest(file.sha256()))
    }

    /// The first `most` bytes, or all. Blocks on the disk.
    pub(crate) fn read(&self, most: u64) -> Result<Vec<u8>, UploadError> {
        self.file.lock().read(most).map_err(|error| {
            tracing::error!(error = chain(&error), "an upload cannot be read");
            UploadError::Internal
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.uploads.state.lock();
        let Some(partial) = state.partial.get_mut(&self.id) else { return };
        if self.is_over {
            state.partial.remove(&self.id);
        } else if partial.turn == self.turn {
            partial.idle_since = Some(Instant::now());
            let (holder, script, is_empty) = (partial.holder, partial.script, partial.bytes == 0);
            let longest = state.longest(holder, script).map(|(id, _)| id);
            if is_empty || longest != Some(self.id) {
                state.partial.remove(&self.id);
            }
        }
    }
}
