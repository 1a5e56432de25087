//! A cache of cells in guest memory: a run that loads the same cell to the same address as an earlier run
//! copies nothing, and nothing is wiped.
//!
//! Protection keys of the processor hide a cached cell. Until a run loads the cell, its pages are
//! inaccessible; then they are read-only. Any other access faults, and the handler of faults evicts the cell:
//! hidden pages become zeros, as the run expects, and all become plain memory. Changing the rights takes no
//! system call. Without protection keys, nothing is cached.
//!
//! Code that a run copies to its memory must be read-only too. Some parts of it keep a key of their own, so that
//! the next run of the same script protects them without a system call.
//!
//! Rights belong to a thread. So only one machine of a thread has a cache, and only within an
//! [`attempt`](crate::MachineSession::attempt), which machines do not leave.

use std::{
    arch::asm,
    cell::Cell,
    ops::Range,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use crate::{
    limits::{CACHED_CELLS_MAX, CODE_PARTS_MAX, PAGE_BYTES},
    pages::Pages,
};

/// A slot without a cell.
const FREE: u8 = 0;
/// The run has not loaded the cell yet.
const HIDDEN: u8 = 1;
/// The run has loaded the cell.
const SHOWN: u8 = 2;
/// The run may execute the pages, so writing to them is a bailout.
const SEALED: u8 = 3;
/// Code of an earlier run, now plain memory.
const OPEN: u8 = 4;

/// Rights of a protection key: bits of the register PKRU.
const NOTHING: u32 = 0b11;
const READ: u32 = 0b10;
const ALL: u32 = 0b00;

/// Slots for cells, then for parts of code. Each has a key.
const SLOTS: usize = CACHED_CELLS_MAX + CODE_PARTS_MAX;

/// Loads that are not cached after an eviction, except for the first: an eviction and the next insertion take
/// two system calls.
const PENALTY: u32 = 256;
/// Maximum penalty since the last hit.
const PENALTY_MAX: u32 = 1024;

const NOT_EVICTED: &str = "pages of guest memory cannot be evicted from the cache";

/// The keys of the slots; `None` if the processor or the kernel has none, or if they are in use.
static KEYS: OnceLock<Option<[u32; SLOTS]>> = OnceLock::new();

thread_local! {
    /// Const and without a destructor: the handler reads it.
    static ARMED: Cell<*const CellCache> = const { Cell::new(ptr::null()) };
    static IS_ENABLED: Cell<bool> = const { Cell::new(false) };
}

/// The cached cells of a machine's memory.
#[derive(Debug, Default)]
pub(crate) struct CellCache {
    slots: [Slot; SLOTS],
    /// The bytes of each cell; zeros follow them.
    contents: [Bytes; CACHED_CELLS_MAX],
    penalty: AtomicU32,
}

/// Pages with a key. The handler may evict those of a cell.
#[derive(Debug, Default)]
struct Slot {
    /// Host address.
    start: AtomicUsize,
    bytes: AtomicUsize,
    state: AtomicU8,
}

/// Lets machines of this process, and of children that it forks later, cache the large cells of transactions.
/// It takes eight of 15 protection keys, once. Without such keys it has no effect. Call it before the process
/// gives up system calls.
pub fn cache_cells() {
    KEYS.get_or_init(|| {
        let keys: [_; SLOTS] = std::array::from_fn(|_| {
            // SAFETY: a new key changes only the rights to pages that get it later.
            let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, NOTHING & 1) };
            u32::try_from(key).ok()
        });
        if keys.iter().all(Option::is_some) {
            return Some(keys.map(Option::unwrap_or_default));
        }
        // Others may need the few that there are.
        for key in keys.into_iter().flatten() {
            // SAFETY: no page has the key.
            unsafe { libc::syscall(libc::SYS_pkey_free, key) };
        }
        None
    });
}

/// Runs `work`, whose machines may cache cells. They must not leave the thread before it ends.
pub(crate) fn enabled<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_ENABLED.set(self.0);
            // SAFETY: a machine disarms its cells before it is dropped, on this thread.
            if let (false, Some(armed)) = (self.0, unsafe { ARMED.get().as_ref() }) {
                armed.clear();
                ARMED.set(ptr::null());
            }
        }
    }
    let _restore = Restore(IS_ENABLED.replace(true));
    work()
}

/// Evicts the cached cell at `address`, for the handler of a fault there: the access then continues. Returns
/// false if there is none, or if the run may not write there.
pub(crate) fn evict_at(address: usize) -> bool {
    // SAFETY: as in `enabled`; the handler interrupts the thread that uses the machine.
    let Some(cache) = (unsafe { ARMED.get().as_ref() }) else { return false };
    let slot = cache.slots.iter().find(|slot| slot.overlaps(&(address..address + 1)));
    slot.is_some_and(|slot| slot.state.load(Relaxed) != SEALED && cache.evict(slot))
}

impl CellCache {
    /// Prepares this thread for a machine that is about to be used, or evicts its cells.
    pub(crate) fn begin(&self) {
        if !self.is_empty() && !self.arm() {
            self.clear();
        }
    }

    /// Ends the use of the machine.
    pub(crate) fn end(&self) {
        if ptr::eq(ARMED.get(), self) {
            ARMED.set(ptr::null());
        }
    }

    /// Whether `cell` and zeros are cached at the host addresses `part`. If so, they become readable.
    pub(crate) fn find(&mut self, part: Range<usize>, cell: &Bytes) -> bool {
        let is_it = |slot: &Slot| slot.is_used() && slot.range() == part;
        let Some(index) = self.cells().iter().position(is_it) else { return false };
        let (slot, cached) = (&self.slots[index], &mut self.contents[index]);
        let is_same = cached.len() == cell.len() && (cached.as_ptr() == cell.as_ptr() || cached == cell);
        if !is_same {
            self.evict(slot);
            return false;
        }
        // The next comparison may be one of addresses.
        cached.clone_from(cell);
        if slot.state.load(Relaxed) == HIDDEN {
            slot.state.store(SHOWN, Relaxed);
            self.set_rights();
        }
        self.penalty.store(0, Relaxed);
        true
    }

    /// Caches `part` (host addresses of pages of this machine's memory), to which `cell` and zeros were just
    /// stored, if there is room.
    pub(crate) fn insert(&mut self, part: Range<usize>, cell: Bytes) {
        let penalty = self.penalty.load(Relaxed);
        if penalty > PENALTY {
            return self.penalty.store(penalty - 1, Relaxed);
        }
        if part.is_empty() || !self.arm() || self.cells().iter().any(|slot| slot.overlaps(&part)) {
            return;
        }
        // A cell that this run has not loaded makes room.
        let index_of = |state| self.cells().iter().position(|slot| slot.state.load(Relaxed) == state);
        let Some(index) = index_of(FREE).or_else(|| index_of(HIDDEN)) else { return };
        let slot = &self.slots[index];
        if slot.is_used() {
            self.evict(slot);
        }
        let (Some(Some(keys)), false) = (KEYS.get(), slot.is_used()) else { return };
        if !self.evict_code_in(&part) {
            return;
        }
        if self.slots[index].take(&part, SHOWN, keys[index]) {
            self.contents[index] = cell;
            self.set_rights();
        }
    }

    /// Hides all cells from the next run.
    pub(crate) fn hide(&self) {
        if !self.is_empty() {
            let cells = self.cells().iter().filter(|slot| slot.is_used());
            cells.for_each(|slot| slot.state.store(HIDDEN, Relaxed));
            self.set_rights();
        }
    }

    /// Makes native code bail out when it writes to a cell in `code`, pages of the memory at `base`, or to other
    /// parts of them that have a key. Returns the pages of these.
    pub(crate) fn seal(&self, base: *mut u8, code: Pages) -> Pages {
        for slot in self.cells().iter().filter(|slot| slot.is_used()) {
            let pages = slot.pages(base);
            if pages.minus(code).is_empty() && slot.state.load(Relaxed) != HIDDEN {
                slot.state.store(SEALED, Relaxed);
            } else if !pages.and(code).is_empty() {
                assert!(self.evict(slot), "{NOT_EVICTED}");
            }
        }
        let others = code.minus(self.sealed(base));
        if !others.is_empty() && self.arm() {
            let address = |page| base.expose_provenance() + page * PAGE_BYTES;
            others.ranges().for_each(|part| self.seal_code(&(address(part.start)..address(part.end))));
            self.set_rights();
        }
        self.sealed(base)
    }

    /// Seals `part`, if there is a slot and no system call fails.
    fn seal_code(&self, part: &Range<usize>) {
        let (Some(Some(keys)), slots) = (KEYS.get(), self.code()) else { return };
        if let Some(slot) = slots.iter().find(|slot| slot.is_used() && slot.range() == *part) {
            return slot.state.store(SEALED, Relaxed);
        }
        let index_of = |state| slots.iter().position(|slot| slot.state.load(Relaxed) == state);
        if !self.evict_code_in(part) {
            return;
        }
        let Some(index) = index_of(FREE).or_else(|| index_of(OPEN)) else { return };
        if !slots[index].is_used() || self.evict(&slots[index]) {
            slots[index].take(part, SEALED, keys[CACHED_CELLS_MAX + index]);
        }
    }

    /// Makes parts of code that overlap `part` plain memory, unless the run may execute them.
    fn evict_code_in(&self, part: &Range<usize>) -> bool {
        let mut slots = self.code().iter().filter(|slot| slot.overlaps(part));
        slots.all(|slot| slot.state.load(Relaxed) == OPEN && self.evict(slot))
    }

    fn sealed(&self, base: *mut u8) -> Pages {
        let sealed = self.slots.iter().filter(|slot| slot.state.load(Relaxed) == SEALED);
        sealed.fold(Pages::default(), |pages, slot| pages.or(slot.pages(base)))
    }

    /// Undoes [`CellCache::seal`]. Returns the pages.
    pub(crate) fn unseal(&self, base: *mut u8) -> Pages {
        let sealed = self.sealed(base);
        if !sealed.is_empty() {
            for (slots, state) in [(self.cells(), SHOWN), (self.code(), OPEN)] {
                let slots = slots.iter().filter(|slot| slot.state.load(Relaxed) == SEALED);
                slots.for_each(|slot| slot.state.store(state, Relaxed));
            }
            self.set_rights();
        }
        sealed
    }

    /// Evicts all cells, before the machine's memory changes in another way.
    pub(crate) fn clear(&self) {
        for slot in self.slots.iter().filter(|slot| slot.is_used()) {
            assert!(self.evict(slot), "{NOT_EVICTED}");
        }
    }

    /// Whether the page at a host address belongs to a cached cell, and if so, whether the run loaded it.
    pub(crate) fn holds(&self, page: usize) -> Option<bool> {
        let slot = self.cells().iter().find(|slot| slot.overlaps(&(page..page + 1)))?;
        Some(slot.state.load(Relaxed) != HIDDEN)
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.slots.iter().any(Slot::is_used)
    }

    fn cells(&self) -> &[Slot] {
        &self.slots[..CACHED_CELLS_MAX]
    }

    fn code(&self) -> &[Slot] {
        &self.slots[CACHED_CELLS_MAX..]
    }

    /// Makes this thread's rights those of this machine's cells. Fails if another machine's are.
    fn arm(&self) -> bool {
        if !IS_ENABLED.get() || KEYS.get().is_none_or(Option::is_none) {
            return false;
        }
        if ARMED.get().is_null() {
            ARMED.set(self);
            self.set_rights();
        }
        ptr::eq(ARMED.get(), self)
    }

    /// Makes this thread's rights those of the slots.
    fn set_rights(&self) {
        let Some(Some(keys)) = KEYS.get() else { return };
        let (mut changed, mut rights) = (0, 0);
        for (key, slot) in keys.iter().zip(&self.slots) {
            let right = match slot.state.load(Relaxed) {
                SHOWN | SEALED => READ,
                OPEN => ALL,
                _ => NOTHING,
            };
            changed |= NOTHING << (2 * key);
            rights |= right << (2 * key);
        }
        // SAFETY: the keys belong to this module, so PKRU exists, and only the rights to cached cells change.
        // Without `nomem`, no access to memory moves across.
        unsafe {
            let all: u32;
            asm!("rdpkru", in("ecx") 0, out("eax") all, out("edx") _, options(nostack, preserves_flags));
            let all = all & !changed | rights;
            asm!("wrpkru", in("eax") all, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags));
        }
    }

    /// Makes the pages of `slot` plain memory: zeros if the run has not loaded the cell. Async-signal-safe.
    fn evict(&self, slot: &Slot) -> bool {
        let (range, state) = (slot.range(), slot.state.load(Relaxed));
        let access = if state == SEALED { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
        // Key 0 is that of all other memory.
        if !change(&range, access, 0) {
            return false;
        }
        if state == HIDDEN {
            // SAFETY: the pages are part of a machine's memory, which is mapped and now writable.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(range.start).write_bytes(0, range.len()) };
        }
        slot.state.store(FREE, Relaxed);
        if state != OPEN {
            self.penalty.store((self.penalty.load(Relaxed) + PENALTY).min(PENALTY_MAX), Relaxed);
        }
        true
    }
}

impl Slot {
    /// Gives the pages `part` this slot, with its key. Fails if the system call does.
    fn take(&self, part: &Range<usize>, state: u8, key: u32) -> bool {
        let is_done = change(part, libc::PROT_READ | libc::PROT_WRITE, key);
        if is_done {
            self.start.store(part.start, Relaxed);
            self.bytes.store(part.len(), Relaxed);
            self.state.store(state, Relaxed);
        }
        is_done
    }

    fn range(&self) -> Range<usize> {
        let start = self.start.load(Relaxed);
        start..start + self.bytes.load(Relaxed)
    }

    fn is_used(&self) -> bool {
        self.state.load(Relaxed) != FREE
    }

    fn overlaps(&self, part: &Range<usize>) -> bool {
        let own = self.range();
        self.is_used() && own.start < part.end && part.start < own.end
    }

    /// Its pages in the memory at `base`.
    fn pages(&self, base: *mut u8) -> Pages {
        let Range { start, end } = self.range();
        Pages::holding((start - base.addr()) as u64..(end - base.addr()) as u64)
    }
}

/// Sets access and key of pages. Async-signal-safe.
fn change(range: &Range<usize>, access: libc::c_int, key: u32) -> bool {
    debug_assert!(range.start.is_multiple_of(PAGE_BYTES) && range.len().is_multiple_of(PAGE_BYTES));
    #[cfg(test)]
    tests::CHANGES.set(tests::CHANGES.get() + 1);
    // SAFETY: the range lies in the guest memory of a machine, which permits these accesses.
    unsafe { libc::syscall(libc::SYS_pkey_mprotect, range.start, range.len(), access, key) == 0 }
}

#[cfg(test)]
mod tests;
