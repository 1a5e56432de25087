//! Code that scripts loaded from cells at run time: its address and its file.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use antares_verifier::Cells;
use bytes::Bytes;
use ckb_script::types::{SgData, VmId};
use object::{
    LittleEndian,
    elf::{FileHeader64, PF_X, PT_LOAD},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use crate::session::limits::LOADS_MAX;

/// Number of the system call that loads code.
pub(crate) const LOAD_AS_CODE: u64 = 2091;
/// Sources of cells for this call: inputs and cell deps.
const INPUT: u64 = 1;
const CELL_DEP: u64 = 3;
/// Registers of its arguments.
const ADDRESS: usize = 10;
const OFFSET: usize = 12;
const INDEX: usize = 14;
const SOURCE: usize = 15;
/// Bytes of a page.
const PAGE: u64 = 4_096;

/// A file in a VM's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Address of its first segment.
    pub(crate) address: u64,
    pub(crate) elf: Bytes,
}

/// By VM, its program, and its cycles after the call: the file of which a part was loaded.
type Loads = BTreeMap<(VmId, usize, u64), LoadedFile>;

/// All loaded code in any replay, since all replays are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedCode(Arc<Mutex<Loads>>);

impl LoadedCode {
    /// Records that a VM loaded code with these registers before the call; returns whether it is from an ELF.
    pub(crate) fn record(
        &self,
        at: (VmId, usize, u64),
        registers: &[u64; 32],
        group: &SgData<Cells>,
    ) -> bool {
        let Some(elf) = cell(registers[SOURCE], registers[INDEX], group) else { return false };
        let first = segments(&elf).next().map_or(0, |segment| segment.address);
        let Some(address) = load_address(&elf, registers[ADDRESS], registers[OFFSET], first) else {
            return false;
        };
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if loads.len() < LOADS_MAX {
            loads.insert(at, LoadedFile { address, elf });
        }
        true
    }

    /// The files in the memory of a VM at a moment, each once.
    pub(crate) fn until(&self, vm: VmId, program: usize, cycles: u64) -> Vec<LoadedFile> {
        let loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = BTreeMap::new();
        for (_, file) in loads.range((vm, program, 0)..=(vm, program, cycles)) {
            files.insert(file.address, file.clone());
        }
        files.into_values().collect()
    }
}

fn cell(source: u64, index: u64, group: &SgData<Cells>) -> Option<Bytes> {
    let cells = match source {
        INPUT => &group.rtx.resolved_inputs,
        CELL_DEP => &group.rtx.resolved_cell_deps,
        _ => return None,
    };
    cells.get(usize::try_from(index).ok()?)?.mem_cell_data.clone()
}

/// Address of the first segment, if the code at `offset` in the file was loaded to `address`.
fn load_address(elf: &[u8], address: u64, offset: u64, first: u64) -> Option<u64> {
    // Pages are loaded as a whole, so the first one may start before its segment.
    let segment = segments(elf).find(|it| {
        let end = it.offset.saturating_add(it.bytes);
        it.is_code && (it.offset - it.offset % PAGE..end).contains(&offset)
    })?;
    let there = segment.address.wrapping_add(offset.wrapping_sub(segment.offset));
    Some(address.wrapping_sub(there).wrapping_add(first))
}

/// A loadable segment: its address and its bytes in the file.
pub(crate) struct Segment {
    pub(crate) address: u64,
    offset: u64,
    pub(crate) bytes: u64,
    is_code: bool,
}

/// The loadable segments of an ELF.
pub(crate) fn segments(elf: &[u8]) -> impl Iterator<Item = Segment> {
    let head = FileHeader64::<LittleEndian>::parse(elf).ok();
    let table = head.and_then(|head| head.program_headers(LittleEndian, elf).ok()).unwrap_or_default();
    table.iter().filter(|entry| entry.p_type(LittleEndian) == PT_LOAD).map(|entry| Segment {
        address: entry.p_vaddr(LittleEndian),
        offset: entry.p_offset(LittleEndian),
        bytes: entry.p_filesz(LittleEndian),
        is_code: entry.p_flags(LittleEndian).0 & PF_X.0 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF with two segments: read-only data, and code at 0x1210 from file offset 0x210.
    fn elf() -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, 2);
        for (flags, offset, address, bytes) in [(4_u64, 0_u64, 0_u64, 0x210_u64), (5, 0x210, 0x1210, 0x100)] {
            let words = [flags << 32 | 1, offset, address, address, bytes, bytes, PAGE];
            elf.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        elf
    }

    #[test]
    fn code_tells_where_the_whole_is() {
        // Its first page, as requested by loaders of whole pages, and a part of it.
        assert_eq!(load_address(&elf(), 0x40_1000, 0, 0), Some(0x40_0000));
        assert_eq!(load_address(&elf(), 0x40_1210, 0x210, 0), Some(0x40_0000));
        assert_eq!(load_address(&elf(), 0x40_1000, 0x310, 0), None);
    }

    #[test]
    fn what_is_cut_off_has_no_segments() {
        let elf = elf();
        assert!((0..elf.len()).all(|length| segments(&elf[..length]).count() == 0));
        assert_eq!(segments(&elf).count(), 2);
        let mut far = elf;
        far[32..40].fill(0xff);
        assert_eq!(segments(&far).count(), 0);
    }
}
