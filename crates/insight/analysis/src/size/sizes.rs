//! The size of an ELF by section, function and file.

use std::collections::BTreeMap;

use antares_abi::CompileOptions;
use antares_profile_view::Symbols;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, read::elf::ElfFile64};
use serde::Serialize;

/// A named part of an ELF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Bytes in the file.
    pub bytes: u64,
}

/// Sizes of the parts of a script. A stable format: keys are only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that the VM loads.
    pub loaded_bytes: u64,
    /// Bytes that `strip` removes: names, lines, debug information, section headers.
    pub strippable_bytes: u64,
    /// The remaining bytes: headers and padding between segments.
    pub padding_bytes: u64,
    /// Sections, the largest first.
    pub sections: Vec<Part>,
    /// Functions with code, the largest first.
    pub functions: Vec<Part>,
    /// Source files of the code, the largest first; `?` for code without line information.
    pub files: Vec<Part>,
    /// Functions with the same bytes as another one, with the names of both.
    pub duplicates: Vec<Part>,
}

impl Sizes {
    /// Sizes of an ELF; `None` if it does not parse.
    #[must_use]
    pub fn of(elf: &[u8], options: CompileOptions) -> Option<Self> {
        let file = ElfFile64::<object::Endianness>::parse(elf).ok()?;
        let symbols = Symbols::of(elf, options);
        let bytes = elf.len() as u64;
        let mut ranges: Vec<(u64, u64)> = file.segments().map(|segment| segment.file_range()).collect();
        ranges.sort_unstable();
        let (mut loaded, mut end) = (0, 0);
        for (start, size) in ranges {
            let (start, stop) = (start.max(end), start.saturating_add(size).min(bytes));
            loaded += stop.saturating_sub(start);
            end = end.max(stop);
        }
        let sections = file.sections().map(|section| Part {
            name: section.name().unwrap_or("?").to_owned(),
            bytes: section.file_range().map_or(0, |(_, size)| size.min(bytes)),
        });
        let functions = symbols
            .functions()
            .map(|(start, end, name)| Part { name: name.to_owned(), bytes: in_file(&file, start, end) });
        // The VM never loads the bytes after the last segment.
        let strippable = bytes - end.min(bytes);
        Some(Self {
            bytes,
            loaded_bytes: loaded,
            strippable_bytes: strippable,
            padding_bytes: end.min(bytes).saturating_sub(loaded),
            sections: sorted(sections.collect()),
            functions: sorted(functions.collect()),
            files: files(&file, &symbols),
            duplicates: duplicates(&file, &symbols),
        })
    }
}

/// Bytes from `start` to `end` that are in the file. Code without a symbol extends to the end of its page,
/// which may exceed the file.
fn in_file(file: &ElfFile64<'_>, start: u64, end: u64) -> u64 {
    let segment = file.segments().find(|segment| {
        let bytes = segment.file_range().1;
        (segment.address()..segment.address().saturating_add(bytes)).contains(&start)
    });
    let stop = segment.map_or(start, |segment| segment.address().saturating_add(segment.file_range().1));
    end.min(stop).saturating_sub(start)
}

/// Removes empty parts and sorts the rest, the largest first.
fn sorted(mut parts: Vec<Part>) -> Vec<Part> {
    parts.retain(|part| part.bytes > 0);
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    parts
}

/// Bytes of code by the source file of the innermost function, in steps of two bytes, the shortest
/// instruction.
fn files(elf: &ElfFile64<'_>, symbols: &Symbols) -> Vec<Part> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (start, end, _) in symbols.functions().filter(|_| symbols.has_lines()) {
        let end = start + in_file(elf, start, end);
        for pc in (start..end).step_by(2) {
            let line = symbols.locate(pc).into_iter().next().and_then(|location| location.line);
            let file = line.map(|line| line.file).filter(|file| !file.is_empty());
            *found.entry(file.unwrap_or_else(|| "?".to_owned())).or_default() += 2.min(end - pc);
        }
    }
    sorted(found.into_iter().map(|(name, bytes)| Part { name, bytes }).collect())
}

/// Functions whose bytes equal those of an earlier one. Merging them is visible to code that compares
/// function addresses.
fn duplicates(file: &ElfFile64<'_>, symbols: &Symbols) -> Vec<Part> {
    let mut known: BTreeMap<&[u8], &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (start, end, name) in symbols.functions() {
        let mut sections = file.sections();
        let bytes =
            sections.find_map(|section| section.data_range(start, end.saturating_sub(start)).ok().flatten());
        let Some(bytes) = bytes.filter(|bytes| bytes.len() > 4) else { continue };
        match known.get(bytes) {
            Some(first) => found.push(Part { name: format!("{name} = {first}"), bytes: bytes.len() as u64 }),
            None => drop(known.insert(bytes, name)),
        }
    }
    sorted(found)
}
