//! Proves a block's accesses: an earlier check in the block or the stack frame covers each of them.

use antares_ir::{Access, Block, Op, Value};
use antares_program::Reg;

use crate::{available::ImpliedWindows, frame::SpDistance};

/// The first operation of `block` with an unchecked access. `sp` is its distance from the function's entry
/// value. The entry checks loads and stores from `frame_low` up to that value.
pub(super) fn unchecked(
    block: &Block,
    implied: ImpliedWindows,
    (sp, frame_low): (SpDistance, Option<i64>),
) -> Option<usize> {
    let mut checks: Vec<(Value, Access, i64, i64)> = Vec::new();
    for (operation, op) in block.ops.iter().enumerate() {
        let (access, base, offset, width) = match *op {
            Op::Check { access, base, low, high } | Op::Proved { access, base, low, high } => {
                checks.push((base, access, low, high));
                continue;
            }
            Op::Load { base, offset, width, .. } => (Access::Read, base, offset, width.bytes()),
            Op::Store { base, offset, width, .. } => (Access::Write, base, offset, width.bytes()),
            _ => continue,
        };
        let is_checked = checks.iter().any(|&(checked, by, low, high)| {
            let (more, is_seen_to) = match (by, access) {
                (Access::Write, Access::Read) => (implied.below.unwrap_or(0), implied.below.is_some()),
                _ => (0, by == access),
            };
            checked == base && is_seen_to && covers((low, high), more, (offset, width))
        });
        let is_frame = || {
            let (SpDistance::Is(distance), Some(low)) = (sp, frame_low) else { return false };
            let start = i128::from(offset) + i128::from(distance);
            let is_inside = i128::from(low) <= start && start + i128::from(width) <= 0;
            is_inside && block.ops[base.0 as usize] == Op::Read(Reg::SP)
        };
        if !is_checked && !is_frame() {
            return Some(operation);
        }
    }
    None
}

/// Whether a check's range, extended by `more` bytes below it, covers an access. Addresses wrap.
fn covers((low, high): (i64, i64), more: i64, (offset, width): (i64, i64)) -> bool {
    let bytes = u128::from(high.wrapping_sub(low).cast_unsigned()) + u128::from(more.cast_unsigned());
    let position = u128::from(offset.wrapping_sub(low.wrapping_sub(more)).cast_unsigned());
    position + u128::from(width.cast_unsigned()) <= bytes
}
