//! Checks memory operands: the native stack by a constant, library constants, or guest memory and the state
//! by a base register.

use std::ops::Range;

use antares_abi::HOST_TABLE_OFFSET;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::{CodeFault, image::Image, values::loads_host_function};

/// Maximum bytes of a native stack frame: less than the stack guard has.
pub(crate) const FRAME_BYTES_MAX: i64 = 1 << 20;
/// Bytes below the stack pointer that a leaf function may use.
const RED_ZONE_BYTES: i64 = 128;

/// Bytes of `ud1l N(%eax), %eax` with a one-byte N.
const TRAP_BYTES: usize = 5;

/// The page after the state. Code may only read branch targets from it.
const HOST_PAGE: Range<i64> = {
    #[expect(clippy::cast_possible_wrap, reason = "a few mebibytes")]
    let start = HOST_TABLE_OFFSET as i64;
    start..start + 4096
};

/// Checks the memory operand of `instruction`, if it has one.
pub(crate) fn check(instruction: &Instruction, image: &Image<'_>) -> Result<(), CodeFault> {
    if !(0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory) {
        return Ok(());
    }
    match instruction.mnemonic() {
        // A no-op does not access its operand.
        Mnemonic::Nop => return Ok(()),
        // A trap whose number the fault handler cannot read ends the worker.
        Mnemonic::Ud1 => {
            return if instruction.len() == TRAP_BYTES { Ok(()) } else { Err(CodeFault::Memory) };
        }
        _ => {}
    }
    if instruction.segment_prefix() != Register::None {
        return Err(CodeFault::Memory);
    }
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let displacement = instruction.memory_displacement64().cast_signed();
    let is_address = instruction.mnemonic() == Mnemonic::Lea;
    match base {
        Register::RIP => check_constant(instruction, image),
        Register::RSP => {
            let is_in_frame = (-RED_ZONE_BYTES..FRAME_BYTES_MAX).contains(&displacement);
            let is_probe = is_address && displacement.abs() < 64 * FRAME_BYTES_MAX;
            if index == Register::None && (is_in_frame || is_probe) { Ok(()) } else { Err(CodeFault::Memory) }
        }
        // Computing an address accesses no memory.
        _ if is_address => Ok(()),
        base if base.is_gpr64() && (index == Register::None || index.is_gpr64()) => {
            let is_host_s = index == Register::None && HOST_PAGE.contains(&displacement);
            let goes_there = matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Jmp);
            if !is_host_s || goes_there || loads_host_function(instruction) {
                Ok(())
            } else {
                Err(CodeFault::Memory)
            }
        }
        _ => Err(CodeFault::Memory),
    }
}

/// RIP-relative operands may only read constants or take addresses.
fn check_constant(instruction: &Instruction, image: &Image<'_>) -> Result<(), CodeFault> {
    let address = instruction.memory_displacement64();
    if instruction.mnemonic() == Mnemonic::Lea {
        // Code addresses are valid too. The check of the branch itself covers their use.
        return Ok(());
    }
    let bytes = instruction.memory_size().size() as u64;
    let is_read = instruction.op0_kind() != OpKind::Memory
        || matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Push);
    let is_constant = bytes > 0 && image.is_constant(&(address..address.saturating_add(bytes)));
    if is_read && is_constant { Ok(()) } else { Err(CodeFault::Constant { address }) }
}
