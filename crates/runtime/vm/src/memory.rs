//! Guest memory, ckb-vm's machine and the [`State`] of generated code, in one mapping.
//!
//! ```text
//! | host's part | no access, 4 GiB | head: the fields of AsmCoreMachine | guest memory, 4 MiB | guard | State | table | counters | no access, 4 GiB |
//!                                                                       ^ base                        ^ base + STATE_OFFSET
//! ```
//! `AsmCoreMachine` ends with its guest memory, and is placed so that this field is page aligned. The
//! interpreter and native code thus work on the same bytes, and only registers are copied between the tiers.
//! The table holds the addresses of the host's functions and of the host's part, and is read-only. The
//! counters are accessible only in the machines of a counting session.

use std::{
    io,
    mem::{ManuallyDrop, offset_of},
    ops::Range,
};

use antares_abi::{
    COUNTERS_BYTES, COUNTERS_OFFSET, GUEST_MEMORY_BYTES, HOST_TABLE_OFFSET, HostTable, REACH_BYTES,
    STATE_OFFSET, State,
};
use ckb_vm::{
    MEMORY_FRAMESIZE, RISCV_MAX_MEMORY, RISCV_PAGES, RISCV_PAGESIZE,
    machine::asm::AsmCoreMachine,
    memory::{FLAG_DIRTY, FLAG_EXECUTABLE},
    registers::{A0, A1},
};

use crate::{
    VmError,
    cell_cache::CellCache,
    hidden::HostState,
    limits::PAGE_BYTES,
    mapping::Mapping,
    pages::Pages,
    reserve::Reserve,
    wiper::{Order, Wiper},
};

/// Bytes of `AsmCoreMachine` before its guest memory.
const HEAD_BYTES: usize = offset_of!(AsmCoreMachine, memory);
/// Bytes of the pages that hold the head.
const HEAD_PAGE_BYTES: usize = HEAD_BYTES.next_multiple_of(PAGE_BYTES);
/// Offset of the host's part in the mapping.
const HOST: usize = PAGE_BYTES;
/// Offset of the head's pages in the mapping.
const HEAD: usize = HOST + PAGE_BYTES + REACH_BYTES;
/// Offset of guest address 0 in the mapping.
const BASE: usize = HEAD + HEAD_PAGE_BYTES;
/// Offset of the end of guest memory in the mapping.
const MEMORY_END: usize = BASE + RISCV_MAX_MEMORY;
/// Offset of the state in the mapping.
const STATE: usize = BASE + STATE_OFFSET;
/// Offset of the table in the mapping.
const TABLE: usize = BASE + HOST_TABLE_OFFSET;
/// Offset of the counters in the mapping.
const COUNTERS: usize = BASE + COUNTERS_OFFSET;
/// Bytes of the whole mapping.
const TOTAL: usize = COUNTERS + COUNTERS_BYTES + REACH_BYTES;

const _: () = assert!(RISCV_MAX_MEMORY as u64 == GUEST_MEMORY_BYTES);
const _: () = assert!(size_of::<AsmCoreMachine>() == HEAD_BYTES + RISCV_MAX_MEMORY);
const _: () = assert!(HEAD_BYTES.is_multiple_of(align_of::<AsmCoreMachine>()));
const _: () = assert!(BASE.is_multiple_of(PAGE_BYTES) && STATE.is_multiple_of(PAGE_BYTES));
const _: () = assert!(size_of::<State>() <= PAGE_BYTES && STATE + PAGE_BYTES == TABLE);
const _: () = assert!(TABLE + PAGE_BYTES == COUNTERS && COUNTERS_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(size_of::<HostState>() <= PAGE_BYTES && size_of::<HostTable>() <= PAGE_BYTES);

/// ckb-vm's machine on our own memory, shared with native code.
pub struct Core {
    /// Points into `mapping`; never dropped as a box.
    machine: ManuallyDrop<Box<AsmCoreMachine>>,
    /// `Some` until the core is dropped or its memory is taken.
    mapping: Option<Mapping>,
    /// Pages of guest memory that native code cannot write.
    protected: Pages,
    pub(crate) cells: Box<CellCache>,
    /// Pages whose bytes may come from the transaction: ckb-vm restores those it has not seen written. `None`
    /// if not determined yet.
    filled: Option<Pages>,
    /// Whether the mapping is all zero.
    is_clear: bool,
    /// Whether guest memory is unused since [`Core::reset`].
    is_blank: bool,
    /// Wipes everything except the state and the host's part.
    wiper: Wiper,
    /// Whether the counters are accessible.
    counts: bool,
}

/// Zeroed memory for later machines.
pub(crate) static CORES: Reserve<CoreMemory> = Reserve::new();

/// Creates the content of the page after the state, given the host's part.
pub(crate) type MakeTable = fn(*mut HostState) -> HostTable;

/// Zeroed memory without a machine.
pub(crate) struct CoreMemory {
    mapping: Mapping,
    cells: Box<CellCache>,
    wiper: Wiper,
    counts: bool,
    /// Whether it is usable; otherwise it is only address space, which does not slow down a fork.
    is_open: bool,
}

impl CoreMemory {
    fn of(mapping: Mapping) -> Self {
        Self { mapping, cells: Box::default(), wiper: new_wiper(), counts: false, is_open: false }
    }

    /// Makes the memory usable.
    pub(crate) fn opened(mut self, table: MakeTable) -> Result<Self, VmError> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(self);
        }
        for part in [HOST..HOST + PAGE_BYTES, HEAD..MEMORY_END, STATE..TABLE + PAGE_BYTES] {
            self.mapping.open(part).map_err(failed)?;
        }
        // SAFETY: the table's page was just opened, and `TABLE` is page aligned.
        unsafe { self.mapping.at(TABLE).cast::<HostTable>().write(table(self.mapping.at(HOST).cast())) };
        self.mapping.protect(TABLE..TABLE + PAGE_BYTES).map_err(failed)?;
        Ok(self)
    }
}

fn failed(source: io::Error) -> VmError {
    VmError::Map { what: "guest memory", bytes: TOTAL, source }
}

fn new_wiper() -> Wiper {
    Wiper::new(HEAD..MEMORY_END, Order::Any)
}

impl Core {
    /// Maps a machine, or takes one from the reserve. [`Core::reset`] makes it ready for a program.
    pub(crate) fn map(table: MakeTable) -> Result<Self, VmError> {
        let memory = match CORES.take() {
            Some(memory) => memory,
            None => CoreMemory::of(Mapping::reserve(TOTAL).map_err(failed)?),
        };
        memory.cells.begin();
        memory.opened(table).map(Self::of)
    }

    fn of(CoreMemory { mapping, cells, wiper, counts, .. }: CoreMemory) -> Self {
        let machine = mapping.at(BASE - HEAD_BYTES).cast::<AsmCoreMachine>();
        // SAFETY: the `size_of::<AsmCoreMachine>()` bytes from `machine` on were just opened; `BASE` is page
        // aligned and `HEAD_BYTES` a multiple of the alignment; all fields are integers, for which zeros are
        // valid. The box is never dropped (`ManuallyDrop`, never taken out), so the global allocator never
        // sees it; `mapping` lives as long as the box.
        let machine = unsafe { ManuallyDrop::new(Box::from_raw(machine)) };
        Self {
            machine,
            mapping: Some(mapping),
            protected: Pages::default(),
            cells,
            filled: None,
            is_clear: true,
            is_blank: false,
            wiper,
            counts,
        }
    }

    /// Moves its memory to a new core. Afterwards, this core can only be dropped. Returns `None` if pages are
    /// protected, or if it is unknown which pages come from the transaction.
    pub(crate) fn take_memory(&mut self) -> Option<Self> {
        let filled = self.filled.filter(|_| self.protected.is_empty())?;
        let mapping = self.mapping.take()?;
        self.cells.clear();
        let wiper = std::mem::replace(&mut self.wiper, new_wiper());
        let mut taken =
            Self::of(CoreMemory { wiper, counts: self.counts, is_open: true, ..CoreMemory::of(mapping) });
        (taken.filled, taken.is_clear) = (Some(filled), false);
        Some(taken)
    }

    /// Reserves address space for the memory of `count` machines.
    pub(crate) fn reserve_memory(count: usize) -> Result<Vec<CoreMemory>, VmError> {
        let mappings = Mapping::reserve_many(TOTAL, count).map_err(failed)?;
        Ok(mappings.into_iter().map(CoreMemory::of).collect())
    }

    fn mapping(&mut self) -> &mut Mapping {
        self.mapping.as_mut().expect("a core has its mapping until it is dropped")
    }

    /// Zeroes guest memory, page flags, traces (they cache decoded instructions of the last program),
    /// registers and cycles, and configures the next run.
    pub(crate) fn reset(&mut self, isa: u8, vm_version: u32, cycles_max: u64) {
        self.clear();
        self.is_clear = false;
        self.is_blank = true;
        self.filled = None;
        let machine = &mut self.machine;
        machine.isa = isa;
        machine.version = vm_version;
        machine.max_cycles = cycles_max;
        machine.load_reservation_address = u64::MAX;
        machine.memory_size = GUEST_MEMORY_BYTES;
        machine.frames_size = (RISCV_MAX_MEMORY / MEMORY_FRAMESIZE) as u64;
        machine.flags_size = (RISCV_MAX_MEMORY / RISCV_PAGESIZE) as u64;
        machine.last_read_frame = u64::MAX;
        machine.last_write_page = u64::MAX;
        // The interpreter would zero an unmarked frame at its first use. The memory is already zero, and
        // native code ignores the marks.
        machine.frames.fill(1);
    }

    /// Zeroes guest memory and all related fields, unless they are already zero.
    pub(crate) fn clear(&mut self) {
        self.unprotect();
        if !std::mem::replace(&mut self.is_clear, true)
            && let Some(mapping) = &mut self.mapping
        {
            self.wiper.wipe(mapping, Some(&self.cells));
            self.cells.hide();
            for page in [STATE, HOST] {
                // SAFETY: both pages were opened, and are unused between runs.
                unsafe { mapping.at(page).write_bytes(0, PAGE_BYTES) };
            }
        }
    }

    /// Makes the counters accessible to native code from now on.
    pub(crate) fn open_counters(&mut self) {
        if !std::mem::replace(&mut self.counts, true)
            && let Err(error) = self.mapping().open(COUNTERS..COUNTERS + COUNTERS_BYTES)
        {
            panic!("the counters cannot be opened: {error}");
        }
    }

    /// Adds the counters of native code to `map`, up to its length, and resets them.
    pub(crate) fn take_counters(&mut self, map: &mut [u8]) {
        let (true, Some(mapping)) = (self.counts, &self.mapping) else { return };
        let length = map.len().min(COUNTERS_BYTES) / 8 * 8;
        // SAFETY: `counts` guarantees that the part was opened; there is no other reference to it, and no
        // native code runs.
        let counted =
            unsafe { std::slice::from_raw_parts_mut(mapping.at(COUNTERS).cast::<u64>(), length / 8) };
        for (bytes, counted) in map.chunks_exact_mut(8).zip(counted) {
            if *counted == 0 {
                continue;
            }
            for (byte, count) in bytes.iter_mut().zip(std::mem::take(counted).to_le_bytes()) {
                *byte = byte.wrapping_add(count);
            }
        }
    }

    /// Host address of guest address 0.
    pub(crate) fn base(&self) -> *mut u8 {
        match &self.mapping {
            Some(mapping) => mapping.at(BASE),
            None => std::ptr::null_mut(),
        }
    }

    /// Makes `pages` read-only: they became executable, and the checks of native code do not cover them.
    pub(crate) fn protect(&mut self, pages: Pages) {
        let sealed = self.cells.seal(self.base(), pages);
        for range in pages.minus(self.protected).minus(sealed).ranges() {
            let part = BASE + range.start * RISCV_PAGESIZE..BASE + range.end * RISCV_PAGESIZE;
            if let Err(error) = self.mapping().protect(part) {
                panic!("pages of guest memory cannot be protected: {error}");
            }
        }
        self.protected = self.protected.or(pages);
    }

    /// Undoes [`Core::protect`] for all pages.
    pub(crate) fn unprotect(&mut self) {
        let sealed = self.cells.unseal(self.base());
        if !std::mem::take(&mut self.protected).minus(sealed).is_empty()
            && let Err(error) = self.mapping().open(BASE..MEMORY_END)
        {
            panic!("guest memory cannot be opened: {error}");
        }
    }

    /// The pages that are read-only.
    pub(crate) fn protected(&self) -> Pages {
        self.protected
    }

    pub(crate) fn executable(&self) -> Pages {
        Pages::with_flag(&self.machine.flags, FLAG_EXECUTABLE)
    }

    /// Whether a syscall loaded another program into the machine since the last call. If so, clears the
    /// memory that ckb-vm would clear at its first use.
    pub(crate) fn was_reset(&mut self) -> bool {
        if std::mem::take(&mut self.machine.reset_signal) == 0 {
            return false;
        }
        let touched = self.touched();
        let machine: &mut AsmCoreMachine = &mut self.machine;
        let frame_of = |page: usize| page * RISCV_PAGESIZE / MEMORY_FRAMESIZE;
        for (page, memory) in machine.memory.chunks_exact_mut(RISCV_PAGESIZE).enumerate() {
            if touched.has(page) && machine.frames[frame_of(page)] == 0 {
                memory.fill(0);
            }
        }
        machine.frames.fill(1);
        true
    }

    /// Whether guest memory is zero and no page has flags. Each call makes the next one return false until a
    /// reset.
    pub(crate) fn take_blank(&mut self) -> bool {
        // A resumed machine loads nothing before it is reset.
        std::mem::take(&mut self.is_blank) && self.machine.reset_signal == 0
    }

    pub(crate) fn add_flags(&mut self, pages: Pages, flags: u8) {
        for range in pages.ranges() {
            self.machine.flags[range].iter_mut().for_each(|of_page| *of_page |= flags);
        }
        self.machine.last_write_page = u64::MAX;
    }

    /// Sets the pages that the loader filled: the only ones that come from the transaction so far.
    pub(crate) fn set_filled(&mut self, pages: Pages) {
        self.filled = Some(pages);
    }

    /// The maximum range that `load_cell_data` stores to, given the current registers.
    pub(crate) fn data_to_load(&self) -> Range<u64> {
        let registers = self.guest_registers();
        let start = registers[A0];
        start..start.saturating_add(self.word(registers[A1]).unwrap_or(u64::MAX))
    }

    /// The number at a guest address, if that is in memory.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let place = usize::try_from(address).ok()?;
        let bytes = self.bytes().get(place..place.checked_add(size_of::<u64>())?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Records that a system call stored data of the transaction at `addresses`.
    pub(crate) fn fill(&mut self, addresses: Range<u64>) {
        self.filled = self.filled.map(|pages| pages.or(Pages::holding(addresses)));
    }

    /// Determines which pages of a resumed machine may come from the transaction, before it runs.
    pub(crate) fn find_filled(&mut self) {
        if self.filled.is_none() {
            self.filled = Some(self.written(Pages::default()));
        }
    }

    /// Whether its memory can stay mapped while ckb-script holds a snapshot.
    pub(crate) fn can_stay(&self) -> bool {
        self.filled.is_some() && self.protected.is_empty()
    }

    /// Clears the dirty marks of all pages; returns the marked pages.
    pub(crate) fn hide_changes(&mut self) -> Pages {
        let marked = Pages::with_flag(&self.machine.flags, FLAG_DIRTY);
        self.machine.flags.iter_mut().for_each(|flags| *flags &= !FLAG_DIRTY);
        marked
    }

    /// Adds dirty marks to these pages.
    pub(crate) fn show_changes(&mut self, marked: Pages) {
        self.add_flags(marked, FLAG_DIRTY);
    }

    /// Marks all possibly changed pages as dirty, because native code does not mark pages. Unchanged pages
    /// are restored to the same bytes ([`sources`](crate::sources) explains why).
    pub(crate) fn mark_changes(&mut self) {
        let filled = self.filled.unwrap_or_default();
        // Executable pages cannot have been written.
        let changed = self.written(filled).minus(self.executable());
        for page in changed.ranges().flatten() {
            self.machine.flags[page] |= FLAG_DIRTY;
        }
        self.machine.last_write_page = u64::MAX;
    }

    /// Pages that differ from those of a new machine: touched, and either nonzero or in `filled`.
    fn written(&self, filled: Pages) -> Pages {
        let mut pages = Pages::default();
        let memory = self.bytes().chunks_exact(RISCV_PAGESIZE);
        let touched = self.touched();
        for (page, bytes) in memory.enumerate().filter(|(page, _)| touched.has(*page)) {
            if filled.has(page) || bytes != ZEROS {
                pages.insert(page);
            }
        }
        pages
    }

    /// Pages that may have been read or written.
    fn touched(&self) -> Pages {
        let reported = self.mapping.as_ref().and_then(|mapping| mapping.touched(BASE..MEMORY_END));
        let mut pages = Pages::default();
        (0..RISCV_PAGES)
            .filter(|page| reported.as_ref().is_none_or(|reported| reported[*page]))
            .for_each(|page| pages.insert(page));
        pages
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.machine.memory
    }

    /// Guest registers `x0..x31`.
    pub(crate) fn guest_registers(&self) -> &[u64; 32] {
        &self.machine.registers
    }

    /// Sets all guest registers.
    pub(crate) fn set_guest_registers(&mut self, registers: &[u64; 32]) {
        self.machine.registers = *registers;
        self.machine.registers[0] = 0;
    }
}

/// A page that was never written.
static ZEROS: [u8; RISCV_PAGESIZE] = [0; RISCV_PAGESIZE];

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(pages_max) = CORES.space() {
            self.clear();
            if let Some(mut mapping) = self.mapping.take() {
                self.wiper.shrink(&mut mapping, Some(&self.cells), pages_max);
                // The wiper knows the mapping's pages.
                let wiper = std::mem::replace(&mut self.wiper, new_wiper());
                let cells = std::mem::take(&mut self.cells);
                cells.end();
                CORES.give(CoreMemory { mapping, cells, wiper, counts: self.counts, is_open: true });
            }
        }
        self.cells.end();
    }
}

/// The state of the machine at `base`.
pub(crate) fn state_of(base: *mut u8) -> *mut State {
    base.wrapping_add(STATE_OFFSET).cast()
}

impl AsRef<Box<AsmCoreMachine>> for Core {
    fn as_ref(&self) -> &Box<AsmCoreMachine> {
        &self.machine
    }
}

impl AsMut<Box<AsmCoreMachine>> for Core {
    fn as_mut(&mut self) -> &mut Box<AsmCoreMachine> {
        &mut self.machine
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use ckb_vm::{CoreMachine, Memory, SupportMachine, machine::asm::AsmCoreMachineRevealer};

    use super::*;

    #[test]
    fn base_is_page_aligned_and_the_machine_s_memory() {
        let core = <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY);
        assert_eq!(core.base() as usize % PAGE_BYTES, 0);
        assert!(ptr::eq(core.base(), core.bytes().as_ptr()));
    }

    #[test]
    fn reset_leaves_nothing_of_the_last_program() {
        let mut core = <Core as AsmCoreMachineRevealer>::new(3, 1, 77, RISCV_MAX_MEMORY);
        core.store_bytes(0, &[1; RISCV_MAX_MEMORY]).unwrap();
        core.set_flag(5, FLAG_EXECUTABLE).unwrap();
        core.set_register(10, 9);
        core.set_cycles(8);
        core.as_mut().traces[3].address = 0x1000;
        core.reset(0, 2, 11);
        assert!(core.bytes().iter().all(|byte| *byte == 0));
        assert_eq!((core.fetch_flag(5), core.cycles(), core.max_cycles()), (Ok(0), 0, 11));
        assert_eq!((core.guest_registers(), core.as_ref().traces[3].address), (&[0; 32], 0));
        assert_eq!((core.isa(), core.version()), (0, 2));
    }
}
