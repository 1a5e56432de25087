//! Jump tables: where an indirect jump inside a function may go.

use std::ops::Range;

use crate::{Decoder, Image, Instruction, Op, Reg};

/// Entries of one table at the most.
const TABLE_ENTRIES_MAX: u64 = 4096;

/// Addresses that code in memory computes from an upper and a lower part, ascending, once each. Where one of
/// them points, something begins, and what stood before ends: the tables of a program stand one after
/// another.
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

/// The address that `instruction` completes; `uppers` are the upper parts that registers hold.
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

/// Targets inside `function` that a table at `table` lists, in any of the forms that compilers emit, in any
/// loaded memory (ckb-vm lets a script write its constants): 32-bit distances from the table (medany, PIC),
/// 32-bit addresses, 64-bit addresses. It ends before the next of `references`, which are ascending. Hints:
/// the jump itself always uses the address that the guest computed.
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
    // The table may stand behind the function's code, and zeros behind the table: no entry is of the table
    // itself.
    let outside = |target: u64, end: u64| target < table || target >= end;
    let mut take = |bytes: u64, entry: &dyn Fn(u64) -> Option<u64>| {
        let target = |index| {
            // What would end beyond the last address has no entry.
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
