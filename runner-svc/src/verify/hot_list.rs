//! Which hot programs are known, with the transactions that they were met in, and which cannot be had.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_pool::Sealed;
use bytes::Bytes;

use crate::{
    limits::{HOT_CELLS_MAX, HOT_REMEMBERED_MAX},
    source::Fallback,
};

/// Hot programs of this runner.
#[derive(Debug, Default)]
pub(crate) struct HotList {
    /// Used longest ago first.
    known: Mutex<VecDeque<Remembered>>,
    /// Those that cannot be had, and why; oldest first.
    failed: Mutex<VecDeque<(Sha256Digest, Fallback)>>,
}

/// A program that has native code somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) elf: Arc<Sealed>,
    pub(crate) bytes: Bytes,
    pub(crate) options: CompileOptions,
    /// Data hashes of programs in transactions that it was met in.
    pub(crate) cells: Vec<[u8; 32]>,
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
    /// It was found before, and did not go along: it came too late, there was no room, or it cannot be
    /// entered.
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Met {
    /// Data hashes of the transaction's programs.
    pub(crate) cells: Vec<[u8; 32]>,
    /// Their digests: they are compiled on another way.
    pub(crate) digests: Vec<Sha256Digest>,
    /// What has no native code of them, and of what was met before, and why.
    pub(crate) without: Vec<(Sha256Digest, Fallback)>,
    /// In which versions what they call may run.
    pub(crate) options: Vec<CompileOptions>,
}

impl HotList {
    /// Why the program had no native code in a run that began before this, in one of these versions.
    pub(crate) fn why(&self, digest: Sha256Digest, options: &[CompileOptions]) -> Why {
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
    pub(crate) fn note(&self, digest: Sha256Digest, failed: Option<Fallback>) {
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
    pub(crate) fn meet(&self, digest: Sha256Digest, options: CompileOptions, cells: &[[u8; 32]]) -> bool {
        let mut known = self.known();
        let found = known.iter_mut().find(|one| one.elf.digest() == digest && one.options == options);
        let Some(one) = found else { return false };
        let new = cells.iter().filter(|cell| !one.cells.contains(cell)).copied().collect::<Vec<_>>();
        one.cells.extend(new);
        let surplus = one.cells.len().saturating_sub(HOT_CELLS_MAX);
        one.cells.drain(..surplus);
        true
    }

    pub(crate) fn remember(&self, one: Remembered) {
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

impl Met {
    /// Why a program has no native code that need not be compiled now: it is one of the transaction's, or
    /// what there is does not help.
    pub(crate) fn why(&self, digest: Sha256Digest) -> Option<Why> {
        let without = self.without.iter().find_map(|(of, fallback)| (*of == digest).then_some(*fallback));
        let is_settled = without == Some(Fallback::LeavesEarly) || self.digests.contains(&digest);
        is_settled.then(|| without.map_or(Why::PassedOver, Why::Failed))
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
        let hot = HotList::default();
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
    fn what_has_code_that_does_not_help_is_not_compiled_again() {
        let digest = |number: u8| Sha256Digest::of(&[number]);
        let without = vec![
            (digest(1), Fallback::CompileRefused),
            (digest(3), Fallback::LeavesEarly),
            (digest(4), Fallback::CompileFailed),
        ];
        let met = Met { digests: vec![digest(1), digest(2)], without, ..Met::default() };
        assert_eq!(met.why(digest(1)), Some(Why::Failed(Fallback::CompileRefused)));
        assert_eq!(met.why(digest(2)), Some(Why::PassedOver));
        assert_eq!(met.why(digest(3)), Some(Why::Failed(Fallback::LeavesEarly)));
        // These may be had by now.
        assert_eq!((met.why(digest(4)), met.why(digest(5))), (None, None));
    }

    #[test]
    fn why_a_program_was_interpreted_is_known() {
        let (hot, digest) = (HotList::default(), Sha256Digest::of(&[1]));
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
