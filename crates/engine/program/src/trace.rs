//! Detects straight-line code whose trace length ckb-vm's assembly cannot store.
//!
//! `AsmMachine` runs traces of up to 16 decoded instructions and stores each trace's bytes in a `u8`. A
//! fusion takes up to 20 bytes, so a trace may exceed 255. Exactly 256 bytes are an error. More bytes wrap,
//! and the script continues in the middle of the trace (ckb-vm 0.24, `machine/asm/mod.rs`). Native code has
//! no such limit, so it must not run there. A trace may begin at any instruction: after a jump, or after a
//! full trace.

use crate::{Decoder, GuestAddr, Instruction, Op};

/// Maximum instructions of a trace: `TRACE_ITEM_LENGTH` of ckb-vm.
const TRACE_INSTRUCTIONS_MAX: usize = 16;
/// Maximum bytes that a trace's length can represent.
const TRACE_BYTES_MAX: u64 = 255;

impl Instruction {
    /// Whether ckb-vm ends a trace after this instruction.
    pub(crate) fn ends_trace(&self) -> bool {
        use Op::{Auipc, Ebreak, Ecall, FarJumpAbs, FarJumpRel, Fence, FenceI, Jal, Jalr};
        let is_system = matches!(self.op, Auipc | Ebreak | Ecall | Fence | FenceI);
        is_system || self.is_branch() || matches!(self.op, Jal | Jalr | FarJumpRel | FarJumpAbs)
    }
}

/// Whether a trace that begins in `line` may exceed the maximum length. If code ends without a jump, the
/// script may load other code after it at run time. Fifteen fusions of that code exceed the maximum.
pub(crate) fn is_overlong(decoder: &mut Decoder<'_>, line: &[(GuestAddr, Instruction)]) -> bool {
    let mut window = Window::default();
    let mut next = None;
    for (pc, instruction) in line {
        if window.push(u64::from(instruction.length)) {
            return true;
        }
        next = Some(pc.0.wrapping_add(u64::from(instruction.length)));
        if instruction.ends_trace() {
            window = Window::default();
            next = None;
        }
    }
    // A trace that begins in the line may continue after it.
    for _ in 1..TRACE_INSTRUCTIONS_MAX {
        let Some(pc) = next else { return false };
        let Some(instruction) = decoder.decode(pc) else {
            return decoder.is_end_of_code(pc);
        };
        if window.push(u64::from(instruction.length)) {
            return true;
        }
        next = Some(pc.wrapping_add(u64::from(instruction.length))).filter(|_| !instruction.ends_trace());
    }
    false
}

/// The last instructions of a line, up to the length of a trace.
#[derive(Default)]
struct Window {
    lengths: [u64; TRACE_INSTRUCTIONS_MAX],
    count: usize,
    bytes: u64,
}

impl Window {
    /// Adds an instruction. Returns whether a trace that ends with it is too long.
    fn push(&mut self, length: u64) -> bool {
        let place = &mut self.lengths[self.count % TRACE_INSTRUCTIONS_MAX];
        self.bytes = self.bytes - std::mem::replace(place, length) + length;
        self.count += 1;
        self.bytes > TRACE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use ckb_vm::{
        ckb_vm_definitions::instructions::{MAXIMUM_OPCODE, MINIMAL_OPCODE},
        instructions::is_basic_block_end_instruction,
    };

    use super::*;

    #[test]
    fn traces_end_where_those_of_ckb_vm_do() {
        let mut count = 0;
        for opcode in u64::from(MINIMAL_OPCODE)..=u64::from(MAXIMUM_OPCODE) {
            // `unpack` expects the upper half of opcodes above 0xff elsewhere; there are no such opcodes.
            let Some(instruction) = Instruction::unpack(opcode, 4, 1) else { continue };
            assert_eq!(instruction.ends_trace(), is_basic_block_end_instruction(opcode), "{instruction}");
            count += 1;
        }
        assert!(count > 140, "{count} opcodes");
    }

    #[test]
    fn the_longest_window_decides() {
        let mut window = Window::default();
        // Twelve fusions and four plain instructions: 256 bytes.
        let lengths = [4, 4, 4].into_iter().chain([20; 12]).chain([4]);
        let answers: Vec<bool> = lengths.map(|length| window.push(length)).collect();
        assert_eq!(answers.iter().position(|answer| *answer), Some(15));
        let mut window = Window::default();
        assert!(!(0..100).any(|index| window.push(if index % 4 == 0 { 4 } else { 18 })));
    }
}
