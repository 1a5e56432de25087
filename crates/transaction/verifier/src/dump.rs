//! Dumps the current state of a guest as an ELF: its memory, and a first page that restores its registers and
//! resumes it.

use ckb_vm::{Error, Memory, Register, SupportMachine};

use crate::guest::{is_code, read};

/// Bytes of a page of the VM.
const PAGE_BYTES: u64 = 4096;
/// Maximum zeros between two runs of bytes that are merged into one.
const GAP_BYTES_MAX: usize = 64;
/// Bytes of an ELF header and of a program header.
const ELF_HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
/// Range of a jump in bytes, in both directions.
const JUMP_BYTES_MAX: i64 = 1 << 20;

/// A range of memory whose pages have the same kind.
struct Segment {
    start: u64,
    bytes: Vec<u8>,
    is_code: bool,
}

/// The ELF of `guest`.
///
/// Its memory cannot be read, or the page below its lowest bytes, which gets the entry code, does not exist or
/// is too far away.
pub(crate) fn elf_of(guest: &mut impl SupportMachine) -> Result<Vec<u8>, Error> {
    let mut segments = segments(guest)?;
    let first = segments.first().map_or(0, |segment| segment.start / PAGE_BYTES * PAGE_BYTES);
    // The page before it, but not at address 0.
    let Some(start) = first.checked_sub(PAGE_BYTES).filter(|start| *start > 0) else {
        return Err(Error::Unexpected("Unexpected segments".to_owned()));
    };
    let (bytes, entry) = restoring(guest, start)?;
    segments.insert(0, Segment { start, bytes, is_code: true });
    Ok(write(&segments, entry))
}

fn segments(guest: &mut impl SupportMachine) -> Result<Vec<Segment>, Error> {
    let mut segments: Vec<Segment> = Vec::new();
    for page in 0..guest.memory().memory_size() as u64 / PAGE_BYTES {
        let start = page * PAGE_BYTES;
        let bytes = read(guest, start, PAGE_BYTES)?;
        let Some(begin) = bytes.iter().position(|byte| *byte != 0) else { continue };
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let (begin, end) = (begin / 8 * 8, end.next_multiple_of(8));
        let (at, is_code) = (start + begin as u64, is_code(guest, page)?);
        if let Some(last) = segments.last_mut() {
            let gap = at - (last.start + last.bytes.len() as u64);
            let gap = usize::try_from(gap).unwrap_or(usize::MAX);
            if last.is_code == is_code && gap <= GAP_BYTES_MAX {
                last.bytes.resize(last.bytes.len() + gap, 0);
                last.bytes.extend(&bytes[begin..end]);
                continue;
            }
        }
        segments.push(Segment { start: at, bytes: bytes[begin..end].to_vec(), is_code });
    }
    Ok(segments)
}

/// A page at `start` with the registers of `guest`, followed by code that loads them; and the address of that
/// code.
fn restoring(guest: &impl SupportMachine, start: u64) -> Result<(Vec<u8>, u64), Error> {
    const A0: u32 = 10;
    let mut page: Vec<u8> =
        guest.registers().iter().flat_map(|register| register.to_u64().to_le_bytes()).collect();
    let entry = start + page.len() as u64;
    let load = |register: u32| (register * 8) << 20 | A0 << 15 | 3 << 12 | register << 7 | 0x03;
    // auipc a0, 0; addi a0, a0, -(bytes of registers).
    let back = (-256_i32).cast_unsigned() << 20;
    let mut code = vec![A0 << 7 | 0x17, back | A0 << 15 | A0 << 7 | 0x13];
    code.extend((1..32).filter(|register| *register != A0).map(load));
    code.push(load(A0));
    let here = entry + 4 * code.len() as u64;
    let distance = guest.pc().to_u64().wrapping_sub(here).cast_signed();
    if !(-JUMP_BYTES_MAX..JUMP_BYTES_MAX).contains(&distance) {
        return Err(Error::Unexpected("Unexpected masked".to_owned()));
    }
    code.push(jump(distance));
    page.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    Ok((page, entry))
}

/// `jal zero, distance`.
fn jump(distance: i64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "21 bits of it are used")]
    let bits = distance.cast_unsigned() as u32;
    (bits >> 20 & 1) << 31
        | (bits >> 1 & 0x3ff) << 21
        | (bits >> 11 & 1) << 20
        | (bits >> 12 & 0xff) << 12
        | 0x6f
}

fn write(segments: &[Segment], entry: u64) -> Vec<u8> {
    let count = u16::try_from(segments.len()).unwrap_or(u16::MAX);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // Type EXEC, machine RISC-V, version 1.
    elf.extend([2, 0, 0xf3, 0, 1, 0, 0, 0]);
    elf.extend([entry, ELF_HEADER_BYTES, 0].map(u64::to_le_bytes).concat());
    // Flags: compressed code. No sections.
    elf.extend(1_u32.to_le_bytes());
    elf.extend([64, 56, count, 64, 0, 0_u16].map(u16::to_le_bytes).concat());
    let mut offset = ELF_HEADER_BYTES + PROGRAM_HEADER_BYTES * u64::from(count);
    for segment in segments {
        let (length, flags) = (segment.bytes.len() as u64, if segment.is_code { 5_u32 } else { 6 });
        elf.extend([1_u32, flags].map(u32::to_le_bytes).concat());
        let fields = [offset, segment.start, segment.start, length, length, PAGE_BYTES];
        elf.extend(fields.map(u64::to_le_bytes).concat());
        offset += length;
    }
    segments.iter().for_each(|segment| elf.extend(&segment.bytes));
    elf
}
