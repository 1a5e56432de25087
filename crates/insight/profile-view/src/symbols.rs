//! Maps guest addresses to functions, files and lines.

use std::collections::BTreeMap;

use antares_abi::{CompileLimits, CompileOptions, Hints};
use antares_program::Program;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind, read::elf::ElfFile64};

use crate::{
    dwarf::{Dwarf, LineRow},
    limits::SYMBOLS_MAX,
    location::{Location, readable},
    recognise::recognised,
};

/// A non-inlined function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

/// The functions of an ELF.
pub struct Symbols {
    /// By address, disjoint.
    functions: Vec<Extent>,
    dwarf: Option<Dwarf>,
    build_id: Vec<u8>,
    has_names: bool,
}

impl Symbols {
    /// Reads the symbols and the DWARF of `elf`. Otherwise, functions are those that the compiler finds in
    /// the code, named `fn_0x` plus their address. Omits malformed parts.
    #[must_use]
    pub fn of(elf: &[u8], options: CompileOptions) -> Self {
        let file = ElfFile64::<object::Endianness>::parse(elf).ok();
        let named = file.as_ref().map(named_functions).unwrap_or_default();
        let has_names = !named.is_empty();
        let dwarf = file.as_ref().and_then(Dwarf::of);
        let build_id = file.as_ref().and_then(|file| file.build_id().ok().flatten());
        let build_id = build_id.map(|id| id[..id.len().min(64)].to_vec()).unwrap_or_default();
        let functions = fill_gaps(named, recovered(elf, options));
        Self { functions, dwarf, build_id, has_names }
    }

    /// Whether the ELF has function names.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.has_names
    }

    /// Whether the ELF has line numbers.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.dwarf.is_some()
    }

    /// The GNU build id; empty if there is none.
    #[must_use]
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Start, end and name of each non-inlined function, by address.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = (u64, u64, &str)> {
        self.functions.iter().map(|extent| (extent.start, extent.end, extent.name.as_str()))
    }

    /// Start and end of the non-inlined function that contains `pc`.
    #[must_use]
    pub fn extent(&self, pc: u64) -> Option<(u64, u64)> {
        self.find(pc).map(|extent| (extent.start, extent.end))
    }

    /// The file of the function at `pc`; empty if unknown.
    pub(crate) fn home(&self, pc: u64) -> String {
        let start = self.extent(pc).map_or(pc, |(start, _)| start);
        let locations = self.dwarf.as_ref().map(|dwarf| dwarf.locate(start)).unwrap_or_default();
        let line = locations.into_iter().next_back().and_then(|location| location.line);
        line.map(|line| line.file).unwrap_or_default()
    }

    /// All line table rows, by address.
    pub(crate) fn rows(&self) -> Vec<LineRow> {
        self.dwarf.as_ref().map(Dwarf::rows).unwrap_or_default()
    }

    /// The line where each function is declared, by its name.
    pub(crate) fn start_lines(&self) -> BTreeMap<String, u32> {
        self.dwarf.as_ref().map(Dwarf::start_lines).unwrap_or_default()
    }

    fn find(&self, pc: u64) -> Option<&Extent> {
        let behind = self.functions.partition_point(|extent| extent.start <= pc);
        self.functions[..behind].last().filter(|extent| pc < extent.end)
    }

    /// The functions at `pc`, the innermost one first: all but the last are inlined. At least one.
    #[must_use]
    pub fn locate(&self, pc: u64) -> Vec<Location> {
        let own = self.find(pc).map(|extent| extent.name.clone());
        let mut locations = self.dwarf.as_ref().map(|dwarf| dwarf.locate(pc)).unwrap_or_default();
        match (locations.last_mut(), own) {
            (Some(outermost), Some(name)) => {
                // Prefer the symbol's name; DWARF may only know the source location.
                if outermost.function.is_empty() || outermost.function.starts_with("fn_0x") {
                    outermost.function = name;
                }
            }
            (None, name) => {
                let function = name.unwrap_or_else(|| format!("fn_{pc:#x}"));
                locations.push(Location { function, line: None, is_inlined: false });
            }
            (Some(_), None) => {}
        }
        for location in &mut locations {
            if location.function.is_empty() {
                location.function = format!("fn_{pc:#x}");
            }
        }
        locations
    }
}

fn named_functions(file: &ElfFile64<'_>) -> Vec<Extent> {
    let mut found: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let code: Vec<(u64, u64)> = file
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .map(|section| (section.address(), section.address().saturating_add(section.size())))
        .collect();
    for symbol in file.symbols().take(SYMBOLS_MAX) {
        let address = symbol.address();
        // Assembly labels have no type; those that tools generate start with a special character.
        let is_label = symbol.kind() == SymbolKind::Label
            || symbol.kind() == SymbolKind::Unknown && symbol.is_definition();
        let is_function = symbol.kind() == SymbolKind::Text || is_label && symbol.is_global();
        let name = symbol.name().unwrap_or_default();
        let is_name = !name.is_empty() && !name.starts_with(['$', '.']);
        let is_code = code.iter().any(|(start, end)| (*start..*end).contains(&address));
        if !is_function || !is_name || !is_code {
            continue;
        }
        let end = address.saturating_add(symbol.size());
        let entry = found.entry(address).or_insert_with(|| (end, readable(name)));
        // Of several names, use the alphabetically first one, independent of their order in the file.
        let other = readable(name);
        entry.0 = entry.0.max(end);
        if other < entry.1 {
            entry.1 = other;
        }
    }
    let starts: Vec<u64> = found.keys().copied().collect();
    let section_end =
        |start: u64| code.iter().find(|(from, to)| (*from..*to).contains(&start)).map(|code| code.1);
    found
        .into_iter()
        .zip(starts.iter().skip(1).map(Some).chain([None]))
        .map(|((start, (end, name)), next)| {
            let limit = next.copied().into_iter().chain(section_end(start)).min().unwrap_or(end);
            // A symbol without a size extends to the next one.
            let end = if end == start { limit } else { end.min(limit) };
            Extent { start, end, name }
        })
        .collect()
}

/// The code of an ELF as the compiler finds it.
pub(crate) fn program(elf: &[u8], options: CompileOptions) -> Option<Program> {
    let image = antares_program::read(elf, options, &CompileLimits::DEFAULT).ok()?;
    antares_program::recover(&image, &CompileLimits::DEFAULT, &Hints::default()).ok()
}

/// Functions that the compiler finds in the code.
fn recovered(elf: &[u8], options: CompileOptions) -> Vec<Extent> {
    let Some(program) = program(elf, options) else { return Vec::new() };
    let mut entries: Vec<u64> = program.functions.iter().map(|function| function.entry.0).collect();
    entries.sort_unstable();
    entries.dedup();
    let ends = entries.iter().skip(1).copied().chain([program.code_end]);
    let about = recognised(elf, &program);
    let name = |start| match about.get(&start) {
        Some(about) => format!("fn_{start:#x} ({about}?)"),
        None => format!("fn_{start:#x}"),
    };
    let extents = entries.iter().zip(ends);
    extents.map(|(&start, end)| Extent { start, end, name: name(start) }).collect()
}

/// The `named` extents, with gaps filled by `others`.
fn fill_gaps(named: Vec<Extent>, others: Vec<Extent>) -> Vec<Extent> {
    let mut all = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    let mut from = 0;
    let add_gap =
        |all: &mut Vec<Extent>, others: &mut std::iter::Peekable<std::vec::IntoIter<Extent>>, from, to| {
            while let Some(other) = others.peek() {
                if other.start >= to {
                    break;
                }
                let (start, end) = (other.start.max(from), other.end.min(to));
                if start < end {
                    all.push(Extent { start, end, name: other.name.clone() });
                }
                if other.end > to {
                    break;
                }
                others.next();
            }
        };
    for extent in named {
        add_gap(&mut all, &mut others, from, extent.start);
        from = extent.end.max(from);
        all.push(extent);
    }
    add_gap(&mut all, &mut others, from, u64::MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NAME_BYTES_MAX;

    fn extent(start: u64, end: u64, name: &str) -> Extent {
        Extent { start, end, name: name.to_owned() }
    }

    #[test]
    fn gaps_between_names_are_filled() {
        let named = vec![extent(10, 20, "a"), extent(30, 40, "b")];
        let others = vec![extent(0, 15, "x"), extent(15, 35, "y"), extent(35, 60, "z")];
        let all = fill_gaps(named, others);
        let expected = [
            extent(0, 10, "x"),
            extent(10, 20, "a"),
            extent(20, 30, "y"),
            extent(30, 40, "b"),
            extent(40, 60, "z"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn names_are_readable_and_bounded() {
        let mangled = "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE";
        assert_eq!(readable(mangled), "core::fmt::Write::write_fmt");
        assert_eq!(readable("mpi_mul_hlp"), "mpi_mul_hlp");
        assert_eq!(readable(&"ü".repeat(1000)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn no_elf_has_no_functions_and_every_address_a_name() {
        let options = CompileOptions { vm_version: 2, isa: antares_abi::Isa::of_version(2) };
        let symbols = Symbols::of(b"no ELF", options);
        assert_eq!(symbols.locate(0x1000)[0].function, "fn_0x1000");
        assert!(!symbols.has_names() && !symbols.has_lines());
    }
}
