//! What the recorder has seen: who ran when, and what was done to each VM between its own instructions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ckb_script::types::VmId;
use ckb_vm::{Bytes, Error};

use super::{
    image::{Image, Position},
    limits::{CHANGED_BYTES_MAX, SLICES_MAX},
};

/// A moment: before an instruction of the VM that runs in this slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Which slice.
    pub(crate) slice: usize,
    /// Cycles of the VM in it.
    pub(crate) cycles: u64,
}

/// How a slice begins.
#[derive(Clone, Debug)]
pub(crate) enum Begin {
    /// With a new program in the VM.
    Program(Arc<Image>, usize),
    /// Behind a system call that another one answered: what is in memory and in a0 since.
    Answered(Vec<(u64, Bytes)>, u64),
    /// Where the one before ended.
    Same,
}

/// How a slice ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The recorder rests.
    Rest,
    /// In a system call that the scheduler answers.
    Yield,
    /// The VM exited.
    Exit(i8),
    /// The VM failed.
    Error(Error),
}

/// A stretch in which one VM ran.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) vm: VmId,
    pub(crate) begin: Begin,
    /// Cycles of all before it.
    pub(crate) base: u64,
    /// The VM's cycles at its begin and end.
    pub(crate) cycles: (u64, u64),
    pub(crate) end: End,
    /// Where the VM was at the end.
    pub(crate) place: Position,
}

/// Memory that the answer to a system call writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written {
    /// So many bytes there.
    Bytes(u64, u64),
    /// There as many units of this many bytes as the 8 bytes at the third address say, at most the fourth.
    Counted(u64, u64, u64, u64),
}

#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) slices: Vec<Slice>,
    /// All programs that were loaded, each once.
    pub(crate) programs: Vec<Bytes>,
    /// What answers will write, by VM.
    pub(crate) pending: BTreeMap<VmId, Vec<Written>>,
    /// Cycles until the recorder rests.
    pub(crate) budget: u64,
    changed_bytes: usize,
    /// Whether more was to be kept than can be.
    pub(crate) is_full: Option<&'static str>,
}

/// The tape, which all machines of a scheduler share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<Mutex<Recorded>>);

impl Tape {
    /// A panic elsewhere leaves it whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn slice(&self, index: usize) -> Option<Slice> {
        self.lock().slices.get(index).cloned()
    }
}

impl Recorded {
    /// The number of `program`.
    pub(crate) fn program(&mut self, program: &Bytes) -> usize {
        let known = self.programs.iter().position(|known| known == program);
        known.unwrap_or_else(|| {
            self.programs.push(program.clone());
            self.programs.len() - 1
        })
    }

    pub(crate) fn push(&mut self, slice: Slice) {
        if let Begin::Answered(changes, _) = &slice.begin {
            self.changed_bytes += changes.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        if self.slices.len() >= SLICES_MAX {
            self.is_full = Some("a million changes between VMs");
        }
        if self.changed_bytes > CHANGED_BYTES_MAX {
            self.is_full = Some("256 MiB sent between VMs");
        }
        self.slices.push(slice);
    }
}
