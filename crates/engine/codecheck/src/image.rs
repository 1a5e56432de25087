//! Reads the parts of a library that the check needs: code, constants and entry table.

use std::{mem::offset_of, ops::Range};

use antares_abi::{COUNTED_MAGIC, LIBRARY_MAGIC, LibraryHeader};
use object::{
    LittleEndian as Le, Pod,
    elf::{self, Dyn64, FileHeader64, PF_X, PT_DYNAMIC, PT_LOAD, Sym64},
    pod,
    read::elf::{Dyn, FileHeader, ProgramHeader, Sym},
};

use crate::CodeError;

/// Bytes of a host page, the unit of mappings.
const PAGE_BYTES: u64 = 4096;

/// Executable bytes and their offset from the library's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
}

/// A library as the loader maps it.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    code: Option<Code<'a>>,
    /// Addresses and bytes of constants.
    constants: Vec<(Range<u64>, &'a [u8])>,
    header: u64,
}

impl<'a> Image<'a> {
    pub(crate) fn of(file: &'a [u8]) -> Result<Self, CodeError> {
        let bad = |part: &'static str| move |_| CodeError::Image { part };
        let header = FileHeader64::<Le>::parse(file).map_err(bad("file header"))?;
        let segments = header.program_headers(Le, file).map_err(bad("program headers"))?;
        let (mut code, mut constants, mut dynamic) = (None, Vec::new(), None);
        for segment in segments {
            let (start, bytes) = (segment.p_vaddr(Le), segment.data(Le, file));
            match segment.p_type(Le) {
                PT_DYNAMIC => dynamic = Some(start),
                PT_LOAD if segment.p_flags(Le).0 & PF_X.0 != 0 => {
                    let bytes = bytes.map_err(|()| CodeError::Image { part: "code" })?;
                    // The loader makes whole pages executable, whatever else they contain.
                    let is_whole =
                        start.is_multiple_of(PAGE_BYTES) && (bytes.len() as u64).is_multiple_of(PAGE_BYTES);
                    if !is_whole || code.replace(Code { start, bytes }).is_some() {
                        return Err(CodeError::Image { part: "code" });
                    }
                }
                PT_LOAD => {
                    let bytes = bytes.map_err(|()| CodeError::Image { part: "constants" })?;
                    constants.push((start..start.saturating_add(bytes.len() as u64), bytes));
                }
                _ => {}
            }
        }
        let mut image = Self { code, constants, header: 0 };
        image.header = image.find_header(dynamic.ok_or(CodeError::Image { part: "dynamic section" })?)?;
        Ok(image)
    }

    pub(crate) fn code(&self) -> Option<Code<'a>> {
        self.code
    }

    pub(crate) fn is_constant(&self, addresses: &Range<u64>) -> bool {
        self.constants.iter().any(|(all, _)| all.start <= addresses.start && addresses.end <= all.end)
    }

    /// The constant bytes from `address` on.
    fn at(&self, address: u64, part: &'static str) -> Result<&'a [u8], CodeError> {
        let tail = |(all, bytes): &(Range<u64>, &'a [u8])| {
            bytes.get(usize::try_from(address.checked_sub(all.start)?).ok()?..)
        };
        self.constants.iter().find_map(tail).ok_or(CodeError::Image { part })
    }

    fn table<T: Pod>(&self, address: u64, count: usize, part: &'static str) -> Result<&'a [T], CodeError> {
        let entries = pod::slice_from_bytes(self.at(address, part)?, count);
        entries.map(|(entries, _)| entries).map_err(|()| CodeError::Image { part })
    }

    /// The header's address: the value of the library's only symbol.
    fn find_header(&self, dynamic: u64) -> Result<u64, CodeError> {
        let part = "dynamic section";
        let room = self.at(dynamic, part)?.len() / size_of::<Dyn64<Le>>();
        let entries: &[Dyn64<Le>] = self.table(dynamic, room, part)?;
        let symbols = entries.iter().take_while(|entry| entry.d_tag(Le) != elf::DT_NULL);
        let symbols = symbols.filter(|entry| entry.d_tag(Le) == elf::DT_SYMTAB).last();
        let symbols = symbols.ok_or(CodeError::Image { part: "symbol table" })?.d_val(Le);
        // The first entry is the null symbol.
        let symbols: &[Sym64<Le>] = self.table(symbols, 2, "symbol table")?;
        let header = symbols[1].st_value(Le);
        let found = self.at(header, "header")?;
        // The loaders decide which of the two kinds a process may load.
        let is_ours = [LIBRARY_MAGIC, COUNTED_MAGIC].iter().any(|magic| found.starts_with(magic));
        if is_ours { Ok(header) } else { Err(CodeError::Image { part: "header" }) }
    }

    fn number<const N: usize>(&self, offset: usize) -> Result<[u8; N], CodeError> {
        let bytes = self.at(self.header.saturating_add(offset as u64), "header")?;
        bytes.first_chunk().copied().ok_or(CodeError::Image { part: "header" })
    }

    pub(crate) fn thunks(&self) -> Result<Vec<u64>, CodeError> {
        let length = u32::from_le_bytes(self.number(offset_of!(LibraryHeader, table_length))?) as usize;
        if length == 0 {
            return Ok(Vec::new());
        }
        let offset = i64::from_le_bytes(self.number(offset_of!(LibraryHeader, table_offset))?);
        let table = self.header.wrapping_add_signed(offset);
        let bytes = self.at(table, "entry table")?;
        let bytes = bytes.get(..4 * length).ok_or(CodeError::Image { part: "entry table" })?;
        let distances =
            bytes.chunks_exact(4).filter_map(|bytes| Some(i32::from_le_bytes(bytes.try_into().ok()?)));
        let thunks = distances.filter(|distance| *distance != 0);
        Ok(thunks.map(|distance| table.wrapping_add_signed(i64::from(distance))).collect())
    }
}
