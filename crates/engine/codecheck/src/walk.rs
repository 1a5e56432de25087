//! Linear disassembly of the code.

use std::collections::HashSet;

use iced_x86::{Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use crate::{CodeError, CodeFault, image::Code};

/// Maximum instructions to visit before a branch: generators schedule others between the load of a table's
/// entry and its jump.
const WINDOW: usize = 48;

/// The result of the linear disassembly.
pub(crate) struct Lines {
    pub(crate) instructions: Vec<Instruction>,
    start: u64,
    /// By byte of the code: whether an instruction begins there.
    begins: Vec<bool>,
    /// Registers and the library addresses that instructions put into them.
    named: HashSet<(Register, u64)>,
}

impl Lines {
    pub(crate) fn begins(&self, address: u64) -> bool {
        let place = address.checked_sub(self.start).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.begins.get(place)).is_some_and(|begins| *begins)
    }

    /// Whether `address` is in the code but not at the start of an instruction.
    pub(crate) fn is_inside(&self, address: u64) -> bool {
        let is_code = address.checked_sub(self.start).is_some_and(|place| place < self.begins.len() as u64);
        is_code && !self.begins(address)
    }

    /// Index of the first instruction of the straight-line code before `index`, as far as to visit it.
    pub(crate) fn line_start(&self, index: usize) -> usize {
        let before = (index.saturating_sub(WINDOW)..index).rev();
        index - before.take_while(|before| goes_on(&self.instructions[*before])).count()
    }

    /// Whether some instruction puts the library address `address` into `register`.
    pub(crate) fn names(&self, register: Register, address: u64) -> bool {
        self.named.contains(&(register, address))
    }
}

/// Disassembles from the first byte to the last, without gaps between instructions.
pub(crate) fn disassemble(code: &Code<'_>) -> Result<Lines, CodeError> {
    // Instructions take about four bytes on average.
    let mut instructions = Vec::with_capacity(code.bytes.len() / 3);
    let mut begins = vec![false; code.bytes.len()];
    let mut named = HashSet::new();
    let mut decoder = Decoder::with_ip(64, code.bytes, code.start, DecoderOptions::NONE);
    while decoder.can_decode() {
        let place = decoder.position();
        begins[place] = true;
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(CodeError::Code { address: instruction.ip(), fault: CodeFault::Invalid });
        }
        if !is_read_alike(&instruction, &code.bytes[place..]) {
            return Err(CodeError::Code { address: instruction.ip(), fault: CodeFault::Prefix });
        }
        if instruction.code() == Opcode::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            named.insert((instruction.op0_register(), instruction.memory_displacement64()));
        }
        instructions.push(instruction);
    }
    if let Some(last) = instructions.last().filter(|last| goes_on(last)) {
        return Err(CodeError::Code { address: last.ip(), fault: CodeFault::End });
    }
    Ok(Lines { instructions, start: code.start, begins, named })
}

/// Whether Intel's and AMD's processors decode the bytes of `instruction` alike. With an operand-size prefix,
/// AMD's truncate a branch's distance and target to 16 bits (AMD64 Architecture Programmer's Manual, volume
/// 3, "Operand-Size Override Prefix"). Intel's ignore the prefix.
fn is_read_alike(instruction: &Instruction, bytes: &[u8]) -> bool {
    instruction.flow_control() == FlowControl::Next
        || Decoder::with_ip(64, bytes, instruction.ip(), DecoderOptions::AMD).decode() == *instruction
}

/// Whether execution can continue after `instruction`.
pub(crate) fn goes_on(instruction: &Instruction) -> bool {
    let ends = matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    );
    !ends && !matches!(instruction.mnemonic(), Mnemonic::Ud1 | Mnemonic::Int3)
}
