//! Builds the frame table of a linked library from the debug information of `emit/debug.rs`.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use antares_abi::{FrameRow, FrameTable};
use gimli::{
    AttributeValue, BaseAddresses, CfaRule, DebuggingInformationEntry, EndianSlice, LittleEndian, UnitRef,
    UnwindContext, UnwindSection, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, elf};

use crate::Result;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Guest code in the library: a function, or an inlined call.
#[derive(Debug)]
struct Piece {
    addresses: Range<u64>,
    /// Number of inlined calls around it, including itself.
    depth: usize,
    /// Guest address of the function.
    entry: u32,
    /// Guest address of the inlined call; 0 for a function.
    caller: u32,
}

/// Addresses of code, and a number that belongs to it.
type Numbered = (Range<u64>, u32);

/// The frame table of `library`, which still has its debug information.
pub(crate) fn table(library: &[u8]) -> Result<FrameTable> {
    let file = object::File::parse(library)?;
    let Some((text, code)) = text(&file)? else { return Ok(FrameTable::new([])) };
    let section = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, object::Error> {
        file.section_by_name(id.name()).map_or(Ok(Cow::default()), |section| section.uncompressed_data())
    };
    let sections = gimli::DwarfSections::load(section)?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut pieces = functions(&file);
    let mut lines = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let unit = unit.unit_ref(&dwarf);
        inlined(unit, &mut pieces)?;
        lines_of(unit, &mut lines)?;
    }
    lines.sort_by_key(|(addresses, _): &Numbered| addresses.start);
    pieces.sort_by_key(|piece| (piece.addresses.start, piece.depth));
    let frames = section(gimli::SectionId::DebugFrame)?;
    let levels = levels(&frames)?;
    let mut rows = rows(&text, &pieces, &levels, &lines);
    keep_calls(&mut rows, code);
    Ok(FrameTable::new(rows))
}

/// The executable segment: its addresses and bytes.
type Text<'d> = (Range<u64>, &'d [u8]);

fn text<'d>(file: &object::File<'d>) -> Result<Option<Text<'d>>, object::Error> {
    let is_text = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0);
    let Some(segment) = file.segments().find(|segment| is_text(segment.flags())) else { return Ok(None) };
    Ok(Some((segment.address()..segment.address() + segment.size(), segment.data()?)))
}

/// The guest functions, by the symbols that `emit.rs` gave them.
fn functions(file: &object::File) -> Vec<Piece> {
    let symbols = file.symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?.strip_prefix("guest_")?;
        let entry = u32::from_str_radix(name.split('_').next()?, 16).ok()?;
        let addresses = symbol.address()..symbol.address() + symbol.size();
        (!addresses.is_empty()).then_some(Piece { addresses, depth: 0, entry, caller: 0 })
    });
    symbols.collect()
}

/// Collects the inlined calls.
fn inlined(unit: UnitRef<'_, Reader<'_>>, pieces: &mut Vec<Piece>) -> Result<(), gimli::Error> {
    let mut entries = unit.entries();
    // By depth in the tree: whether the entry is an inlined call.
    let mut path: Vec<bool> = Vec::new();
    while let Some(entry) = entries.next_dfs()? {
        let level = usize::try_from(entry.depth()).unwrap_or(0);
        let is_inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
        path.resize(level, false);
        path.push(is_inlined);
        if !is_inlined {
            continue;
        }
        let Some(function) = origin(unit, entry)? else { continue };
        let line = entry.attr_value(gimli::DW_AT_call_line).and_then(|value| value.udata_value());
        let caller = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let depth = path.iter().filter(|is_inlined| **is_inlined).count();
        let mut ranges = unit.die_ranges(entry)?;
        while let Some(range) = ranges.next()? {
            if range.begin < range.end {
                pieces.push(Piece { addresses: range.begin..range.end, depth, entry: function, caller });
            }
        }
    }
    Ok(())
}

/// The guest address of the function that `entry` is a copy of.
fn origin(
    unit: UnitRef<'_, Reader<'_>>,
    entry: &DebuggingInformationEntry<Reader<'_>>,
) -> Result<Option<u32>, gimli::Error> {
    let Some(AttributeValue::UnitRef(offset)) = entry.attr_value(gimli::DW_AT_abstract_origin) else {
        return Ok(None);
    };
    let origin = unit.entry(offset)?;
    let Some(name) = origin.attr_value(gimli::DW_AT_name) else { return Ok(None) };
    let name = unit.attr_string(name)?;
    Ok(u32::from_str_radix(&name.to_string_lossy(), 16).ok())
}

/// The lines of all code.
fn lines_of(unit: UnitRef<'_, Reader<'_>>, lines: &mut Vec<Numbered>) -> Result<(), gimli::Error> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut rows = program.rows();
    let mut last: Option<(u64, u32)> = None;
    while let Some((_, row)) = rows.next_row()? {
        if let Some((start, line)) = last.take()
            && start < row.address()
        {
            lines.push((start..row.address(), line));
        }
        if !row.end_sequence() {
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            last = Some((row.address(), line));
        }
    }
    Ok(())
}

/// The distance from the stack pointer to the end of the frame, for all code.
fn levels(section: &[u8]) -> Result<Vec<Numbered>, gimli::Error> {
    let mut frames = gimli::DebugFrame::new(section, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default();
    let mut context = UnwindContext::new();
    let mut levels = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next()? {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|_, bases, offset| frames.cie_from_offset(bases, offset))?;
        let mut table = fde.rows(&frames, &bases, &mut context)?;
        while let Some(row) = table.next_row()? {
            let bytes = match *row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } if register == X86_64::RSP => {
                    u32::try_from(offset).unwrap_or(0)
                }
                _ => 0,
            };
            levels.push((row.start_address()..row.end_address(), bytes));
        }
    }
    levels.sort_by_key(|(addresses, _)| addresses.start);
    Ok(levels)
}

/// The number of the range that contains `address`, among sorted, disjoint ranges; 0 if there is none.
fn at(sorted: &[Numbered], address: u64) -> u32 {
    let index = sorted.partition_point(|(addresses, _)| addresses.start <= address);
    let last = sorted[..index].last().filter(|(addresses, _)| addresses.contains(&address));
    last.map_or(0, |(_, number)| *number)
}

fn rows(text: &Range<u64>, pieces: &[Piece], levels: &[Numbered], lines: &[Numbered]) -> Vec<FrameRow> {
    let mut places = BTreeSet::from([text.start]);
    let numbered = levels.iter().chain(lines).map(|(addresses, _)| addresses);
    let ranges = pieces.iter().map(|piece| &piece.addresses).chain(numbered);
    places.extend(ranges.flat_map(|range| [range.start, range.end]));
    let mut open: Vec<&Piece> = Vec::new();
    let mut next = pieces.iter().peekable();
    let mut rows = Vec::with_capacity(places.len());
    for place in places {
        open.retain(|piece| piece.addresses.end > place);
        while let Some(piece) = next.next_if(|piece| piece.addresses.start <= place) {
            open.push(piece);
        }
        open.sort_by_key(|piece| piece.depth);
        rows.push(FrameRow {
            start: u32::try_from(place.saturating_sub(text.start)).unwrap_or(u32::MAX),
            bytes: at(levels, place),
            chain: chain(&open, at(lines, place)),
        });
    }
    rows
}

/// Guest addresses, outermost first. For each piece it is the address of the call to the next piece or at the
/// line, or else the function's.
fn chain(open: &[&Piece], line: u32) -> Vec<u32> {
    let calls = open.iter().skip(1).map(|piece| piece.caller).chain([line]);
    open.iter().zip(calls).map(|(piece, call)| if call == 0 { piece.entry } else { call }).collect()
}

/// Drops rows without a call: profiles only look up return addresses. An unneeded row, for bytes that merely
/// look like a call, does no harm.
fn keep_calls(rows: &mut Vec<FrameRow>, code: &[u8]) {
    let mut ends: Vec<usize> = (0..code.len()).filter_map(|at| Some(at + call_bytes(&code[at..])?)).collect();
    ends.sort_unstable();
    let starts: Vec<usize> = rows.iter().map(|row| row.start as usize).chain([usize::MAX]).collect();
    let mut bounds = starts.windows(2);
    rows.retain(|_| {
        let Some(&[start, end]) = bounds.next() else { return true };
        // Lookups use the last byte of the call.
        ends.get(ends.partition_point(|place| *place <= start)).is_some_and(|place| *place <= end)
    });
}

/// The length of the call at the start of `code`, if there is one. Prefixes precede it.
fn call_bytes(code: &[u8]) -> Option<usize> {
    /// `call rel32`.
    const NEAR: u8 = 0xe8;
    /// An indirect `call`, if bits 3 to 5 of the next byte are 2.
    const INDIRECT: u8 = 0xff;
    let (first, rest) = code.split_first()?;
    if *first == NEAR {
        return Some(1 + 4);
    }
    let (form, rest) = rest.split_first()?;
    if *first != INDIRECT || form >> 3 & 7 != 2 {
        return None;
    }
    let (mode, register) = (form >> 6, form & 7);
    let has_index = mode != 3 && register == 4;
    let base = if has_index { rest.first()? & 7 } else { register };
    let distance = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(2 + usize::from(has_index) + distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_forms_are_as_long_as_they_are() {
        // From the processor's manual: call rel32, *rax, *(rax), *8(rax), *0x100(rax), *(rsp), *8(rsp),
        // *0x100(rsp), *0x100(,rax,8), *0x100(rip), and *r11 and *(r12) after their prefixes.
        let calls = "e800000000 ffd0 ff10 ff5008 ff9000010000 ff1424 ff542408 ff942400010000 \
                     ff14c500010000 ff1500010000 ffd3 ff1424";
        for call in calls.split(' ') {
            let byte = |at| u8::from_str_radix(&call[at..at + 2], 16).unwrap();
            let code: Vec<_> = (0..call.len()).step_by(2).map(byte).collect();
            assert_eq!(call_bytes(&code), Some(code.len()), "{call}");
        }
        // jmp *rax, inc rax, nop, and truncated calls.
        for code in [&[0xff, 0xe0][..], &[0xff, 0xc0], &[0x90], &[0xff], &[0xff, 0x14], &[]] {
            assert_eq!(call_bytes(code), None, "{code:x?}");
        }
    }

    #[test]
    fn rows_with_the_end_of_a_call_stay() {
        let code = [0x90, 0x90, 0xe8, 0, 0, 0, 0, 0x90, 0x90, 0x41, 0xff, 0xd3];
        let row = |start| FrameRow { start, ..FrameRow::default() };
        let mut rows: Vec<FrameRow> = [0, 2, 6, 7, 9, 11, 12].map(row).into();
        keep_calls(&mut rows, &code);
        assert_eq!(rows, [row(6), row(11)]);
    }
}
