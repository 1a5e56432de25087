//! What is known of a program: functions, lines, and how to get from a function to the one that called it.

use std::collections::HashMap;

use antares_abi::{CompileOptions, Isa};
use antares_profile_view::{Line, Location, Symbols, printable};
use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// Addresses whose lines are remembered.
const LINES_MAX: usize = 65_536;
/// Register of the stack's end, and of where a function returns to.
const SP: usize = 2;
const RA: usize = 1;

/// A program's names.
pub(super) struct Names {
    symbols: Symbols,
    elf: bytes::Bytes,
    lines: HashMap<u64, Option<Line>>,
}

/// Where a function that called is, and its registers as far as they are known.
pub(super) struct Caller {
    pub(super) pc: u64,
    pub(super) registers: [u64; 32],
}

impl Names {
    pub(super) fn of(elf: bytes::Bytes, vm_version: u32) -> Self {
        let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        Self { symbols: Symbols::of(&elf, options), elf, lines: HashMap::new() }
    }

    /// The functions at `pc`, the innermost first.
    pub(super) fn locate(&self, pc: u64) -> Vec<Location> {
        self.symbols.locate(pc)
    }

    /// The line of the instruction at `pc`.
    pub(super) fn line(&mut self, pc: u64) -> Option<Line> {
        if self.lines.len() >= LINES_MAX {
            self.lines.clear();
        }
        let symbols = &self.symbols;
        let line = self.lines.entry(pc).or_insert_with(|| {
            let line = symbols.locate(pc).into_iter().next()?.line?;
            (line.line != 0).then_some(Line { column: 0, ..line })
        });
        line.clone()
    }

    /// Start and end of the function at `pc`.
    pub(super) fn extent(&self, pc: u64) -> Option<(u64, u64)> {
        self.symbols.extent(pc)
    }

    /// Where a function, or a variable, of this name is, and its bytes.
    pub(super) fn find(&self, name: &str) -> Option<(u64, u64)> {
        let function = self.symbols.functions().find(|(_, _, known)| *known == name);
        let function = function.map(|(start, end, _)| (start, end - start));
        function.or_else(|| {
            let file = object::File::parse(&*self.elf).ok()?;
            let found = file.symbols().find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
            Some((found.address(), found.size()))
        })
    }

    /// Where code of this line begins; `file` may be the end of its path.
    pub(super) fn addresses(&self, file: &str, line: u32) -> Vec<u64> {
        self.symbols.addresses(file, line)
    }

    /// Who called the function that has these registers at `pc`. `read` reads 8 bytes.
    pub(super) fn caller(
        &self,
        pc: u64,
        registers: &[u64; 32],
        is_innermost: bool,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<Caller> {
        // A call at a function's end returns behind it.
        let at = if is_innermost { pc } else { pc.saturating_sub(1) };
        let file = object::File::parse(&*self.elf).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.uncompressed_data().ok()?))
        };
        if let Some((_, data)) = section(".debug_frame") {
            let mut frames = DebugFrame::new(&data, LittleEndian);
            frames.set_address_size(8);
            if let Some(caller) = unwind(&frames, &BaseAddresses::default(), at, registers, read) {
                return Some(caller);
            }
        }
        let (address, data) = section(".eh_frame")?;
        let mut frames = EhFrame::new(&data, LittleEndian);
        frames.set_address_size(8);
        unwind(&frames, &BaseAddresses::default().set_eh_frame(address), at, registers, read)
    }
}

fn unwind<'a, S: UnwindSection<gimli::EndianSlice<'a, LittleEndian>>>(
    frames: &S,
    bases: &BaseAddresses,
    at: u64,
    registers: &[u64; 32],
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<Caller> {
    let entry = frames.fde_for_address(bases, at, S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(frames, bases, &mut context, at).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let cfa = registers.get(usize::from(register.0))?.wrapping_add_signed(*offset);
    let mut callers = *registers;
    callers[SP] = cfa;
    for (number, value) in callers.iter_mut().enumerate().skip(1) {
        let rule = u16::try_from(number).ok().and_then(|number| row.register(Register(number)));
        match rule {
            Some(RegisterRule::Offset(offset)) => *value = read(cfa.wrapping_add_signed(offset))?,
            Some(RegisterRule::ValOffset(offset)) => *value = cfa.wrapping_add_signed(offset),
            Some(RegisterRule::Register(other)) => *value = *registers.get(usize::from(other.0))?,
            Some(RegisterRule::Undefined) if number == RA => return None,
            _ => {}
        }
    }
    Some(Caller { pc: callers[RA], registers: callers })
}

/// A name that a screen can show.
pub(super) fn shown(name: &str) -> String {
    printable(name)
}
