//! The recording: the slices of the VMs, and the effects on each VM between its own instructions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ckb_script::types::VmId;
use ckb_vm::{Bytes, Error};

use super::{
    image::{Image, Registers},
    limits::{CHANGED_BYTES_MAX, SLICES_MAX},
};

/// A moment: before an instruction of the VM that runs in this slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Number of the slice.
    pub(crate) slice: usize,
    /// Cycles of the slice's VM.
    pub(crate) cycles: u64,
}

impl Moment {
    /// This many cycles later.
    pub(crate) fn after(self, cycles: u64) -> Self {
        Self { cycles: self.cycles.saturating_add(cycles), ..self }
    }
}

/// How a slice starts.
#[derive(Clone)]
pub(crate) enum Begin {
    /// With a new program in the VM.
    Program(Arc<Image>, usize),
    /// After an answered system call, with the changed memory and a0.
    Answered(Vec<(u64, Bytes)>, u64),
    /// At the end of the previous slice.
    Same,
}

/// How a slice ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The recorder paused.
    Rest,
    /// At a system call that the scheduler answers.
    Yield,
    /// The VM exited.
    Exit(i8),
    /// The VM failed.
    Error(Error),
}

/// A period in which one VM ran.
#[derive(Clone)]
pub(crate) struct Slice {
    pub(crate) vm: VmId,
    pub(crate) begin: Begin,
    /// Cycles of all VMs before it.
    pub(crate) base: u64,
    /// The VM's cycles at its start and end.
    pub(crate) cycles: (u64, u64),
    pub(crate) end: End,
    /// The VM's state at its end.
    pub(crate) place: Registers,
}

/// Memory that the answer to a system call writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written {
    /// This many bytes at an address.
    Bytes(u64, u64),
    /// At an address, units of this many bytes. Their number is at the third address, limited by the fourth.
    Counted(u64, u64, u64, u64),
}

#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) slices: Vec<Slice>,
    /// All loaded programs, each once.
    pub(crate) programs: Vec<Bytes>,
    /// Memory that answers will write, by VM.
    pub(crate) pending: BTreeMap<VmId, Vec<Written>>,
    /// Cycles until the recorder pauses.
    pub(crate) budget: u64,
    changed_bytes: usize,
    /// The exceeded limit, if any.
    pub(crate) is_full: Option<&'static str>,
}

/// The tape, shared by all machines of a scheduler.
#[derive(Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Recorded>>);

impl Tape {
    /// Locks the tape. A panic elsewhere cannot leave it inconsistent.
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
