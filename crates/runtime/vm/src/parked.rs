//! Parked VMs: VMs that ckb-script suspends stay mapped, with native code waiting on its stack.
//!
//! ckb-script holds four VMs. It snapshots a fifth, drops the machine, and later creates another one from the
//! snapshot. A snapshot contains the pages that are marked as changed, and the sources of the others. Parking
//! marks no page, so nothing is copied. The old machine's memory is retained. The new machine gets it after
//! the snapshot was written to scratch memory.
//!
//! The result equals that of a snapshot of all marked pages: a page that is neither marked nor has a source
//! is zeros ([`sources`](crate::sources) explains why a source never differs). Registers, pc and cycles come
//! from the snapshot. ckb-script assumes that all pages with a source still match it. If it copies the VM
//! later, pages that may have a source count as changed.

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

/// A parked VM.
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
    /// Releases its resources: no machine takes it back.
    fn end(self) {
        self.stack.into_iter().for_each(NativeStack::give_back);
    }
}

/// The VMs of an attempt that are parked, by their numbers.
#[derive(Default)]
pub(crate) struct Parking {
    /// Whether VMs may be parked: false if VMs can outlive the attempt.
    is_open: AtomicBool,
    /// Whether the current scheduler has ended. The next one reuses the VM numbers.
    is_over: AtomicBool,
    /// Slots in use: by parked VMs, and by VMs that a snapshot may be taken of.
    taken: AtomicUsize,
    lots: Mutex<Lots>,
}

#[derive(Default)]
struct Lots {
    parked: Vec<(u64, Parked)>,
    /// The current machine of each VM. An exec replaces it, and the old machine is then dropped like a parked
    /// one.
    machines: Vec<(u64, u64)>,
    /// Number of machines created so far.
    made: u64,
}

impl Parking {
    /// Permits or forbids parking from now on. Releases all parked VMs.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        self.set_over(false);
    }

    /// Records that a scheduler ended or that another one begins. Releases all parked VMs.
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
        // A panic elsewhere cannot leave it inconsistent.
        self.lots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a scheduler has ended and none has begun since.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Takes a slot for VM `id` if `machine` is its machine. Returns whether it got one.
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

    /// Registers a new machine of VM `id`. Returns its number and the parked VM, if any.
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

    /// Parks VM `id`, which has a slot, if `machine` is still its machine.
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

/// State of a machine between ckb-script's snapshots.
#[derive(Default)]
pub(crate) enum Aside {
    /// Unused since its creation.
    #[default]
    New,
    /// The dirty marks are in place.
    Here,
    /// No page is marked as changed; holds the pages that were.
    Hidden(Pages),
    /// It was parked, and a snapshot is written to a scratch core. Holds its own core and the marked pages.
    Back(Box<Core>, Pages),
}
