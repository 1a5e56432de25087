//! Functions and lines of an ELF with ckb-debugger's names, for its flame graphs, stacks and coverage.

use std::collections::{BTreeMap, BTreeSet};

use addr2line::Context;
use object::{Object, ObjectSymbol, SymbolKind, read::elf::ElfFile64};

use crate::{
    dwarf::{self, Reader},
    limits::{NAME_BYTES_MAX, SYMBOLS_MAX},
};

/// Functions and lines of an ELF.
pub struct DebuggerNames {
    /// Start addresses of functions.
    pub starts: Vec<u64>,
    /// Start address of `_sbrk`; 0 if there is none.
    pub sbrk: u64,
    /// Address of `_end`; 0 if unknown.
    pub heap: u64,
    context: Option<Context<Reader>>,
}

/// A file and a line in it, from 1.
pub type SourceLine = (String, u32);

impl DebuggerNames {
    /// Reads an ELF. Omits malformed and excessive parts.
    #[must_use]
    pub fn of(elf: &[u8]) -> Self {
        let mut names = Self { starts: Vec::new(), sbrk: 0, heap: 0, context: None };
        let Ok(file) = ElfFile64::<object::Endianness>::parse(elf) else { return names };
        for symbol in file.symbols().take(SYMBOLS_MAX) {
            if symbol.kind() == SymbolKind::Text {
                names.starts.push(symbol.address());
            }
            let place = match symbol.name() {
                Ok("_sbrk") => &mut names.sbrk,
                Ok("_end") => &mut names.heap,
                _ => continue,
            };
            if *place == 0 {
                *place = symbol.address();
            }
        }
        names.context = dwarf::read(&file).and_then(|dwarf| Context::from_dwarf(dwarf).ok());
        names
    }

    /// The source line of the instruction at `pc`.
    #[must_use]
    pub fn line(&self, pc: u64) -> Option<SourceLine> {
        let location = self.context.as_ref()?.find_location(pc).ok()??;
        Some((shorten(location.file?), location.line?))
    }

    fn file(&self, pc: u64) -> String {
        let location = self.context.as_ref().and_then(|context| context.find_location(pc).ok()?);
        location.and_then(|location| location.file).map_or_else(|| "??".to_owned(), shorten)
    }

    /// The function at `pc`, inlined or not.
    fn function(&self, pc: u64) -> Option<String> {
        let mut frames = self.context.as_ref()?.find_frames(pc).skip_all_loads().ok()?;
        let mut outermost = None;
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|function| Some(shorten(&function.raw_name().ok()?)));
            outermost = name.or(outermost);
        }
        outermost.map(|name| rustc_demangle::demangle(&name).to_string())
    }

    /// `file:function`, for flame graphs.
    #[must_use]
    pub fn simple(&self, pc: u64) -> String {
        let function = self.function(pc).unwrap_or_else(|| format!("func_{pc:#x}"));
        format!("{}:{function}", self.file(pc))
    }

    /// `file:line:function`, for stacks.
    #[must_use]
    pub fn detail(&self, pc: u64) -> String {
        let function = self.function(pc).unwrap_or_else(|| "??".to_owned());
        let line = self.line(pc).map_or_else(|| "??".to_owned(), |(_, line)| line.to_string());
        format!("{}:{line}:{function}", self.file(pc))
    }

    /// The source lines of the instructions at `reached`, by file.
    pub fn lines(&self, reached: impl Iterator<Item = u64>) -> BTreeMap<String, BTreeSet<u32>> {
        let mut lines: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for (file, line) in reached.filter_map(|pc| self.line(pc)) {
            lines.entry(file).or_default().insert(line);
        }
        lines
    }
}

fn shorten(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}
