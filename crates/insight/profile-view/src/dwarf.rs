//! Lines and inlined functions from DWARF.

use std::{borrow::Cow, collections::BTreeMap, io::Read, sync::Arc};

use addr2line::Context;
use gimli::{EndianReader, Reader as _, RunTimeEndian};
use object::{CompressedData, CompressionFormat, Object, ObjectSection, read::elf::ElfFile64};

use crate::{
    limits::{DWARF_BYTES_MAX, INLINED_MAX, LINE_ROWS_MAX as ROWS_MAX},
    location::{Line, Location, readable},
};

pub(crate) type Reader = EndianReader<RunTimeEndian, Arc<[u8]>>;

/// The debug information of an ELF.
pub(crate) struct Dwarf {
    context: Context<Reader>,
    dwarf: Arc<gimli::Dwarf<Reader>>,
}

/// A range of code that belongs to one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineRow {
    pub(crate) address: u64,
    /// End of the range: the address of the next row.
    pub(crate) end: u64,
    pub(crate) file: String,
    /// 0 for code without a line.
    pub(crate) line: u32,
    /// Distinguishes copies of one line, if the compiler emits it.
    pub(crate) discriminator: u32,
}

/// The last of `rows_max` rows before `pc` that covers it.
pub(crate) fn row_at(rows: &[LineRow], pc: u64, rows_max: usize) -> Option<&LineRow> {
    let behind = rows.partition_point(|row| row.address <= pc);
    rows[..behind].iter().rev().take(rows_max).find(|row| pc < row.end)
}

fn uncompressed_size<'a>(section: &impl ObjectSection<'a>) -> u64 {
    section.compressed_data().map_or_else(|_| section.size(), |data| data.uncompressed_size)
}

/// The content of a section, at most as long as it declares; `None` if it cannot be read.
fn uncompressed<'a>(section: &impl ObjectSection<'a>) -> Option<Cow<'a, [u8]>> {
    let CompressedData { format, data, uncompressed_size } = section.compressed_data().ok()?;
    let mut zstd;
    let mut zlib;
    let reader: &mut dyn Read = match format {
        CompressionFormat::None => return Some(data.into()),
        CompressionFormat::Zlib => {
            zlib = flate2::read::ZlibDecoder::new(data);
            &mut zlib
        }
        CompressionFormat::Zstandard => {
            zstd = ruzstd::decoding::StreamingDecoder::new(data).ok()?;
            &mut zstd
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    reader.take(uncompressed_size).read_to_end(&mut bytes).ok()?;
    Some(bytes.into())
}

/// The DWARF sections of an ELF; `None` if there are none, or they are too large.
pub(crate) fn read(file: &ElfFile64<'_>) -> Option<gimli::Dwarf<Reader>> {
    let sections = file.sections().filter(|section| section.name().unwrap_or("").starts_with(".debug_"));
    let bytes = sections.map(|section| uncompressed_size(&section)).fold(0, u64::saturating_add);
    if bytes == 0 || bytes > DWARF_BYTES_MAX as u64 {
        return None;
    }
    let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|section| uncompressed(&section));
        Ok(Reader::new(Arc::from(data.unwrap_or_default()), RunTimeEndian::Little))
    };
    gimli::Dwarf::load(load).ok()
}

impl Dwarf {
    /// Reads DWARF, compressed or not; `None` if there is none, or it is too large or malformed.
    pub(crate) fn of(file: &ElfFile64<'_>) -> Option<Self> {
        let dwarf = Arc::new(read(file)?);
        Some(Self { context: Context::from_arc_dwarf(dwarf.clone()).ok()?, dwarf })
    }

    /// All line table rows, by address.
    pub(crate) fn rows(&self) -> Vec<LineRow> {
        let mut rows = Vec::new();
        let mut units = self.dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            // Keep the rows before the malformed part of a table.
            let _ = self.unit_rows(&unit, &mut rows);
            if rows.len() >= ROWS_MAX {
                break;
            }
        }
        rows.sort_by(|a, b| (a.address, &a.file, a.line).cmp(&(b.address, &b.file, b.line)));
        rows
    }

    fn unit_rows(&self, unit: &gimli::Unit<Reader>, into: &mut Vec<LineRow>) -> Result<(), gimli::Error> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        let mut rows = program.rows();
        let mut last: Option<LineRow> = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some(mut last) = last.take() {
                last.end = row.address();
                if last.address < last.end {
                    into.push(last);
                }
            }
            if row.end_sequence() || into.len() >= ROWS_MAX {
                continue;
            }
            let index = row.file_index();
            let file = names.entry(index).or_insert_with(|| self.file_name(unit, header, index)).clone();
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            let discriminator = u32::try_from(row.discriminator()).unwrap_or(0);
            last = Some(LineRow { address: row.address(), end: 0, file, line, discriminator });
        }
        Ok(())
    }

    /// The file name as [`Context`] formats it: with its folder, unless it is absolute.
    fn file_name(
        &self,
        unit: &gimli::Unit<Reader>,
        header: &gimli::LineProgramHeader<Reader>,
        index: u64,
    ) -> String {
        let text = |value| {
            let reader = self.dwarf.attr_string(unit, value).ok();
            let text = reader.and_then(|reader| reader.to_string_lossy().ok().map(Cow::into_owned));
            text.unwrap_or_default()
        };
        let Some(file) = header.file(index) else { return String::new() };
        let name = text(file.path_name());
        if name.starts_with('/') {
            return readable(&name);
        }
        // Folder 0 is the unit's own, which is prepended anyway.
        let folder =
            file.directory(header).filter(|_| file.directory_index() != 0).map(text).unwrap_or_default();
        let mut path = String::new();
        if !folder.starts_with('/')
            && let Some(home) = unit.comp_dir.as_ref().and_then(|home| home.to_string_lossy().ok())
        {
            path.push_str(&home);
        }
        for part in [folder, name] {
            if !path.is_empty() && !part.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(&part);
        }
        readable(&path)
    }

    /// The line where each function is declared, by its name.
    pub(crate) fn start_lines(&self) -> BTreeMap<String, u32> {
        let mut lines = BTreeMap::new();
        let mut units = self.dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                if entry.tag() != gimli::DW_TAG_subprogram || lines.len() >= ROWS_MAX {
                    continue;
                }
                let line = entry.attr_value(gimli::DW_AT_decl_line).and_then(|value| value.udata_value());
                let name = [gimli::DW_AT_linkage_name, gimli::DW_AT_name]
                    .into_iter()
                    .find_map(|attribute| entry.attr_value(attribute))
                    .and_then(|value| self.dwarf.attr_string(&unit, value).ok())
                    .and_then(|name| name.to_string_lossy().ok().map(|name| readable(&name)));
                if let (Some(line), Some(name)) = (line.and_then(|line| u32::try_from(line).ok()), name) {
                    lines.entry(name).or_insert(line);
                }
            }
        }
        lines
    }

    /// The functions at `pc`, the innermost one first; empty if unknown.
    pub(crate) fn locate(&self, pc: u64) -> Vec<Location> {
        let mut locations = Vec::new();
        let Ok(mut frames) = self.context.find_frames(pc).skip_all_loads() else { return locations };
        while let Ok(Some(frame)) = frames.next() {
            let name =
                frame.function.as_ref().and_then(|name| name.raw_name().ok().map(|name| readable(&name)));
            let line = frame.location.map(|location| Line {
                file: readable(location.file.unwrap_or_default()),
                line: location.line.unwrap_or(0),
                column: location.column.unwrap_or(0),
            });
            let function = name.unwrap_or_default();
            locations.push(Location { function, line, is_inlined: true });
            if locations.len() >= INLINED_MAX {
                break;
            }
        }
        if let Some(outermost) = locations.last_mut() {
            outermost.is_inlined = false;
        }
        locations
    }
}
