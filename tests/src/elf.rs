//! A minimal writer of RISC-V ELF files: program headers, and section headers only if there are symbols.

use std::ops::Range;

/// A loadable segment. Its address and its offset in the file agree modulo the page size.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Guest address.
    pub address: u64,
    /// 4 read, 2 write, 1 execute.
    pub flags: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Size in memory; the rest after `bytes` is zero.
    pub memory_bytes: u64,
}

impl Segment {
    /// A segment that is whole in the file.
    #[must_use]
    pub fn whole(address: u64, flags: u32, bytes: Vec<u8>) -> Self {
        Self { address, flags, memory_bytes: bytes.len() as u64, bytes }
    }
}

/// The bytes of instruction words.
#[must_use]
pub fn code(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file without section headers.
#[must_use]
pub fn file(entry: u64, segments: Vec<Segment>) -> Vec<u8> {
    Elf { entry, segments, symbols: None }.to_bytes()
}

/// A function symbol.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub name: String,
    pub address: u64,
    /// Its size in bytes, 0 for unknown.
    pub size: u64,
}

/// An executable.
#[derive(Clone, Debug)]
pub struct Elf {
    /// Entry point.
    pub entry: u64,
    pub segments: Vec<Segment>,
    /// Symbols; `None` omits all section headers, like `sstrip`.
    pub symbols: Option<Vec<Symbol>>,
}

const HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

impl Elf {
    /// Encodes the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut headers: Vec<u8> = Vec::new();
        let count = self.segments.len() as u64;
        let start = HEADER_BYTES + PROGRAM_HEADER_BYTES * count;
        for segment in &self.segments {
            let at = start + body.len() as u64;
            let offset = at + (segment.address.wrapping_sub(at)) % PAGE_BYTES;
            body.resize(body.len() + (offset - at) as usize, 0);
            body.extend_from_slice(&segment.bytes);
            headers.extend([1, segment.flags].map(u32::to_le_bytes).as_flattened());
            let file_bytes = segment.bytes.len() as u64;
            let numbers =
                [offset, segment.address, segment.address, file_bytes, segment.memory_bytes, PAGE_BYTES];
            headers.extend(numbers.map(u64::to_le_bytes).as_flattened());
        }
        let (sections, section_count) = self.section_headers(start + body.len() as u64, &mut body);
        let mut bytes = self.header(sections, section_count);
        bytes.extend(headers);
        bytes.extend(body);
        bytes
    }

    fn header(&self, sections: u64, section_count: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend([2, 243].map(u16::to_le_bytes).as_flattened());
        bytes.extend([1].map(u32::to_le_bytes).as_flattened());
        bytes.extend([self.entry, HEADER_BYTES, sections].map(u64::to_le_bytes).as_flattened());
        bytes.extend([1].map(u32::to_le_bytes).as_flattened());
        let segments = u16::try_from(self.segments.len()).unwrap_or(u16::MAX);
        let string_section = section_count.saturating_sub(1);
        bytes.extend(
            [64, 56, segments, 64, section_count, string_section].map(u16::to_le_bytes).as_flattened(),
        );
        bytes
    }

    /// Appends symbols, strings and section headers to `body`, which ends at offset `at`; returns the offset
    /// and number of the headers.
    fn section_headers(&self, at: u64, body: &mut Vec<u8>) -> (u64, u16) {
        let Some(symbols) = &self.symbols else { return (0, 0) };
        let mut strings = b"\0.text\0.symtab\0.strtab\0".to_vec();
        let mut table: Vec<u8> = vec![0; 24];
        for symbol in symbols {
            table.extend([u32::try_from(strings.len()).unwrap_or(0)].map(u32::to_le_bytes).as_flattened());
            strings.extend(symbol.name.bytes().chain([0]));
            table.extend_from_slice(&[0x12, 0, 1, 0]);
            table.extend([symbol.address, symbol.size].map(u64::to_le_bytes).as_flattened());
        }
        let text = &self.segments[0];
        let text_offset = HEADER_BYTES + PROGRAM_HEADER_BYTES * self.segments.len() as u64;
        let text_offset = text_offset + text.address.wrapping_sub(text_offset) % PAGE_BYTES;
        let strings_at = at + table.len() as u64;
        let headers_at = strings_at + strings.len() as u64;
        let mut headers = vec![0; SECTION_HEADER_BYTES as usize];
        let text_bytes = text.bytes.len() as u64;
        section(&mut headers, [1, 1], [6, text.address, text_offset, text_bytes], [0, 0], [2, 0]);
        section(&mut headers, [7, 2], [0, 0, at, table.len() as u64], [3, 1], [8, 24]);
        section(&mut headers, [15, 3], [0, 0, strings_at, strings.len() as u64], [0, 0], [1, 0]);
        body.extend(table);
        body.extend(strings);
        body.extend(headers);
        (headers_at, 4)
    }
}

/// One section header: name and type; flags, address, offset, size; link and info; alignment and entry size.
fn section(to: &mut Vec<u8>, kind: [u32; 2], place: [u64; 4], link: [u32; 2], rest: [u64; 2]) {
    to.extend(kind.map(u32::to_le_bytes).as_flattened());
    to.extend(place.map(u64::to_le_bytes).as_flattened());
    to.extend(link.map(u32::to_le_bytes).as_flattened());
    to.extend(rest.map(u64::to_le_bytes).as_flattened());
}

/// A loadable segment of a parsed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSegment {
    /// Guest address.
    pub address: u64,
    /// 4 read, 2 write, 1 execute.
    pub flags: u32,
    /// Its range in the file, truncated at the file's end.
    pub file: Range<usize>,
}

/// The loadable segments of a 64-bit little-endian ELF; empty for any other file.
#[must_use]
pub fn segments(elf: &[u8]) -> Vec<LoadSegment> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return Vec::new();
    }
    let headers = number(elf, 32, 8).unwrap_or(0) as usize;
    let count = number(elf, 56, 2).unwrap_or(0) as usize;
    let segment = |index: usize| {
        let at = headers.checked_add(index * PROGRAM_HEADER_BYTES as usize)?;
        if number(elf, at, 4)? != 1 {
            return None;
        }
        let start = (number(elf, at + 8, 8)? as usize).min(elf.len());
        let end = start.saturating_add(number(elf, at + 32, 8)? as usize).min(elf.len());
        Some(LoadSegment {
            address: number(elf, at + 16, 8)?,
            flags: number(elf, at + 4, 4)? as u32,
            file: start..end,
        })
    };
    (0..count).filter_map(segment).collect()
}

/// The little-endian number of `width` bytes at `at`.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Parts to remove from a file before it is run: none of them may affect the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// Names, addresses and sizes of symbols.
    Symbols,
    /// Section headers, and everything after the last segment, like `sstrip`.
    Sections,
}

impl Cut {
    /// All cuts.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Symbols, Self::Sections];

    /// Removes the parts from the file.
    #[must_use]
    pub fn apply(self, elf: &[u8]) -> Vec<u8> {
        let mut bytes = elf.to_vec();
        match self {
            Self::Nothing => {}
            Self::Symbols => symbol_tables(elf).into_iter().for_each(|table| bytes[table].fill(0)),
            Self::Sections => {
                let end = segments(elf).iter().map(|segment| segment.file.end).max().unwrap_or(elf.len());
                let headers = number(elf, 32, 8).unwrap_or(0) + number(elf, 56, 2).unwrap_or(0) * 56;
                bytes.truncate(end.max(headers as usize));
                // Offset of the section headers; their size and number, and the index of the names.
                for (at, width) in [(40, 8), (58, 6)] {
                    if let Some(field) = bytes.get_mut(at..at + width) {
                        field.fill(0);
                    }
                }
            }
        }
        bytes
    }
}

/// Ranges of symbols and their names: sections of type SYMTAB, and the linked STRTAB. Excludes loaded ones,
/// which are part of the program.
fn symbol_tables(elf: &[u8]) -> Vec<Range<usize>> {
    let headers = number(elf, 40, 8).unwrap_or(0) as usize;
    let count = number(elf, 60, 2).unwrap_or(0) as usize;
    let header = |index: usize| headers.checked_add(index * SECTION_HEADER_BYTES as usize);
    let contents = |at: usize| {
        let start = number(elf, at + 24, 8)? as usize;
        let end = start.checked_add(number(elf, at + 32, 8)? as usize)?;
        (end <= elf.len()).then_some(start..end)
    };
    let loaded = segments(elf);
    let is_loaded =
        |range: &Range<usize>| loaded.iter().any(|s| s.file.start < range.end && range.start < s.file.end);
    let symbols = (0..count).filter_map(header).filter(|at| number(elf, at + 4, 4) == Some(2));
    let both = symbols.flat_map(|at| {
        let strings = number(elf, at + 40, 4).and_then(|index| header(index as usize));
        [Some(at), strings].into_iter().flatten()
    });
    both.filter_map(contents).filter(|range| !is_loaded(range)).collect()
}
