//! VMs that ckb-script puts aside stay where they are: their memory mapped, native code waiting on its stack.
//!
//! ckb-script keeps four VMs. Of a fifth it takes a snapshot, drops the machine, and makes another one of the
//! snapshot later. A snapshot has the pages that are marked as changed, and where others came from. Here none
//! is marked, so nothing is copied. The old machine's memory is kept, and the new one gets it when the
//! snapshot was written to memory that nobody looks at.
//!
//! That is what the snapshot of all marked pages would have given: one that is neither marked nor has a
//! source is zeros ([`sources`](crate::sources) says why a source is never seen to differ). Registers, pc and
//! cycles are the snapshot's own. ckb-script believes that all pages with a source are as they came from
//! there. If it copies the VM later, pages that may have a source count as changed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{
    Program,
    limits::PARKED_MAX,
    memory::Core,
    pages::Pages,
    phase::{Stays, Waiting},
    program::Programs,
    stack::NativeStack,
};

/// A VM that was put aside.
pub(crate) struct Parked {
    pub(crate) core: Core,
    /// Pages that were marked as changed.
    pub(crate) marked: Pages,
    pub(crate) loaded: Option<Arc<Program>>,
    pub(crate) program: Option<Arc<Program>>,
    pub(crate) own: Pages,
    pub(crate) interpreted: u64,
    pub(crate) programs: Programs,
    pub(crate) stack: Option<NativeStack>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) stays: Stays,
}

impl Parked {
    /// Gives back what it has: nobody comes for it.
    fn end(self) {
        self.stack.into_iter().for_each(NativeStack::give_back);
    }
}

/// The VMs of an attempt that are parked, by their numbers.
#[derive(Default)]
pub(crate) struct Parking {
    /// Whether VMs may be parked: nobody else goes on with them.
    is_open: AtomicBool,
    /// Whether the scheduler under way has come to its end. The next one has the same numbers.
    is_over: AtomicBool,
    /// Places that are taken: by VMs that are parked, or that a snapshot may be taken of.
    taken: AtomicUsize,
    lots: Mutex<Lots>,
}

#[derive(Default)]
struct Lots {
    parked: Vec<(u64, Parked)>,
    /// The machine that each VM has now: an exec replaces it, and the old one is dropped like one that is put
    /// aside.
    machines: Vec<(u64, u64)>,
    /// Machines so far.
    made: u64,
}

impl Parking {
    /// Lets VMs be parked from now on, or no longer. None is parked then.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        self.set_over(false);
    }

    /// Notes that a scheduler is at its end, or that another one begins. None is parked then.
    pub(crate) fn set_over(&self, is_over: bool) {
        self.is_over.store(is_over, Ordering::Relaxed);
        let parked = {
            let mut lots = self.lock();
            lots.machines.clear();
            std::mem::take(&mut lots.parked)
        };
        self.return_slots(parked.len());
        parked.into_iter().for_each(|(_, vm)| vm.end());
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) && !self.is_over()
    }

    fn lock(&self) -> MutexGuard<'_, Lots> {
        // A panic elsewhere leaves it whole.
        self.lots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a scheduler has come to its end, and none has begun since.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Takes a place for VM `id`, if `machine` is its machine; whether there was one.
    pub(crate) fn take_slot(&self, id: u64, machine: u64) -> bool {
        let more = |taken| (taken < PARKED_MAX).then_some(taken + 1);
        self.is_open()
            && self.lock().machines.contains(&(id, machine))
            && self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(crate) fn return_slots(&self, count: usize) {
        let before = self.taken.fetch_sub(count, Ordering::Relaxed);
        assert!(before >= count, "{count} places of {before} are given back");
    }

    /// Notes a machine of VM `id`: its number, and what was parked of that VM.
    pub(crate) fn come(&self, id: u64) -> (u64, Option<Parked>) {
        let mut lots = self.lock();
        lots.made += 1;
        let number = lots.made;
        lots.machines.retain(|(other, _)| *other != id);
        lots.machines.push((id, number));
        let index = lots.parked.iter().position(|(other, _)| *other == id);
        let parked = index.map(|index| lots.parked.swap_remove(index).1);
        self.return_slots(usize::from(parked.is_some()));
        (number, parked)
    }

    /// Parks VM `id`, which has a place, if `machine` is still its machine.
    pub(crate) fn park(&self, id: u64, machine: u64, vm: Parked) {
        let mut lots = self.lock();
        if self.is_open() && lots.machines.contains(&(id, machine)) {
            debug_assert!(lots.parked.iter().all(|(other, _)| *other != id), "VM {id} is parked twice");
            return lots.parked.push((id, vm));
        }
        drop(lots);
        self.return_slots(1);
        vm.end();
    }
}

/// Where a machine stands between ckb-script's snapshots.
#[derive(Debug, Default)]
pub(crate) enum Aside {
    /// Nobody has asked for it since it was made.
    #[default]
    New,
    /// Marks are where they belong.
    Here,
    /// No page is marked as changed: those that were.
    Hidden(Pages),
    /// It was put aside, and a snapshot is written to a core that nobody needs: its own, and what was marked.
    Back(Box<Core>, Pages),
}
