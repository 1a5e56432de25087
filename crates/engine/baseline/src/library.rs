//! Writes the shared object: an ELF file with two segments (data, code), one symbol and no relocations.
//!
//! Addresses in the file equal file offsets.

use std::collections::HashMap;

use antares_abi::{ABI_VERSION, EntryTable, FrameTable, LIBRARY_SYMBOL, LibraryHeader};
use antares_ir::{Function, Module};
use antares_program::FunctionId;
use object::elf;

use crate::{BaselineError, assembler::Assembler, fitted};

const PAGE_BYTES: usize = 4096;
const FILE_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const SEGMENTS: usize = 4;
const SYMBOL_BYTES: usize = 24;
const DYNAMIC_ENTRY_BYTES: usize = 16;

/// Breakpoints between the code and the end of its page.
const FILLER: u8 = 0xcc;

/// Bytes of the header, which is the first of the data.
pub(crate) const HEADER_BYTES: usize = size_of::<LibraryHeader>();

/// Where the entry table is in the data. Its directory follows the header.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    /// Pages of guest code, which is the number of directory entries.
    pub(crate) pages: usize,
    /// Offset of the entries.
    pub(crate) entries: usize,
    /// Number of entries.
    pub(crate) length: usize,
    /// By function: the index of its thunk's entry.
    places: HashMap<FunctionId, usize>,
}

impl Tables {
    /// The offset in the data of a function's entry, if it has one.
    pub(crate) fn entry(&self, function: FunctionId) -> Option<usize> {
        self.places.get(&function).map(|index| self.entries + 4 * index)
    }
}

/// Reserves space for the header and the entry table at the start of the data, with thunks for `functions`.
pub(crate) fn reserve<'m>(
    module: &Module,
    asm: &mut Assembler,
    functions: impl Iterator<Item = &'m Function>,
) -> Tables {
    let thunks = functions.map(|function| (function.entry.0, function.id));
    let table = EntryTable::new(module.code_start, module.code_end, thunks);
    let entries = HEADER_BYTES + (2 * table.directory.len()).next_multiple_of(4);
    asm.data.resize(HEADER_BYTES, 0);
    for group in &table.directory {
        asm.data.extend(group.to_le_bytes());
    }
    asm.data.resize(entries + 4 * table.entries.len(), 0);
    let places = table.entries.iter().enumerate().filter_map(|(index, id)| Some(((*id)?, index))).collect();
    Tables { pages: table.directory.len(), entries, length: table.entries.len(), places }
}

/// Offsets of all parts of the file.
struct Layout {
    hash: usize,
    symbols: usize,
    strings: usize,
    strings_end: usize,
    dynamic: usize,
    dynamic_end: usize,
    data: usize,
    data_end: usize,
    code: usize,
    code_end: usize,
}

/// A GNU hash table with one symbol: 4 words, a 64-bit filter word, a bucket, a chain entry.
const HASH_BYTES: usize = 4 * 4 + 8 + 4 + 4;
const DYNAMIC_ENTRIES: usize = 6;

impl Layout {
    fn new(asm: &Assembler) -> Self {
        let hash = FILE_HEADER_BYTES + SEGMENTS * PROGRAM_HEADER_BYTES;
        let symbols = (hash + HASH_BYTES).next_multiple_of(8);
        let strings = symbols + 2 * SYMBOL_BYTES;
        let strings_end = strings + LIBRARY_SYMBOL.len() + 2;
        let dynamic = strings_end.next_multiple_of(8);
        let dynamic_end = dynamic + DYNAMIC_ENTRIES * DYNAMIC_ENTRY_BYTES;
        let data = dynamic_end.next_multiple_of(16);
        let data_end = data + asm.data.len();
        let code = data_end.next_multiple_of(PAGE_BYTES);
        // The loader maps whole pages, so the filler of the last page is executable too.
        let code_end = (code + asm.code.len()).next_multiple_of(PAGE_BYTES);
        Self { hash, symbols, strings, strings_end, dynamic, dynamic_end, data, data_end, code, code_end }
    }
}

/// Writes the shared object with the code and data of `asm`.
pub(crate) fn link(
    module: &Module,
    mut asm: Assembler,
    tables: &Tables,
    magic: [u8; 8],
) -> Result<Vec<u8>, BaselineError> {
    let layout = Layout::new(&asm);
    asm.finish(layout.code - layout.data)?;
    let frames = FrameTable::new(std::mem::take(&mut asm.rows));
    asm.data[..HEADER_BYTES].copy_from_slice(&header(module, tables, magic));
    let mut file = Vec::with_capacity(layout.code_end);
    file_header(&mut file, &layout);
    file.resize(layout.hash, 0);
    hash_table(&mut file);
    file.resize(layout.symbols, 0);
    symbols(&mut file, &layout);
    file.resize(layout.strings, 0);
    file.push(0);
    file.extend(LIBRARY_SYMBOL.as_bytes());
    file.resize(layout.dynamic, 0);
    dynamic_section(&mut file, &layout);
    file.resize(layout.data, 0);
    file.append(&mut asm.data);
    file.resize(layout.code, 0);
    file.append(&mut asm.code);
    file.resize(layout.code_end, FILLER);
    frames.append_to(&mut file);
    Ok(file)
}

fn word(file: &mut Vec<u8>, number: u32) {
    file.extend(number.to_le_bytes());
}

fn double(file: &mut Vec<u8>, number: usize) {
    file.extend((number as u64).to_le_bytes());
}

/// The header in the layout of [`LibraryHeader`]. The baseline emits one host store for each guest store.
fn header(module: &Module, tables: &Tables, magic: [u8; 8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend(magic);
    let options = module.options;
    let (pages, length) = (fitted(tables.pages), fitted(tables.length));
    let retained_stores = module.retained_stores().max(1);
    for number in [ABI_VERSION, options.vm_version, u32::from(options.isa.0), pages, retained_stores, length]
    {
        word(&mut header, number);
    }
    header.extend(module.code_start.to_le_bytes());
    double(&mut header, tables.entries);
    double(&mut header, HEADER_BYTES);
    header
}

fn file_header(file: &mut Vec<u8>, layout: &Layout) {
    // 64 bits, little endian, version 1; ET_DYN, EM_X86_64, version 1; no entry.
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0");
    double(file, 0);
    double(file, FILE_HEADER_BYTES);
    double(file, 0);
    word(file, 0);
    let sizes = [FILE_HEADER_BYTES, PROGRAM_HEADER_BYTES, SEGMENTS, 64, 0, 0];
    for size in sizes {
        file.extend(fitted::<u16, _>(size).to_le_bytes());
    }
    let page = PAGE_BYTES;
    segment(file, elf::PT_LOAD, elf::PF_R, (0, layout.data_end), page);
    segment(file, elf::PT_LOAD, elf::PF_R | elf::PF_X, (layout.code, layout.code_end), page);
    // Read-only, so the dynamic linker does not change it.
    segment(file, elf::PT_DYNAMIC, elf::PF_R, (layout.dynamic, layout.dynamic_end), 8);
    segment(file, elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, (0, 0), 0);
}

fn segment(
    file: &mut Vec<u8>,
    kind: elf::ProgramType,
    flags: elf::ProgramFlags,
    (start, end): (usize, usize),
    align: usize,
) {
    word(file, kind.0);
    word(file, flags.0);
    for number in [start, start, start, end - start, end - start, align] {
        double(file, number);
    }
}

/// One bucket, symbols from number 1, one filter word that accepts every name.
fn hash_table(file: &mut Vec<u8>) {
    for number in [1, 1, 1, 0] {
        word(file, number);
    }
    double(file, usize::MAX);
    word(file, 1);
    // The last bit ends the chain.
    word(file, elf::gnu_hash(LIBRARY_SYMBOL.as_bytes()) | 1);
}

fn symbols(file: &mut Vec<u8>, layout: &Layout) {
    file.extend([0; SYMBOL_BYTES]);
    // Name, global object, default visibility, a section other than SHN_UNDEF.
    word(file, 1);
    file.extend([0x11, 0]);
    file.extend(1_u16.to_le_bytes());
    double(file, layout.data);
    double(file, HEADER_BYTES);
}

fn dynamic_section(file: &mut Vec<u8>, layout: &Layout) {
    let entries: [(elf::DynamicTag, usize); DYNAMIC_ENTRIES] = [
        (elf::DT_GNU_HASH, layout.hash),
        (elf::DT_STRTAB, layout.strings),
        (elf::DT_STRSZ, layout.strings_end - layout.strings),
        (elf::DT_SYMTAB, layout.symbols),
        (elf::DT_SYMENT, SYMBOL_BYTES),
        (elf::DT_NULL, 0),
    ];
    for (tag, value) in entries {
        file.extend(tag.0.to_le_bytes());
        double(file, value);
    }
}
