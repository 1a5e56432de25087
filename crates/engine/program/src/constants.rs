//! Finds constants in executable pages, as the ELF describes them: linkers place them next to code. These are
//! hints: if a range holds code after all and only an address leads there, that code runs in the interpreter.

use antares_abi::GUEST_MEMORY_BYTES;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf, read::elf::ElfFile64};

/// Maximum sections and symbols to read from an ELF.
const HINTS_MAX: usize = 1 << 20;

/// Ranges `[start, end)` of named variables and of sections without instructions, ascending and disjoint.
pub(crate) fn constants(file: &ElfFile64<'_>) -> Vec<(u64, u64)> {
    let is_data = |flags: SectionFlags| match flags {
        SectionFlags::Elf { sh_flags, .. } => {
            sh_flags.contains(elf::SHF_ALLOC) && !sh_flags.contains(elf::SHF_EXECINSTR)
        }
        _ => false,
    };
    let sections = file.sections().take(HINTS_MAX).filter(|section| is_data(section.flags()));
    let sections = sections.map(|section| (section.address(), section.size()));
    let variables = file.symbols().take(HINTS_MAX).filter(|symbol| symbol.kind() == SymbolKind::Data);
    let variables = variables.filter(|symbol| symbol.is_definition());
    let variables = variables.map(|symbol| (symbol.address(), symbol.size()));
    let in_memory = |(start, size): (u64, u64)| {
        let end = start.checked_add(size).filter(|end| size > 0 && *end <= GUEST_MEMORY_BYTES)?;
        Some((start, end))
    };
    merge(sections.chain(variables).filter_map(in_memory).collect())
}

/// Merges `ranges` into ranges that are ascending, disjoint and not adjacent.
pub(crate) fn merge(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
