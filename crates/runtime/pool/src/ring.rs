//! How two sides share a ring of bytes, and sleep and wake each other: who may read or write how much, and
//! who has to be woken. Memory, its bytes and the system call are others'; a model of the rest tries all
//! orders.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of each ring.
pub(crate) const RING_BYTES: usize = 64 << 10;

/// The other side's places make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the places of the line make no sense")]
pub(crate) struct Spoiled;

/// A number that both sides see. All that is done to it has one order, which both agree on: a side that says
/// that it sleeps and then looks misses nothing that the other did before it looked whether anybody sleeps.
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

/// How far a ring was written and read, in bytes since its beginning, modulo 2^32. The other side may write
/// anything there; a side's own place is what it remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions<'a, N> {
    pub(crate) written: &'a N,
    pub(crate) read: &'a N,
}

impl<N: Shared> Positions<'_, N> {
    /// Bytes that can be read by who has read up to `read`.
    pub(crate) fn readable(&self, read: u32) -> Result<usize, Spoiled> {
        distance(read, self.written.load())
    }

    /// Bytes that can be written by who has written up to `written`.
    pub(crate) fn writable(&self, written: u32) -> Result<usize, Spoiled> {
        Ok(RING_BYTES - distance(self.read.load(), written)?)
    }
}

/// Where one side sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell<'a, N> {
    pub(crate) rung: &'a N,
    /// What it waits for, a sum of bits; 0 while it is awake.
    pub(crate) waits_for: &'a N,
}

impl<'a, N: Shared> Bell<'a, N> {
    /// Has the side woken that sleeps here, if it waits for `what`, which it can have by now.
    pub(crate) fn ring(&self, what: u32, wake: impl FnOnce(&'a N)) {
        if self.waits_for.load() & what != 0 {
            self.ring_anyway(wake);
        }
    }

    /// Has the side woken that sleeps here.
    pub(crate) fn ring_anyway(&self, wake: impl FnOnce(&'a N)) {
        self.rung.bump();
        wake(self.rung);
    }

    /// Sleeps until `what` is rung for, unless `is_ready` says that it is there. `sleep` gets where, and what
    /// must still stand there; it may return early.
    pub(crate) fn wait(&self, what: u32, is_ready: impl FnOnce() -> bool, sleep: impl FnOnce(&'a N, u32)) {
        let seen = self.rung.load();
        self.waits_for.store(what);
        // Whoever changes something from here on sees that it is waited for, and rings.
        if !is_ready() {
            sleep(self.rung, seen);
        }
        self.waits_for.store(0);
    }
}

/// Bytes from one place to another.
fn distance(from: u32, to: u32) -> Result<usize, Spoiled> {
    let bytes = to.wrapping_sub(from) as usize;
    if bytes <= RING_BYTES { Ok(bytes) } else { Err(Spoiled) }
}

/// Offset of a place in its ring.
pub(crate) fn offset(place: u32) -> usize {
    place as usize % RING_BYTES
}

/// `place`, `count` bytes further on.
pub(crate) fn advanced(place: u32, count: usize) -> u32 {
    assert!(count <= RING_BYTES, "{count} bytes are more than a ring has");
    place.wrapping_add(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
