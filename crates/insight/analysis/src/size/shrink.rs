//! Shrinks a script: removes what the VM never loads, and moves segments together.

use antares_abi::{CompileLimits, CompileOptions, Isa};
use antares_program::Image;
use object::{Object as _, ObjectSymbol as _, read::elf::ElfFile64};

/// Bytes of a 64-bit ELF header, and of each of its program headers.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Type of the program headers of loaded segments.
const LOAD: u32 = 1;

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

fn number<const N: usize>(elf: &[u8], at: usize) -> Option<u64> {
    let bytes = elf.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

struct Load {
    header: usize,
    offset: usize,
    bytes: usize,
}

/// The loaded segments with their bytes in the file.
fn loads(elf: &[u8]) -> Option<Vec<Load>> {
    let place = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let (table, size) = (place(number::<8>(elf, 32))?, place(number::<2>(elf, 54))?);
    let count = place(number::<2>(elf, 56))?;
    if size != PROGRAM_HEADER {
        return None;
    }
    let mut loads = Vec::new();
    for index in 0..count {
        let header = table.checked_add(index * PROGRAM_HEADER)?;
        if number::<4>(elf, header)? != u64::from(LOAD) {
            continue;
        }
        let (offset, bytes) = (place(number::<8>(elf, header + 8))?, place(number::<8>(elf, header + 32))?);
        elf.get(offset..offset.checked_add(bytes)?)?;
        loads.push(Load { header, offset, bytes });
    }
    Some(loads)
}

/// Removes everything after the last segment.
fn cut(elf: &[u8]) -> Result<Vec<u8>, ShrinkError> {
    let loads = loads(elf).ok_or(ShrinkError::Headers)?;
    let table_end =
        number::<8>(elf, 32).unwrap_or(0) + number::<2>(elf, 56).unwrap_or(0) * PROGRAM_HEADER as u64;
    let end = loads.iter().map(|load| load.offset + load.bytes).max().unwrap_or(0);
    let end = end.max(usize::try_from(table_end).unwrap_or(usize::MAX)).max(HEADER);
    let mut smaller = elf.get(..end).ok_or(ShrinkError::Headers)?.to_vec();
    without_sections(&mut smaller);
    Ok(smaller)
}

/// Keeps only headers and segments. `None` if a segment contains the headers, which then must not change.
fn packed(elf: &[u8]) -> Option<Vec<u8>> {
    let loads = loads(elf)?;
    let headers_end = number::<8>(elf, 32)? + number::<2>(elf, 56)? * PROGRAM_HEADER as u64;
    if loads.iter().any(|load| (load.offset as u64) < headers_end) {
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
