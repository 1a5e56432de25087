//! Checks whether another order of a block's instructions is equivalent, from the result alone.
//!
//! An instruction with arbitrary effects keeps its position and the set of instructions before it. Two
//! accesses may change order only if they are disjoint: at constant distances from the same pointer, without
//! common bytes. The check has its own implementation of this, to detect bugs in the scheduler's. LLVM's
//! verifier checks that definitions precede uses.

use std::collections::HashMap;

use inkwell::{
    types::BasicTypeEnum,
    values::{AsValueRef, BasicValueEnum, InstructionOpcode, InstructionValue, PointerValue},
};
use llvm_sys::prelude::LLVMValueRef;

use super::effect::{Access, Effect};

/// Bytes that an access touches.
struct Bytes {
    pointer: LLVMValueRef,
    /// Relative to the pointer, `[start, end)`.
    start: i128,
    end: i128,
}

impl Bytes {
    fn of(access: &Access) -> Self {
        let (mut pointer, mut start) = (access.pointer, 0_i128);
        while let Some((from, distance)) = pointer.as_instruction().and_then(moved) {
            start += i128::from(distance);
            pointer = from;
        }
        Self { pointer: pointer.as_value_ref(), start, end: start + i128::from(access.bytes) }
    }

    fn is_disjoint(&self, other: &Self) -> bool {
        self.pointer == other.pointer && (self.end <= other.start || other.end <= self.start)
    }
}

/// Whether `after` is equivalent to `before`.
pub(super) fn does_the_same(before: &[InstructionValue], after: &[InstructionValue]) -> bool {
    let place: HashMap<LLVMValueRef, usize> =
        after.iter().enumerate().map(|(place, instruction)| (instruction.as_value_ref(), place)).collect();
    if before.len() != after.len() || place.len() != after.len() {
        return false;
    }
    // The position after the last effect, and the memory accesses since then.
    let mut start = 0;
    let mut accesses: Vec<(usize, Access, Bytes)> = Vec::new();
    for (number, instruction) in before.iter().enumerate() {
        let Some(&now) = place.get(&instruction.as_value_ref()) else { return false };
        let is_preserved = match Effect::of(*instruction) {
            Effect::None => now >= start,
            Effect::Memory(access) => {
                let bytes = Bytes::of(&access);
                let overtaken = |(then, other, others): &(usize, Access, Bytes)| {
                    *then > now && access.keeps_order(other, bytes.is_disjoint(others))
                };
                let is_preserved = now >= start && !accesses.iter().any(overtaken);
                accesses.push((now, access, bytes));
                is_preserved
            }
            Effect::Any => {
                start = number + 1;
                accesses.clear();
                now == number
            }
        };
        if !is_preserved {
            return false;
        }
    }
    true
}

/// The pointer to which `instruction` adds a constant number of bytes, and this number.
fn moved<'c>(instruction: InstructionValue<'c>) -> Option<(PointerValue<'c>, i64)> {
    if instruction.get_opcode() != InstructionOpcode::GetElementPtr || instruction.get_num_operands() != 2 {
        return None;
    }
    let BasicTypeEnum::IntType(element) = instruction.get_gep_source_element_type().ok()? else {
        return None;
    };
    let BasicValueEnum::PointerValue(from) = instruction.get_operand(0)?.value()? else { return None };
    let BasicValueEnum::IntValue(number) = instruction.get_operand(1)?.value()? else { return None };
    (element.get_bit_width() == 8).then_some((from, number.get_sign_extended_constant()?))
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;

    use super::{super::tests::parsed, *};

    const CODE: &str = "declare void @g()\n\
        define i64 @f(ptr %p, ptr %q) {\n\
        entry:\n\
        %a = getelementptr i8, ptr %p, i64 8\n\
        store i64 1, ptr %p\n\
        %x = load i32, ptr %a\n\
        %b = getelementptr i8, ptr %p, i64 6\n\
        %y = load i32, ptr %b\n\
        store i64 2, ptr %q\n\
        %z = load volatile i64, ptr %q\n\
        %v = load i64, ptr %p\n\
        call void @g()\n\
        %w = add i64 %z, 1\n\
        ret i64 %w\n}\n";

    /// Whether the code stays equivalent after a change of its instructions.
    fn may_be(change: impl FnOnce(&mut Vec<InstructionValue>)) -> bool {
        let context = Context::create();
        let module = parsed(&context, CODE);
        let block = module.get_function("f").unwrap().get_first_basic_block().unwrap();
        let before: Vec<InstructionValue> = block.get_instructions().collect();
        let mut after = before.clone();
        change(&mut after);
        does_the_same(&before, &after)
    }

    /// The same for a move from one place to another.
    fn may_move(from: usize, to: usize) -> bool {
        may_be(|code| {
            let moved = code.remove(from);
            code.insert(to, moved);
        })
    }

    #[test]
    fn only_accesses_that_are_certainly_apart_change_places() {
        assert!(may_move(1, 1));
        assert!(may_move(2, 1), "a load of bytes 8 to 12 before a store of bytes 0 to 8");
        assert!(!may_move(4, 1), "a load of bytes 6 to 10 before that store");
        assert!(may_move(4, 2), "a load before a load");
        assert!(!may_move(5, 4), "a store through another pointer before a load");
        assert!(!may_move(1, 5), "a store behind one through another pointer");
        assert!(!may_move(5, 6), "a store behind a volatile load");
        assert!(!may_move(9, 8), "a sum before a call");
        assert!(!may_move(6, 8), "a volatile load behind a call");
    }

    #[test]
    fn accesses_keep_their_order_with_volatile_ones_and_arithmetic_does_not() {
        assert!(may_move(0, 2), "an address behind a store");
        assert!(may_move(3, 6), "an address behind a volatile load");
        assert!(!may_move(7, 6), "a load before a volatile load");
        assert!(!may_move(6, 7), "a volatile load behind a load");
    }

    #[test]
    fn no_instruction_is_lost_or_doubled() {
        assert!(may_be(|_| {}) && !may_be(|code| code[3] = code[0]) && !may_be(|code| _ = code.remove(0)));
    }
}
