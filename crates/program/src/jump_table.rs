//! Jump tables: where an indirect jump inside a function may go.

use std::ops::Range;

use crate::Image;

/// Entries of one table at the most.
const TABLE_ENTRIES_MAX: u64 = 4096;

/// Targets inside `function` that a table at `table` lists, in any of the forms that compilers emit, in any loaded
/// memory (ckb-vm lets a script write its constants): 32-bit distances
/// from the table (medany, PIC), 32-bit addresses, 64-bit addresses. Hints: the jump itself always uses the address
/// that the guest computed.
pub(crate) fn targets(image: &Image, table: u64, function: &Range<u64>, into: &mut Vec<u64>) {
    let word = |index: u64| image.bytes::<4>(table.wrapping_add(4 * index)).map(u32::from_le_bytes);
    let relative = |index| word(index).map(|word| table.wrapping_add_signed(i64::from(word.cast_signed())));
    let absolute = |index| word(index).map(u64::from);
    let wide = |index: u64| image.bytes::<8>(table.wrapping_add(8 * index)).map(u64::from_le_bytes);
    take_while_inside(relative, function, into);
    take_while_inside(absolute, function, into);
    take_while_inside(wide, function, into);
}

fn take_while_inside(entry: impl Fn(u64) -> Option<u64>, function: &Range<u64>, into: &mut Vec<u64>) {
    let inside = |target: &u64| function.contains(target) && target.is_multiple_of(2);
    into.extend((0..TABLE_ENTRIES_MAX).map_while(|index| entry(index).filter(inside)));
}
