//! `read`: loads memory, page permissions and entry of an ELF like ckb-vm, and symbols as hints.

use std::cell::RefCell;

use antares_abi::{CompileLimits, CompileOptions, GUEST_MEMORY_BYTES, Isa, LoadedCode};
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultCoreMachine, FlatMemory, Memory, RISCV_MAX_MEMORY, RISCV_PAGESIZE, SupportMachine,
    WXorXMemory,
    elf::parse_elf,
    memory::{FLAG_EXECUTABLE, FLAG_FREEZED},
};
use object::{
    Object, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind,
    read::elf::{ElfFile64, ElfSegment64},
};

use crate::{
    GuestAddr, ProgramError,
    constants::{constants, merge},
};

/// The machine for decoding: ckb-vm's memory with its permission flags.
pub(crate) type LoadedMachine = DefaultCoreMachine<u64, WXorXMemory<FlatMemory<u64>>>;

/// Maximum symbols to read from an ELF (symbols are only hints).
const SYMBOLS_MAX: usize = 1 << 20;

/// A function symbol: a hint, never trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its value.
    pub address: GuestAddr,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
    /// Its name, untrusted.
    pub name: String,
}

/// A loaded ELF, before its first instruction.
pub struct Image {
    pub(crate) machine: RefCell<LoadedMachine>,
    memory: Vec<u8>,
    /// The options for which it was loaded.
    pub options: CompileOptions,
    /// Entry pc, unvalidated.
    pub entry: GuestAddr,
    /// Executable address ranges `[start, end)`, page aligned, ascending, disjoint, not adjacent.
    pub executable: Vec<(u64, u64)>,
    /// Loaded ranges `[start, end)`, page aligned, in program header order.
    pub segments: Vec<(u64, u64)>,
    /// Function symbols that point into executable pages, by address, one for each address.
    pub symbols: Vec<Symbol>,
    /// Writable segments of the ELF, `[start, end)`, in program header order.
    variables: Vec<(u64, u64)>,
    /// Constants according to the ELF, `[start, end)`, ascending, disjoint.
    constants: Vec<(u64, u64)>,
    /// Whether this is code that a script loads at run time, next to other code.
    pub is_loaded_code: bool,
}

/// Loads `elf` as ckb-vm would, or the file of code that a script loaded at run time.
///
/// # Errors
/// [`ProgramError::Elf`] if ckb-vm refuses it, [`ProgramError::Options`] for options that no machine has,
/// [`ProgramError::CodeBytes`] beyond the limit.
pub fn read(elf: &[u8], options: CompileOptions, limits: &CompileLimits) -> Result<Image, ProgramError> {
    let CompileOptions { vm_version, isa } = options;
    if vm_version > 2 || isa.0 > 7 || (vm_version == 0 && isa.has(Isa::MOP)) {
        return Err(ProgramError::Options { vm_version, isa: isa.0 });
    }
    let refused = |error: ckb_vm::Error| ProgramError::Elf { error: error.to_string() };
    let mut machine = LoadedMachine::new_with_memory(isa.0, vm_version, u64::MAX, RISCV_MAX_MEMORY);
    let loaded = LoadedCode::read(elf);
    let (entry, segments) = match &loaded {
        Some(code) => load_code(&mut machine, code).map_err(refused)?,
        None => load_elf(&mut machine, &Bytes::copy_from_slice(elf)).map_err(refused)?,
    };
    let executable = executable_ranges(&mut machine);
    let found = executable.iter().map(|(start, end)| end - start).sum();
    if found > limits.code_bytes_max {
        return Err(ProgramError::CodeBytes { found, max: limits.code_bytes_max });
    }
    let memory = machine.memory_mut().inner_mut().to_vec();
    // Invalid section headers or symbol tables mean that there are none, since ckb-vm ignores them.
    let file = ElfFile64::parse(elf).ok();
    let mut image = Image {
        machine: RefCell::new(machine),
        memory,
        options,
        entry: GuestAddr(entry),
        executable,
        segments,
        symbols: Vec::new(),
        variables: file.as_ref().map(variables).unwrap_or_default(),
        constants: file.as_ref().map(constants).unwrap_or_default(),
        is_loaded_code: loaded.is_some(),
    };
    image.symbols = file.map(|file| function_symbols(&file, &image)).unwrap_or_default();
    Ok(image)
}

/// The entry and the loaded ranges.
type Loaded = (u64, Vec<(u64, u64)>);

fn load_elf(machine: &mut LoadedMachine, elf: &Bytes) -> Result<Loaded, ckb_vm::Error> {
    let metadata = parse_elf::<u64>(elf, machine.version())?;
    machine.load_binary(elf, &metadata, true)?;
    let segments = metadata.actions.iter().map(|action| (action.addr, action.addr + action.size));
    Ok((metadata.entry, segments.collect()))
}

/// Loads pages as the system call does. The entry points are unknown until a script uses them.
fn load_code(machine: &mut LoadedMachine, code: &LoadedCode<'_>) -> Result<Loaded, ckb_vm::Error> {
    let LoadedCode { start, end, code } = *code;
    let flags = FLAG_EXECUTABLE | FLAG_FREEZED;
    machine.memory_mut().init_pages(start, end - start, flags, Some(Bytes::copy_from_slice(code)), 0)?;
    Ok((u64::MAX, vec![(start, end)]))
}

fn executable_ranges(machine: &mut LoadedMachine) -> Vec<(u64, u64)> {
    let page_bytes = RISCV_PAGESIZE as u64;
    let is_executable =
        |page: &u64| machine.memory_mut().fetch_flag(*page).unwrap_or(0) & FLAG_EXECUTABLE != 0;
    let pages = (0..GUEST_MEMORY_BYTES / page_bytes).filter(is_executable);
    merge(pages.map(|page| (page * page_bytes, (page + 1) * page_bytes)).collect())
}

/// The address ranges of writable segments.
fn variables(file: &ElfFile64<'_>) -> Vec<(u64, u64)> {
    let range = |segment: ElfSegment64<'_, '_>| {
        let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
        let range = (segment.address(), segment.address().saturating_add(segment.size()));
        (p_flags.0 & object::elf::PF_W.0 != 0 && range.0 < range.1).then_some(range)
    };
    file.segments().filter_map(range).collect()
}

fn function_symbols(file: &ElfFile64<'_>, image: &Image) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = file
        .symbols()
        .take(SYMBOLS_MAX)
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter(|symbol| image.is_executable(symbol.address()) && symbol.address() % 2 == 0)
        .map(|symbol| Symbol {
            address: GuestAddr(symbol.address()),
            size: symbol.size(),
            name: symbol.name().unwrap_or_default().to_owned(),
        })
        .collect();
    symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    symbols.dedup_by_key(|symbol| symbol.address);
    symbols
}

impl Image {
    /// Whether `address` lies in an executable page.
    #[must_use]
    pub fn is_executable(&self, address: u64) -> bool {
        self.executable.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Whether `address` holds a constant according to the ELF.
    #[must_use]
    pub fn is_constant(&self, address: u64) -> bool {
        let next = self.constants.partition_point(|range| range.0 <= address);
        next.checked_sub(1).is_some_and(|last| address < self.constants[last].1)
    }

    /// The start of the first constant range after `address`.
    pub(crate) fn next_constant(&self, address: u64) -> Option<u64> {
        let next = self.constants.partition_point(|range| range.0 <= address);
        self.constants.get(next).map(|range| range.0)
    }

    /// Whether `address` lies after the start of a named function and before its end.
    #[must_use]
    pub fn is_inside_named(&self, address: u64) -> bool {
        let next = self.symbols.partition_point(|symbol| symbol.address.0 < address);
        let symbol = next.checked_sub(1).and_then(|last| self.symbols.get(last));
        symbol.is_some_and(|symbol| address - symbol.address.0 < symbol.size)
            && self.symbols.get(next).is_none_or(|symbol| symbol.address.0 != address)
    }

    /// The `N` bytes at `address`, if memory has them.
    #[must_use]
    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(N)?;
        self.memory.get(start..end)?.try_into().ok()
    }

    /// The addresses of bytes that differ from `other`, at most 64. None if there are more.
    #[must_use]
    pub fn differing_bytes(&self, other: &Self) -> Option<Vec<u64>> {
        const MAX: usize = 64;
        let both = self.memory.iter().zip(&other.memory).zip(0_u64..);
        let found: Vec<u64> = both.filter(|((a, b), _)| a != b).map(|(_, at)| at).take(MAX + 1).collect();
        (found.len() <= MAX && self.memory.len() == other.memory.len()).then_some(found)
    }

    /// Executable pages: address and bytes.
    pub(crate) fn code(&self) -> Vec<(u64, Vec<u8>)> {
        let place = |address| usize::try_from(address).unwrap_or(usize::MAX);
        let bytes =
            |&(start, end): &(u64, u64)| Some((start, self.memory.get(place(start)..place(end))?.to_vec()));
        self.executable.iter().filter_map(bytes).collect()
    }

    /// The range `[start, end)` in which generated code stores without checking page flags. Usually it starts
    /// after the last executable page and contains the stack and almost every legal store. The range is all
    /// of memory if a writable segment lies lower, and for loaded code, which does not know the code next to
    /// it. A caller that runs such code must protect all executable pages.
    #[must_use]
    pub fn writable_range(&self) -> (u64, u64) {
        let start = self.executable.last().map_or(0, |range| range.1);
        let is_behind = |range: &(u64, u64)| start <= range.0;
        let has_all = start < GUEST_MEMORY_BYTES && self.variables.iter().all(is_behind);
        (if has_all && !self.is_loaded_code { start } else { 0 }, GUEST_MEMORY_BYTES)
    }
}
