//! The system calls `load_cell_data`, for large cells, and `load_cell_data_as_code`: memory may
//! [cache](crate::cell_cache) what they load.
//!
//! Results, memory and cycles are those of ckb-script's `LoadCellData`, which handles all other calls: small
//! cells, cells that are no deps, and errors.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use ckb_vm::{
    CoreMachine, Error, MEMORY_FRAMESIZE, Memory, RISCV_PAGESIZE, SupportMachine, Syscalls,
    memory::{FLAG_EXECUTABLE, FLAG_FREEZED},
    registers::{A0, A1, A2, A3, A4, A5, A7},
    snapshot2::{DataSource, Snapshot2Context},
};

use crate::{
    code::{LOAD_CELL_DATA, LOAD_CODE, SUCCESS},
    limits::CACHED_CELL_BYTES_MIN,
    memory::Core,
};

/// Number of cell deps among the sources of ckb-script's calls.
const CELL_DEP: u64 = 3;
/// Bits of a source; the others mean the script's group.
const SOURCE_MASK: u64 = 0x00ff_ffff_ffff_ffff;
const GROUP: u64 = 0x01;

/// Loads cell deps into a machine's memory.
pub struct CellLoads<I: Clone + PartialEq, D: DataSource<I>> {
    sources: Arc<Mutex<Snapshot2Context<I, D>>>,
    dep: fn(u32) -> I,
}

impl<I: Clone + PartialEq, D: DataSource<I>> CellLoads<I, D> {
    /// For a VM whose pages have these `sources`, among which `dep` names a cell dep.
    pub fn new(sources: Arc<Mutex<Snapshot2Context<I, D>>>, dep: fn(u32) -> I) -> Self {
        Self { sources, dep }
    }

    fn dep(&self, index: u64, source: u64) -> Option<I> {
        let is_dep = source & SOURCE_MASK == CELL_DEP && source >> 56 != GROUP;
        u32::try_from(index).ok().filter(|_| is_dep).map(self.dep)
    }

    fn load(&self, core: &mut Core) -> Result<bool, Error> {
        let [address, size_at, offset, index, source] = [A0, A1, A2, A3, A4].map(|at| core.registers()[at]);
        let size = core.word(size_at).filter(|size| *size >= CACHED_CELL_BYTES_MIN);
        let (Some(size), Some(id)) = (size, self.dep(index, source)) else { return Ok(false) };
        let Ok(mut sources) = self.sources.lock() else { return Ok(false) };
        let Ok((cell, rest)) = sources.load_data(&id, offset, size) else { return Ok(false) };
        let length = cell.len() as u64;
        if length < CACHED_CELL_BYTES_MIN {
            return Ok(false);
        }
        core.store64(&size_at, &rest)?;
        sources.untrack_pages(core, address, length)?;
        // The pages stay marked as changed, so that a snapshot copies them. ckb-script lists them with their source
        // instead, which took 7 % of a worker's time.
        core.store_cell(address, &cell)?;
        end(core, length)
    }

    fn load_code(&self, core: &mut Core) -> Result<bool, Error> {
        let registers = [A0, A1, A2, A3, A4, A5].map(|at| core.registers()[at]);
        let [address, bytes, offset, length, index, source] = registers;
        let Some(id) = self.dep(index, source).filter(|_| (1..=bytes).contains(&length)) else {
            return Ok(false);
        };
        let Ok(mut sources) = self.sources.lock() else { return Ok(false) };
        let Ok((cell, _)) = sources.load_data(&id, 0, u64::MAX) else { return Ok(false) };
        let end_of = |start: usize| start.checked_add(usize::try_from(length).ok()?);
        let content = usize::try_from(offset).ok().and_then(|start| Some(start..end_of(start)?));
        let Some(content) = content.filter(|content| content.end <= cell.len()) else { return Ok(false) };
        core.store_code(address, bytes, &cell.slice(content))?;
        sources.track_pages(core, address, bytes, &id, offset)?;
        end(core, bytes)
    }
}

/// Ends a call that transferred `bytes`.
fn end(core: &mut Core, bytes: u64) -> Result<bool, Error> {
    core.add_cycles_no_checking(bytes.div_ceil(4))?;
    core.set_register(A0, SUCCESS);
    Ok(true)
}

impl<I: Clone + PartialEq + Send, D: DataSource<I> + Send> Syscalls<Core> for CellLoads<I, D> {
    fn initialize(&mut self, _core: &mut Core) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, core: &mut Core) -> Result<bool, Error> {
        match core.registers()[A7] {
            LOAD_CELL_DATA => self.load(core),
            LOAD_CODE => self.load_code(core),
            _ => Ok(false),
        }
    }
}

impl Core {
    /// As `store_bytes`, for a cell that memory may cache. All its pages are marked as changed.
    fn store_cell(&mut self, address: u64, cell: &Bytes) -> Result<(), Error> {
        let place = usize::try_from(address).unwrap_or(usize::MAX);
        let end = place.saturating_add(cell.len());
        if !self.is_plain(place..end) {
            return self.store_bytes(address, cell);
        }
        let pages = place.next_multiple_of(RISCV_PAGESIZE)..end / RISCV_PAGESIZE * RISCV_PAGESIZE;
        if pages.is_empty() {
            return self.store_bytes(address, cell);
        }
        let (head, tail) = (pages.start - place, pages.end - place);
        let content = cell.slice(head..tail);
        if self.cells.find(self.part(&pages), &content) {
            self.store_bytes(address, &cell[..head])?;
            return self.store_bytes(pages.end as u64, &cell[tail..]);
        }
        self.store_bytes(address, cell)?;
        self.cells.insert(self.part(&pages), content);
        Ok(())
    }

    /// As `init_pages` of executable pages, for a cell that memory may cache.
    fn store_code(&mut self, address: u64, bytes: u64, content: &Bytes) -> Result<(), Error> {
        const FLAGS: u8 = FLAG_EXECUTABLE | FLAG_FREEZED;
        let place = usize::try_from(address).unwrap_or(usize::MAX);
        let pages = place..place.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        let is_aligned =
            pages.start.is_multiple_of(RISCV_PAGESIZE) && pages.len().is_multiple_of(RISCV_PAGESIZE);
        if is_aligned && self.is_plain(pages.clone()) && self.cells.find(self.part(&pages), content) {
            let mut numbers = pages.start / RISCV_PAGESIZE..pages.end / RISCV_PAGESIZE;
            return numbers.try_for_each(|page| self.set_flag(page as u64, FLAGS));
        }
        self.init_pages(address, bytes, FLAGS, Some(content.clone()), 0)?;
        self.cells.insert(self.part(&pages), content.clone());
        Ok(())
    }

    /// Host addresses of a part of guest memory.
    fn part(&self, part: &Range<usize>) -> Range<usize> {
        let base = self.base().expose_provenance();
        base + part.start..base + part.end
    }

    /// Whether `part` is in guest memory, not executable, and initialised: after an exec, the interpreter zeroes
    /// each frame before its first use.
    fn is_plain(&self, part: Range<usize>) -> bool {
        const CODE: u8 = FLAG_EXECUTABLE | FLAG_FREEZED;
        let machine = self.as_ref();
        let units = |bytes| part.start / bytes..part.end.div_ceil(bytes);
        let flags = machine.flags.get(units(RISCV_PAGESIZE));
        let frames = machine.frames.get(units(MEMORY_FRAMESIZE));
        flags.is_some_and(|flags| flags.iter().all(|flags| flags & CODE == 0))
            && frames.is_some_and(|frames| frames.iter().all(|mark| *mark != 0))
    }
}
