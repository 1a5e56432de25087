//! Effects of instructions, and which instructions may change order. The scheduler and its check share this.
//!
//! Arithmetic may cross a volatile access. LLVM's language reference only orders volatile accesses among each
//! other; here they also keep their order with all other accesses.

use inkwell::{
    types::BasicTypeEnum,
    values::{BasicValueEnum, InstructionOpcode, InstructionValue, PointerValue},
};

/// Intrinsics without memory accesses or other side effects.
const PURE: [&str; 10] = ["fshl", "fshr", "smin", "umin", "smax", "umax", "ctlz", "cttz", "ctpop", "bswap"];

pub(super) enum Effect<'c> {
    /// Only produces a value.
    None,
    /// Reads or writes memory.
    Memory(Access<'c>),
    /// Arbitrary effects: no instruction changes order with it.
    Any,
}

/// An access to memory.
#[derive(Clone, Copy)]
pub(super) struct Access<'c> {
    pub(super) is_store: bool,
    pub(super) is_volatile: bool,
    pub(super) pointer: PointerValue<'c>,
    /// Length in bytes, from the pointer on.
    pub(super) bytes: u32,
}

impl Access<'_> {
    /// Whether both keep their order. `are_apart` says whether they certainly touch different bytes.
    pub(super) fn keeps_order(&self, other: &Self, are_apart: bool) -> bool {
        let is_seen = self.is_store || other.is_store;
        self.is_volatile || other.is_volatile || (is_seen && !are_apart)
    }
}

impl<'c> Effect<'c> {
    pub(super) fn of(instruction: InstructionValue<'c>) -> Self {
        use InstructionOpcode as Is;
        let is_known = width(instruction) > 0;
        match instruction.get_opcode() {
            Is::Load => access(instruction, 0, width(instruction)),
            Is::Store => {
                access(instruction, 1, width_of(instruction.get_operand(0).and_then(|it| it.value())))
            }
            Is::Call if is_known && is_pure(instruction) => Self::None,
            Is::Add | Is::Sub | Is::Mul | Is::UDiv | Is::SDiv | Is::URem | Is::SRem if is_known => Self::None,
            Is::And | Is::Or | Is::Xor | Is::Shl | Is::LShr | Is::AShr if is_known => Self::None,
            Is::ICmp | Is::Select | Is::ZExt | Is::SExt | Is::Trunc | Is::GetElementPtr if is_known => {
                Self::None
            }
            _ => Self::Any,
        }
    }
}

/// The access of `instruction` to this many bits, with its pointer in operand number `at`.
fn access(instruction: InstructionValue, at: u32, bits: u32) -> Effect {
    match instruction.get_operand(at).and_then(|operand| operand.value()) {
        Some(BasicValueEnum::PointerValue(pointer)) if bits > 0 => Effect::Memory(Access {
            is_store: instruction.get_opcode() == InstructionOpcode::Store,
            is_volatile: instruction.get_volatile().unwrap_or(true),
            pointer,
            bytes: bits.div_ceil(8),
        }),
        _ => Effect::Any,
    }
}

fn is_pure(call: InstructionValue) -> bool {
    let callee = call.get_num_operands().checked_sub(1).and_then(|last| call.get_operand(last)?.value());
    let Some(BasicValueEnum::PointerValue(callee)) = callee else { return false };
    let mut parts = callee.get_name().to_bytes().split(|byte| *byte == b'.');
    let is_known = |part: &[u8]| PURE.iter().any(|name| name.as_bytes() == part);
    parts.next() == Some(b"llvm") && parts.next().is_some_and(is_known)
}

/// Bits of an instruction's result; 0 unless it is an integer or pointer.
pub(super) fn width(instruction: InstructionValue) -> u32 {
    bits(BasicTypeEnum::try_from(instruction.get_type()).ok())
}

/// Bits of a value; 0 unless it is an integer or pointer.
pub(super) fn width_of(value: Option<BasicValueEnum>) -> u32 {
    bits(value.map(|value| value.get_type()))
}

fn bits(kind: Option<BasicTypeEnum>) -> u32 {
    match kind {
        Some(BasicTypeEnum::IntType(int)) => int.get_bit_width(),
        Some(BasicTypeEnum::PointerType(_)) => 64,
        _ => 0,
    }
}
