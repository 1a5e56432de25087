//! Jump tables: possible targets of an indirect jump inside a function.

use std::ops::Range;

use crate::{Decoder, Image, Instruction, Op, Reg};

const TABLE_ENTRIES_MAX: u64 = 4096;

/// Addresses that code in memory computes from an upper and a lower part, ascending, without duplicates. Each
/// of them starts an object and ends the one before it, such as the tables of a program in a row.
pub(crate) fn references(image: &Image, decoder: &mut Decoder) -> Vec<u64> {
    let mut found = Vec::new();
    for &(start, end) in &image.executable {
        let mut uppers: [Option<u64>; 32] = [None; 32];
        let mut pc = start;
        while pc < end {
            let Some(instruction) = decoder.decode(pc) else {
                pc += 2;
                continue;
            };
            found.extend(reference(pc, &instruction, &mut uppers));
            pc += u64::from(instruction.length);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The address that `instruction` completes. `uppers` are the upper parts in registers.
fn reference(pc: u64, instruction: &Instruction, uppers: &mut [Option<u64>; 32]) -> Option<u64> {
    let Instruction { op, rd, rs1, imm, .. } = *instruction;
    let upper = uppers[rs1.index()];
    uppers[rd.index()] = match op {
        Op::Lui => Some(imm.cast_unsigned()),
        Op::Auipc => Some(pc.wrapping_add_signed(imm)),
        _ => None,
    };
    let address = match op {
        Op::LoadImm | Op::LoadUimm => Some(imm.cast_unsigned()),
        Op::Addi => upper.map(|upper| upper.wrapping_add_signed(imm)),
        _ => None,
    };
    address.filter(|_| rd != Reg::ZERO)
}

/// Targets inside `function` that a table at `table` lists. Handles all forms that compilers emit: 32-bit
/// distances from the table (medany, PIC), 32-bit addresses, 64-bit addresses. The table may lie in any
/// loaded memory, since ckb-vm lets a script write its constants. It ends before the next of the ascending
/// `references`. Targets are hints: the jump itself uses the address that the guest computes.
pub(crate) fn targets(image: &Image, references: &[u64], table: u64, function: &Range<u64>) -> Vec<u64> {
    let next = references.partition_point(|reference| *reference <= table);
    let end = references.get(next).copied().unwrap_or(u64::MAX);
    let place = |index: u64, bytes: u64| table.checked_add(bytes * index).filter(|place| *place < end);
    let word = |index: u64| image.bytes::<4>(place(index, 4)?).map(u32::from_le_bytes);
    let relative = |index| word(index).map(|word| table.wrapping_add_signed(i64::from(word.cast_signed())));
    let absolute = |index| word(index).map(u64::from);
    let wide = |index: u64| image.bytes::<8>(place(index, 8)?).map(u64::from_le_bytes);
    let mut found = Vec::new();
    let inside = |target: &u64| function.contains(target) && target.is_multiple_of(2);
    // The table may follow the function's code, and zeros may follow the table: no entry points into the
    // table.
    let outside = |target: u64, end: u64| target < table || target >= end;
    let mut take = |bytes: u64, entry: &dyn Fn(u64) -> Option<u64>| {
        let target = |index| {
            // An entry whose end exceeds the address space does not exist.
            let end = table.saturating_add(bytes * (index + 1));
            entry(index).filter(|target| inside(target) && outside(*target, end))
        };
        found.extend((0..TABLE_ENTRIES_MAX).map_while(target));
    };
    take(4, &relative);
    take(4, &absolute);
    take(8, &wide);
    found.sort_unstable();
    found.dedup();
    found
}
