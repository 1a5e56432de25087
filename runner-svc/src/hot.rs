//! Programs that no cell has as a whole (slices that exec or spawn run, code from witnesses, code that scripts load at run time),
//! found hot by a run: compiled off the path of any call, and remembered with the transactions that they were met in.
//!
//! Which bytes are hot is what a worker says. That is no matter of trust: a library is used for the bytes that it was compiled
//! from, whoever thought of them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::{CompileOptions, Seen, Sha256Digest};
use antares_pool::{
    Sealed,
    job::{HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram},
};
use antares_serve::Account;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    execute::Shared,
    library::seal,
    limits::{HOT_CELLS_MAX, HOT_QUEUE_MAX, HOT_REMEMBERED_MAX},
    metrics::HotResult,
};

/// Hot programs of this runner.
#[derive(Debug)]
pub(crate) struct Hot {
    /// Used longest ago first.
    known: Mutex<VecDeque<Remembered>>,
    queue: Arc<Semaphore>,
    /// One is compiled at a time.
    turn: Semaphore,
}

/// A program that has native code somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) elf: Arc<Sealed>,
    pub(crate) bytes: Bytes,
    pub(crate) options: CompileOptions,
    /// Data hashes of programs in transactions that it was met in.
    cells: Vec<[u8; 32]>,
}

/// Where programs were found hot.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    /// Data hashes of the transaction's programs.
    pub(crate) cells: Vec<[u8; 32]>,
    /// Their digests: they are compiled on another way.
    pub(crate) digests: Vec<Sha256Digest>,
    /// In which versions what they call may run.
    pub(crate) options: Vec<CompileOptions>,
}

impl Hot {
    pub(crate) fn new() -> Self {
        let queue = Arc::new(Semaphore::new(HOT_QUEUE_MAX));
        Self { known: Mutex::default(), queue, turn: Semaphore::new(1) }
    }

    /// What may be worth having in a transaction with the programs `cells`; used last first.
    pub(crate) fn find(&self, cells: &[[u8; 32]]) -> Vec<Remembered> {
        let mut known = self.known();
        let (rest, found): (VecDeque<_>, VecDeque<_>) =
            known.drain(..).partition(|one| !one.cells.iter().any(|cell| cells.contains(cell)));
        *known = rest;
        known.extend(found.iter().cloned());
        found.into_iter().rev().collect()
    }

    /// Notes that a program was met again. Answers whether it is known.
    fn meet(&self, digest: Sha256Digest, options: CompileOptions, cells: &[[u8; 32]]) -> bool {
        let mut known = self.known();
        let found = known.iter_mut().find(|one| one.elf.digest() == digest && one.options == options);
        let Some(one) = found else { return false };
        let new = cells.iter().filter(|cell| !one.cells.contains(cell)).copied().collect::<Vec<_>>();
        one.cells.extend(new);
        let surplus = one.cells.len().saturating_sub(HOT_CELLS_MAX);
        one.cells.drain(..surplus);
        true
    }

    fn remember(&self, one: Remembered) {
        let mut known = self.known();
        known.push_back(one);
        if known.len() > HOT_REMEMBERED_MAX {
            known.pop_front();
        }
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Remembered>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Has `programs` compiled some time, if there is room in the queue. Nobody waits for it.
    pub(crate) fn learn(self: &Arc<Self>, account: &Account, programs: Vec<HotProgram>, met: &Met) {
        for program in programs.into_iter().take(HOT_PROGRAMS_MAX) {
            let Ok(place) = self.hot.queue.clone().try_acquire_owned() else {
                self.metrics.note_hot(HotResult::Dropped);
                continue;
            };
            if program.elf.len() > HOT_BYTES_MAX {
                continue;
            }
            tokio::spawn(self.clone().learn_one(
                place,
                account.clone(),
                (Bytes::from(program.elf), program.seen),
                met.clone(),
            ));
        }
    }

    async fn learn_one(
        self: Arc<Self>,
        _place: OwnedSemaphorePermit,
        account: Account,
        (bytes, seen): (Bytes, Seen),
        met: Met,
    ) {
        // The semaphore is never closed.
        let Ok(_turn) = self.hot.turn.acquire().await else { return };
        let Ok(elf) = seal("antares-program", bytes.clone()).await else { return };
        let digest = elf.digest();
        if met.digests.contains(&digest) {
            return;
        }
        let elf = Arc::new(elf);
        for options in met.options {
            if self.hot.meet(digest, options, &met.cells) {
                continue;
            }
            match self.library(&account, digest, Some(&bytes), options).await {
                Ok(native) => {
                    // What is loaded says nowhere where it is entered.
                    if !seen.hints.is_empty() {
                        self.learn_seen(&account, &native, seen.clone());
                    }
                    let (elf, bytes, cells) = (elf.clone(), bytes.clone(), met.cells.clone());
                    self.hot.remember(Remembered { elf, bytes, options, cells });
                    self.metrics.note_hot(HotResult::Compiled);
                }
                Err(error) => {
                    tracing::debug!(script = %digest, %error, "a hot program has no native code");
                    self.metrics.note_hot(HotResult::Failed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;

    use super::*;

    const OPTIONS: CompileOptions = CompileOptions { vm_version: 1, isa: Isa(3) };

    fn remembered(number: u8) -> Remembered {
        let elf = Arc::new(Sealed::new("test", &[number]).unwrap());
        Remembered { elf, bytes: Bytes::from(vec![number]), options: OPTIONS, cells: vec![[number; 32]] }
    }

    #[test]
    fn programs_come_back_with_the_cells_they_were_met_with() {
        let hot = Hot::new();
        for number in 0..=u8::try_from(HOT_REMEMBERED_MAX).unwrap() {
            hot.remember(remembered(number));
        }
        let found = |cell: u8| hot.find(&[[cell; 32]]).iter().map(|one| one.bytes[0]).collect::<Vec<_>>();
        assert_eq!((found(0), found(1), found(2)), (vec![], vec![1], vec![2]));
        assert!(hot.meet(Sha256Digest::of(&[1]), OPTIONS, &[[2; 32]]));
        assert!(!hot.meet(Sha256Digest::of(&[1]), CompileOptions { vm_version: 2, ..OPTIONS }, &[[2; 32]]));
        assert_eq!(found(2), [2, 1]);
    }
}
