//! Finds stores that LLVM's loop vectorizer must not reorder.
//!
//! The vectorizer takes all stores through one pointer for one access (`LoopAccessAnalysis` of LLVM 22). So
//! it does not check whether they overlap those of another iteration, as they do if the pointer moves by less
//! than their bytes. All iterations of a vector then make the first store before the second one. This is only
//! right if the second store always overwrites the whole first one: it has the same width and the same
//! condition. Unsafe stores are volatile, so LLVM does not vectorize their loop. Unbounded loops contain the
//! meter and are never vectorized.

use antares_ir::{self as ir, Access, Linear, LoopSpan, Op, Width};
use antares_program::BlockId;

/// A store in a block: index of its operation, address and width.
type Store = (usize, Linear, Width);

/// Operation indexes of such stores in the block with this index.
pub(crate) fn ordered_stores(function: &ir::Function, index: usize) -> Vec<usize> {
    let block = &function.blocks[index];
    if !block.is_bounded || is_disjoint(function, index) {
        return Vec::new();
    }
    let own = stores(block);
    let may_pass = |other: usize| {
        function.loops.iter().any(|one| [index, other].iter().all(|index| one.has(BlockId::at(*index))))
    };
    let is_alone = !function.blocks.iter().enumerate().any(|(other, block)| {
        other != index && block.is_bounded && may_pass(other) && !stores(block).is_empty()
    });
    let is_ordered = |place: usize| {
        let (_, at, width) = own[place];
        let meets =
            |(_, other, wide): &Store| *wide != width && (other.root != at.root || other.offset == at.offset);
        !is_alone || own[..place].iter().any(meets)
    };
    (0..own.len()).filter(|place| is_ordered(*place)).map(|place| own[place].0).collect()
}

/// Whether no iteration of the block's loop overlaps the stores of another one through the same pointer. The
/// guard has compared the range, which moves by at least the bytes that an iteration stores.
fn is_disjoint(function: &ir::Function, index: usize) -> bool {
    let has_checks =
        |block: &ir::Block| block.ops.iter().any(|op| matches!(op, Op::Check { access: Access::Write, .. }));
    let moves_past = |span: &LoopSpan| {
        span.access != Access::Write || span.step.unsigned_abs() >= span.bytes.unsigned_abs()
    };
    let mut loops = function.loops.iter().filter(|one| one.has(BlockId::at(index))).peekable();
    loops.peek().is_some()
        && loops.all(|one| {
            let blocks = function.blocks.iter().enumerate().filter(|(other, _)| one.has(BlockId::at(*other)));
            one.spans.iter().all(moves_past) && !blocks.into_iter().any(|(_, block)| has_checks(block))
        })
}

fn stores(block: &ir::Block) -> Vec<Store> {
    let store = |(place, op): (usize, &Op)| match *op {
        Op::Store { width, base, offset, .. } => {
            let Linear { root, offset: of_base } = Linear::of(&block.ops, base, i64::MAX);
            Some((place, Linear { root, offset: of_base.wrapping_add(offset) }, width))
        }
        _ => None,
    };
    block.ops.iter().enumerate().filter_map(store).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ordered stores in `block0` and `block1` of a bounded loop with the given stores, whose addresses
    /// move by `step`.
    fn indices(step: i64, of_0: &str, of_1: &str) -> [Vec<usize>; 2] {
        let text = format!(
            "module version 2 isa imc+b+mop\ncode 0xf000..0x11000\nstores 0x11000..0x400000\nindirect {{sp}} changes {{}}\n
function fn0 at 0x10000 {{a0 a1 a2}} -> {{}} exposed
loop block0 blocks 2 guard block2 last v0
    exit block1 counter 1*a2 + 0 step 1 end 1*a1 + 0
    span.write 1*a0 + 0 step {step} bytes 8
block0 at 0x10000 cycles 6 bounded:
    v0 = read a0\n    v1 = read a1\n    v2 = add v0, v1\n{of_0}    jump block1
block1 at 0x10010 cycles 6 bounded:
    v0 = read a0\n    v1 = read a1\n    v2 = lt.u v0, v1\n{of_1}    branch v2, block0, block2
block2 at 0x10020 cycles 6:
    return\n"
        );
        let module = antares_ir_text::module(&text).unwrap();
        [0, 1].map(|index| ordered_stores(&module.functions[0], index))
    }

    const DOUBLE: &str = "    store.d v0+0, v1\n";
    const WORD: &str = "    store.w v0+0, v1\n";

    #[test]
    fn stores_of_two_widths_that_may_meet_stay_in_order() {
        let of = |stores: &[&str]| indices(-1, &stores.concat(), "")[0].clone();
        assert_eq!(of(&[DOUBLE, WORD]), [4]);
        assert_eq!(of(&[DOUBLE, DOUBLE]), [0; 0]);
        // Through pointers that are known to differ.
        assert_eq!(of(&[DOUBLE, "    store.w v0+8, v1\n"]), [0; 0]);
        // Through pointers with an unknown distance.
        assert_eq!(of(&[DOUBLE, "    store.w v2+8, v1\n"]), [4]);
    }

    #[test]
    fn stores_under_two_conditions_stay_in_order() {
        assert_eq!(indices(1, DOUBLE, DOUBLE), [vec![3], vec![3]]);
        assert_eq!(indices(1, DOUBLE, ""), [vec![], vec![]]);
    }

    #[test]
    fn iterations_that_store_apart_may_run_together() {
        let stores = [DOUBLE, WORD].concat();
        assert_eq!(indices(7, &stores, "")[0], [4]);
        assert_eq!(indices(8, &stores, DOUBLE), [vec![], vec![]]);
        assert_eq!(indices(-8, &stores, "")[0], [0; 0]);
        // The loop checks this range itself, so the guard has not.
        let checked = ["    check.write v0+0..+8\n", DOUBLE, WORD].concat();
        assert_eq!(indices(8, &checked, "")[0], [5]);
    }
}
