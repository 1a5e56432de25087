//! Names of addresses: functions, lines, segments, instructions.

use std::cell::OnceCell;

use antares_abi::{CompileLimits, CompileOptions, Isa};
use antares_profile::{
    ProfiledProgram,
    evidence::{
        Evidence,
        records::{Called, Stack},
    },
};
use antares_profile_view::{Location, Programs, Symbols};
use antares_program::{Decoder, Image, Instruction};
use object::{
    Object as _, ObjectSection as _, ObjectSegment as _,
    read::elf::{ElfFile64, ElfSegment64},
};

use crate::report::Frame;

/// Memory size of a VM, where its stack starts, and ckb-vm's intended stack size.
pub(crate) const MEMORY_BYTES: u64 = 4 << 20;
pub(crate) const STACK_BYTES: u64 = 1 << 20;

/// Half words to search backwards for an instruction with a line.
const LINE_SEARCHED: u64 = 6;

/// Looks up the data of a cell, by source and index.
pub type CellFinder<'a> = dyn Fn(u64, u64) -> Option<Vec<u8>> + 'a;

type Elf<'data> = ElfFile64<'data, object::Endianness>;
type Segment<'data, 'file> = ElfSegment64<'data, 'file, object::Endianness>;

/// A program or a piece of loaded code, if its ELF is available.
struct Named {
    elf: Vec<u8>,
    symbols: Symbols,
    image: OnceCell<Option<Image>>,
    options: CompileOptions,
}

impl Named {
    fn new(elf: Vec<u8>, options: CompileOptions) -> Self {
        let symbols = Symbols::of(&elf, options);
        Self { elf, symbols, image: OnceCell::new(), options }
    }

    fn image(&self) -> Option<&Image> {
        let read = || antares_program::read(&self.elf, self.options, &CompileLimits::DEFAULT).ok();
        self.image.get_or_init(read).as_ref()
    }
}

/// A piece of loaded code: its location in memory and in the file.
struct Loaded {
    vm: u64,
    address: u64,
    bytes: u64,
    offset: u64,
    named: Option<Named>,
}

/// Names addresses of a run.
pub(crate) struct Namer {
    programs: Vec<Option<Named>>,
    codes: Vec<Loaded>,
}

impl Namer {
    pub(crate) fn new(evidence: &Evidence, programs: &Programs, cells: &CellFinder<'_>) -> Self {
        let named = |program: &ProfiledProgram| {
            let elf = program.elf.as_ref().and_then(|digest| programs.elf(digest))?;
            Some(Named::new(elf.to_vec(), program.options()))
        };
        let options = evidence.programs.first().map(ProfiledProgram::options);
        let options = options.unwrap_or(CompileOptions { vm_version: 2, isa: Isa::of_version(2) });
        let loaded = |code: &antares_profile::evidence::records::Code| {
            let named = cells(code.source, code.index).map(|elf| Named::new(elf, options));
            Loaded { vm: code.vm, address: code.address, bytes: code.bytes, offset: code.offset, named }
        };
        Self {
            programs: evidence.programs.iter().map(named).collect(),
            codes: evidence.codes.iter().map(loaded).collect(),
        }
    }

    fn program(&self, program: u32) -> Option<&Named> {
        self.programs.get(program as usize)?.as_ref()
    }

    /// The program or loaded code at `pc`, and the address in its ELF.
    fn at(&self, program: u32, pc: u64, vm: u64) -> Option<(&Named, u64)> {
        match self.loaded(pc, vm) {
            None => self.program(program).map(|named| (named, pc)),
            Some(code) => {
                let named = code.named.as_ref()?;
                let in_file = code.offset.checked_add(pc - code.address)?;
                Some((named, virtual_address(&named.elf, in_file).unwrap_or(in_file)))
            }
        }
    }

    /// The functions at `pc`, the innermost first.
    pub(crate) fn frames(&self, program: u32, pc: u64, vm: u64) -> Vec<Frame> {
        let Some((named, address)) = self.at(program, pc, vm) else {
            return vec![plain(pc, format!("{pc:#x}"))];
        };
        let frame = |location: Location| {
            let line = location.line.filter(|line| !line.file.is_empty());
            Frame {
                address: pc,
                function: location.function,
                file: line.as_ref().map(|line| line.file.clone()),
                line: line.as_ref().map(|line| line.line).filter(|line| *line > 0),
                column: line.as_ref().map(|line| line.column).filter(|column| *column > 0),
                is_inlined: location.is_inlined,
            }
        };
        let mut located = named.symbols.locate(address);
        // Compilers omit the line of a branch that they merged from two: the comparison before it has one.
        let before = (1..=LINE_SEARCHED).map(|halves| named.symbols.locate(address.wrapping_sub(2 * halves)));
        let is_known = |location: &Location| location.line.as_ref().is_some_and(|line| line.line > 0);
        if let Some(first) = located.first_mut().filter(|first| !is_known(first))
            && let Some(near) = before.map(|mut all| all.swap_remove(0)).find(is_known)
            && near.function == first.function
        {
            first.line = near.line;
        }
        located.into_iter().map(frame).collect()
    }

    fn called(&self, called: &Called, vm: u64) -> Vec<Frame> {
        match called {
            Called::At { program, pc } => self.frames(*program, *pc, vm),
            Called::Exec(number) => vec![plain(0, format!("[exec #{number}]"))],
            Called::Spawn(number) => vec![plain(0, format!("[spawn #{number}]"))],
        }
    }

    /// All functions of a stack, the innermost first.
    pub(crate) fn stack(&self, stack: &Stack, vm: u64) -> Vec<Frame> {
        let all = stack.inner.iter().rev().chain(stack.outer.iter().rev());
        all.flat_map(|called| self.called(called, vm)).collect()
    }

    /// The instruction at `pc`.
    pub(crate) fn instruction(&self, program: u32, pc: u64, vm: u64) -> Option<Instruction> {
        let (named, address) = self.at(program, pc, vm)?;
        Decoder::new(named.image()?).decode(address)
    }

    /// Whether the program has names of functions, and lines.
    pub(crate) fn has(&self, program: u32) -> (bool, bool) {
        let symbols = self.program(program).map(|named| &named.symbols);
        symbols.map_or((false, false), |symbols| (symbols.has_names(), symbols.has_lines()))
    }

    /// Names of the functions of a program.
    pub(crate) fn functions(&self, program: u32) -> Vec<String> {
        let symbols = self.program(program).map(|named| &named.symbols);
        symbols.into_iter().flat_map(Symbols::functions).map(|(_, _, name)| name.to_owned()).collect()
    }

    /// The ELF of a program.
    pub(crate) fn elf(&self, program: u32) -> Option<&[u8]> {
        self.program(program).map(|named| named.elf.as_slice())
    }

    /// Whether scripts cannot write to an address: constants and code.
    pub(crate) fn is_read_only(&self, address: u64, vm: u64, program: u32) -> bool {
        self.loaded(address, vm).is_some() || {
            let file = self.elf(program).and_then(|elf| Elf::parse(elf).ok());
            let segment = file.as_ref().and_then(|file| segment_at(file, address));
            segment.is_some_and(|segment| flags(&segment) & 2 == 0)
        }
    }

    /// The last code from a cell that was loaded to an address.
    fn loaded(&self, address: u64, vm: u64) -> Option<&Loaded> {
        let mut loaded = self.codes.iter().rev().filter(|code| code.vm == vm);
        loaded.find(|code| address.checked_sub(code.address).is_some_and(|behind| behind < code.bytes))
    }

    /// Describes an address of a VM with stack pointer `sp`.
    pub(crate) fn what_is_at(&self, address: u64, vm: u64, program: u32) -> String {
        if address >= MEMORY_BYTES {
            return if address < u64::MAX - (64 << 10) {
                "outside of the VM's 4 MiB of memory".to_owned()
            } else {
                "just below address 0: outside of the VM's memory".to_owned()
            };
        }
        if address < 4096 {
            return "the first page: a null pointer, or a small offset from one".to_owned();
        }
        if self.loaded(address, vm).is_some() {
            return "code that the script has loaded from a cell".to_owned();
        }
        if let Some(segment) = self.program(program).and_then(|named| segment(&named.elf, address)) {
            return segment;
        }
        match address {
            _ if address >= MEMORY_BYTES - STACK_BYTES => "the stack".to_owned(),
            _ => "memory that is in no segment of the script (heap, or what the stack has grown into)"
                .to_owned(),
        }
    }
}

fn plain(address: u64, function: String) -> Frame {
    Frame { address, function, file: None, line: None, column: None, is_inlined: false }
}

/// The segment whose pages contain an address: ckb-vm sets permissions for whole pages.
fn segment_at<'data, 'file>(file: &'file Elf<'data>, address: u64) -> Option<Segment<'data, 'file>> {
    file.segments().find(|it| {
        let end = it.address().saturating_add(it.size()).saturating_add(4095) & !4095;
        (it.address() & !4095..end).contains(&address)
    })
}

fn flags(segment: &Segment<'_, '_>) -> u32 {
    match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.0,
        _ => 0,
    }
}

/// The segment and section that contain an address.
fn segment(elf: &[u8], address: u64) -> Option<String> {
    let file = Elf::parse(elf).ok()?;
    let covers = |start: u64, size: u64| address.checked_sub(start).is_some_and(|behind| behind < size);
    let segment = segment_at(&file, address)?;
    let flags = flags(&segment);
    let kind = match (flags & 1 != 0, flags & 2 != 0) {
        (true, _) => "the script's code, which cannot be written to",
        (false, true) => "the script's data",
        (false, false) => "the script's constants",
    };
    let section = file.sections().find(|section| covers(section.address(), section.size()));
    let section = section.and_then(|section| section.name().ok().map(ToOwned::to_owned));
    let section = section.filter(|name| !name.is_empty() && name.len() < 64);
    let (start, end) = (segment.address(), segment.address().saturating_add(segment.size()));
    Some(match section {
        Some(section) => format!("{kind} (segment {start:#x}..{end:#x}, section {section})"),
        None => format!("{kind} (segment {start:#x}..{end:#x})"),
    })
}

/// The virtual address of an offset in an ELF.
fn virtual_address(elf: &[u8], offset: u64) -> Option<u64> {
    let file = Elf::parse(elf).ok()?;
    file.segments().find_map(|segment| {
        let (start, size) = segment.file_range();
        let behind = offset.checked_sub(start).filter(|behind| *behind < size)?;
        segment.address().checked_add(behind)
    })
}
