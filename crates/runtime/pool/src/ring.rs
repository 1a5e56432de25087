//! The protocol of a ring of bytes: how many bytes each side may read or write, and when to sleep and wake.
//! Memory and system calls are elsewhere; a model of this code tests all interleavings.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of each ring.
pub(crate) const RING_BYTES: usize = 64 << 10;

/// The other side's positions are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the places of the line make no sense")]
pub(crate) struct Spoiled;

/// A shared number with a total order of all operations. A side that announces its sleep and then polls thus
/// misses no change that the other side made before it checked for sleepers.
pub(crate) trait Shared {
    fn load(&self) -> u32;
    fn store(&self, number: u32);
    /// Adds one.
    fn bump(&self);
}

impl Shared for AtomicU32 {
    fn load(&self) -> u32 {
        self.load(Ordering::SeqCst)
    }

    fn store(&self, number: u32) {
        self.store(number, Ordering::SeqCst);
    }

    fn bump(&self) {
        self.fetch_add(1, Ordering::SeqCst);
    }
}

/// Written and read bytes of a ring since its beginning, modulo 2^32. The other side may write arbitrary
/// values; each side trusts only its own copy of its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions<'a, N> {
    pub(crate) written: &'a N,
    pub(crate) read: &'a N,
}

impl<N: Shared> Positions<'_, N> {
    /// Readable bytes for a side that has read up to `read`.
    pub(crate) fn readable(&self, read: u32) -> Result<usize, Spoiled> {
        distance(read, self.written.load())
    }

    /// Writable bytes for a side that has written up to `written`.
    pub(crate) fn writable(&self, written: u32) -> Result<usize, Spoiled> {
        Ok(RING_BYTES - distance(self.read.load(), written)?)
    }
}

/// Where one side sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell<'a, N> {
    pub(crate) rung: &'a N,
    /// Event to wait for, a sum of bits; 0 while awake.
    pub(crate) waits_for: &'a N,
}

impl<'a, N: Shared> Bell<'a, N> {
    /// Wakes the side that sleeps here, if it waits for `what`, which is available now.
    pub(crate) fn ring(&self, what: u32, wake: impl FnOnce(&'a N)) {
        if self.waits_for.load() & what != 0 {
            self.ring_anyway(wake);
        }
    }

    /// Wakes the side that sleeps here.
    pub(crate) fn ring_anyway(&self, wake: impl FnOnce(&'a N)) {
        self.rung.bump();
        wake(self.rung);
    }

    /// Sleeps until `what` is rung for, unless `is_ready` is true. `sleep` receives the location and its
    /// expected value; it may return early.
    pub(crate) fn wait(&self, what: u32, is_ready: impl FnOnce() -> bool, sleep: impl FnOnce(&'a N, u32)) {
        let seen = self.rung.load();
        self.waits_for.store(what);
        // From here on, the other side sees that this side waits, and rings after each change.
        if !is_ready() {
            sleep(self.rung, seen);
        }
        self.waits_for.store(0);
    }
}

/// Bytes from one position to another.
fn distance(from: u32, to: u32) -> Result<usize, Spoiled> {
    let bytes = to.wrapping_sub(from) as usize;
    if bytes <= RING_BYTES { Ok(bytes) } else { Err(Spoiled) }
}

/// Ring offset of a position.
pub(crate) fn offset(place: u32) -> usize {
    place as usize % RING_BYTES
}

/// The position `count` bytes after `place`.
pub(crate) fn advanced(place: u32, count: usize) -> u32 {
    assert!(count <= RING_BYTES, "{count} bytes are more than a ring has");
    place.wrapping_add(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
