//! Shrinks a script: removes what the VM never loads, and moves segments together.

use antares_abi::{CompileLimits, CompileOptions, Isa};
use antares_program::Image;
use object::{
    LittleEndian, Object as _, ObjectSymbol as _,
    elf::{FileHeader64, PT_LOAD, ProgramHeader64},
    read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _},
};

/// Bytes of a 64-bit ELF header, and of each of its program headers.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A smaller script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The ELF.
    pub elf: Vec<u8>,
    /// Whether segments were moved in the file, and only their program headers remain.
    pub is_packed: bool,
    /// Number of memory bytes that differ: the fields about sections, if a segment contains the ELF header.
    pub header_bytes: usize,
}

/// Why a script is not shrunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShrinkError {
    /// No VM version loads the file.
    #[error("ckb-vm loads this file in no version")]
    NoScript,
    /// Shrinking removes what dynamic loading reads.
    #[error("left as it is: this is a shared library, and ckb_dlopen2 reads its section headers")]
    Library,
    /// A table or a segment is outside of the file.
    #[error("the program headers do not describe this file")]
    Headers,
    /// The result would differ in memory.
    #[error("left as it is: with fewer bytes it would be another script in memory")]
    Differs,
}

/// Removes what the VM never loads from `elf` and moves its segments together. Verifies that each VM version
/// which loads `elf` loads the result to the same memory, permissions and entry.
///
/// # Errors
/// It cannot be shrunk, or the result would differ.
pub fn shrink(elf: &[u8]) -> Result<Shrunk, ShrinkError> {
    let before = images(elf);
    if before.iter().all(Option::is_none) {
        return Err(ShrinkError::NoScript);
    }
    if is_library(elf) {
        return Err(ShrinkError::Library);
    }
    let packed = packed(elf);
    let cut = cut(elf)?;
    let candidates = [packed.map(|elf| (elf, true)), Some((cut, false))];
    let mut same = candidates.into_iter().flatten().filter_map(|(smaller, is_packed)| {
        let header_bytes = differing(&before, &images(&smaller))?;
        Some(Shrunk { elf: smaller, is_packed, header_bytes })
    });
    same.find(|shrunk| shrunk.elf.len() <= elf.len()).ok_or(ShrinkError::Differs)
}

/// Whether other programs find functions in it by name.
fn is_library(elf: &[u8]) -> bool {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(elf) else { return false };
    file.entry() == 0 && file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.is_global())
}

/// The memory image in each VM version.
fn images(elf: &[u8]) -> [Option<Image>; 3] {
    [0, 1, 2].map(|vm_version| {
        let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        antares_program::read(elf, options, &CompileLimits::DEFAULT).ok()
    })
}

/// Number of bytes in which two scripts differ in memory. `None` if anything else differs, or other bytes
/// than the section fields of the header.
fn differing(before: &[Option<Image>; 3], after: &[Option<Image>; 3]) -> Option<usize> {
    let mut most = 0;
    for (before, after) in before.iter().zip(after) {
        match (before, after) {
            (None, None) => {}
            (Some(before), Some(after)) => {
                let is_same = before.entry == after.entry
                    && before.executable == after.executable
                    && before.segments == after.segments;
                let bytes = before.differing_bytes(after)?;
                // Offset, entry size and number of section headers, and the index of the names: fourteen
                // bytes of one header.
                let first = bytes.first().copied().unwrap_or(0);
                let is_header = bytes.iter().all(|at| {
                    let header = first & !0xfff;
                    matches!(at.wrapping_sub(header), 40..48 | 58..64)
                });
                if !is_same || !is_header {
                    return None;
                }
                most = most.max(bytes.len());
            }
            _ => return None,
        }
    }
    Some(most)
}

struct Load {
    header: usize,
    offset: usize,
    bytes: usize,
}

/// The loaded segments with their bytes in the file, and the end of the table of all segments.
fn loads(elf: &[u8]) -> Option<(Vec<Load>, usize)> {
    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let table = usize::try_from(header.e_phoff(LittleEndian)).ok()?;
    let entries = header.program_headers(LittleEndian, elf).ok()?;
    let mut loads = Vec::new();
    let is_loaded = |entry: &ProgramHeader64<LittleEndian>| entry.p_type(LittleEndian) == PT_LOAD;
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| is_loaded(entry)) {
        let (offset, bytes) = entry.file_range(LittleEndian);
        let (offset, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        elf.get(offset..offset.checked_add(bytes)?)?;
        loads.push(Load { header: table + index * PROGRAM_HEADER, offset, bytes });
    }
    Some((loads, table + entries.len() * PROGRAM_HEADER))
}

/// Removes everything after the last segment.
fn cut(elf: &[u8]) -> Result<Vec<u8>, ShrinkError> {
    let (loads, table_end) = loads(elf).ok_or(ShrinkError::Headers)?;
    let end = loads.iter().map(|load| load.offset + load.bytes).max().unwrap_or(0);
    let end = end.max(table_end).max(HEADER);
    let mut smaller = elf.get(..end).ok_or(ShrinkError::Headers)?.to_vec();
    without_sections(&mut smaller);
    Ok(smaller)
}

/// Keeps only headers and segments. `None` if a segment contains the headers, which then must not change.
fn packed(elf: &[u8]) -> Option<Vec<u8>> {
    let (loads, headers_end) = loads(elf)?;
    if loads.iter().any(|load| load.offset < headers_end) {
        return None;
    }
    let mut smaller = elf.get(..HEADER)?.to_vec();
    for load in &loads {
        smaller.extend_from_slice(elf.get(load.header..load.header + PROGRAM_HEADER)?);
    }
    smaller.get_mut(32..40)?.copy_from_slice(&(HEADER as u64).to_le_bytes());
    smaller.get_mut(56..58)?.copy_from_slice(&u16::try_from(loads.len()).ok()?.to_le_bytes());
    for (index, load) in loads.iter().enumerate() {
        let at = HEADER + index * PROGRAM_HEADER + 8;
        let offset = smaller.len() as u64;
        smaller.get_mut(at..at + 8)?.copy_from_slice(&offset.to_le_bytes());
        smaller.extend_from_slice(elf.get(load.offset..load.offset + load.bytes)?);
    }
    without_sections(&mut smaller);
    Some(smaller)
}

/// Clears the section fields of the header.
fn without_sections(elf: &mut [u8]) {
    for range in [40..48, 58..64] {
        if let Some(bytes) = elf.get_mut(range) {
            bytes.fill(0);
        }
    }
}
