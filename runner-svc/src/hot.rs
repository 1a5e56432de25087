//! Programs that no cell has as a whole (slices that exec or spawn run, code from witnesses, code that scripts load at run time),
//! found hot by a run: compiled off the path of any call, and remembered with the transactions that they were met in.
//!
//! Which bytes are hot is what a worker says. That is no matter of trust: a library is used for the bytes that it was compiled
//! from, whoever thought of them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::{CompileOptions, LoadedCode, Seen, Sha256Digest};
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
    source::Fallback,
};

/// Hot programs of this runner.
#[derive(Debug)]
pub(crate) struct Hot {
    /// Used longest ago first.
    known: Mutex<VecDeque<Remembered>>,
    /// Those that cannot be had, and why; oldest first.
    failed: Mutex<VecDeque<(Sha256Digest, Fallback)>>,
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

/// A hot program, for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpreted {
    /// Of its bytes; of loaded code with its address.
    pub(crate) digest: Sha256Digest,
    /// Where a script loaded it to while it ran.
    pub(crate) loaded_at: Option<u64>,
    pub(crate) bytes: u64,
    /// In the interpreter.
    pub(crate) cycles: u64,
    pub(crate) why: Why,
}

/// Why a hot program had no native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nobody knew of it. It is compiled now.
    New,
    /// As many wait to be compiled as may.
    QueueFull,
    /// It was found before, and did not go along: it came too late, there was no room, or it cannot be entered.
    PassedOver,
    /// It was found before, and cannot be had.
    Failed(Fallback),
}

impl Why {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::QueueFull => "queue_full",
            Self::PassedOver => "passed_over",
            Self::Failed(fallback) => fallback.name(),
        }
    }
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
        Self { known: Mutex::default(), failed: Mutex::default(), queue, turn: Semaphore::new(1) }
    }

    /// Why the program had no native code in a run that began before this, in one of these versions.
    fn why(&self, digest: Sha256Digest, options: &[CompileOptions]) -> Why {
        if let Some((_, fallback)) = self.failed().iter().find(|(failed, _)| *failed == digest) {
            return Why::Failed(*fallback);
        }
        let known = self.known();
        let is_known = |options: &CompileOptions| {
            known.iter().any(|one| one.elf.digest() == digest && one.options == *options)
        };
        if options.iter().all(is_known) { Why::PassedOver } else { Why::New }
    }

    /// Notes whether it can be had, and if not why.
    fn note(&self, digest: Sha256Digest, failed: Option<Fallback>) {
        let mut all = self.failed();
        all.retain(|(known, _)| *known != digest);
        all.extend(failed.map(|fallback| (digest, fallback)));
        if all.len() > HOT_REMEMBERED_MAX {
            all.pop_front();
        }
    }

    fn failed(&self) -> MutexGuard<'_, VecDeque<(Sha256Digest, Fallback)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Has `programs` compiled some time, if there is room in the queue. Nobody waits for it. Gives what to tell of them.
    pub(crate) fn learn(
        self: &Arc<Self>,
        account: &Account,
        programs: Vec<HotProgram>,
        met: &Met,
    ) -> Vec<Interpreted> {
        let mut told = Vec::new();
        for HotProgram { elf, cycles, seen } in programs.into_iter().take(HOT_PROGRAMS_MAX) {
            if elf.len() > HOT_BYTES_MAX {
                continue;
            }
            let digest = Sha256Digest::of(&elf);
            // The answer has those anyway.
            if met.digests.contains(&digest) {
                continue;
            }
            let loaded_at = LoadedCode::read(&elf).map(|code| code.start);
            let why = match self.hot.queue.clone().try_acquire_owned() {
                Ok(place) => {
                    let why = self.hot.why(digest, &met.options);
                    let program = (Bytes::from(elf.clone()), seen);
                    tokio::spawn(self.clone().learn_one(place, account.clone(), program, met.clone()));
                    why
                }
                Err(_) => {
                    self.metrics.note_hot(HotResult::Dropped);
                    Why::QueueFull
                }
            };
            told.push(Interpreted { digest, loaded_at, bytes: elf.len() as u64, cycles, why });
        }
        told
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
        let (digest, elf) = (elf.digest(), Arc::new(elf));
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
                    self.hot.note(digest, None);
                    self.metrics.note_hot(HotResult::Compiled);
                }
                Err(error) => {
                    tracing::debug!(script = %digest, %error, "a hot program has no native code");
                    self.hot.note(digest, Some(error.fallback().unwrap_or(Fallback::CompileFailed)));
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

    #[test]
    fn why_a_program_was_interpreted_is_known() {
        let (hot, digest) = (Hot::new(), Sha256Digest::of(&[1]));
        assert_eq!(hot.why(digest, &[OPTIONS]), Why::New);
        hot.note(digest, Some(Fallback::CompileRefused));
        assert_eq!(hot.why(digest, &[OPTIONS]), Why::Failed(Fallback::CompileRefused));
        hot.remember(remembered(1));
        hot.note(digest, None);
        assert_eq!(hot.why(digest, &[OPTIONS]), Why::PassedOver);
        assert_eq!(hot.why(digest, &[OPTIONS, CompileOptions { vm_version: 2, ..OPTIONS }]), Why::New);
        for number in 0..2 * HOT_REMEMBERED_MAX {
            hot.note(Sha256Digest::of(&number.to_le_bytes()), Some(Fallback::CompileFailed));
        }
        assert_eq!(hot.failed().len(), HOT_REMEMBERED_MAX);
    }
}
