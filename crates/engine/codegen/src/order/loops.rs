//! Measures the loops of a function that do not contain a block.

use std::collections::HashMap;

use antares_ir::Cfg;
use inkwell::{basic_block::BasicBlock, values::FunctionValue};

pub(crate) struct ControlFlow<'c> {
    places: HashMap<BasicBlock<'c>, usize>,
    /// Instructions of each block.
    sizes: Vec<usize>,
    cfg: Cfg,
}

impl<'c> ControlFlow<'c> {
    pub(crate) fn of(function: FunctionValue<'c>) -> Self {
        let blocks: Vec<BasicBlock> = function.get_basic_block_iter().collect();
        let places: HashMap<_, _> = blocks.iter().enumerate().map(|(at, block)| (*block, at)).collect();
        let following = |block: &BasicBlock| {
            let end = block.get_terminator();
            let operands =
                end.iter().flat_map(|end| (0..end.get_num_operands()).filter_map(|at| end.get_operand(at)));
            operands.filter_map(|operand| places.get(&operand.block()?).copied()).collect()
        };
        let cfg = Cfg::new(blocks.iter().map(following).collect());
        let sizes = blocks.iter().map(|block| block.get_instructions().count()).collect();
        Self { places, sizes, cfg }
    }

    /// Instructions in loops that do not contain `block`: inner loops of its own loop, or all loops of the
    /// function if it is in none.
    pub(crate) fn sibling_loops(&self, block: BasicBlock) -> usize {
        let Some(block) = self.places.get(&block).copied() else { return usize::MAX };
        let mut is_open = vec![true; self.sizes.len()];
        let mut loops = self.loops(&is_open);
        if let Some(own) = loops.iter().find(|own| own.contains(&block)) {
            is_open.fill(false);
            own.iter().for_each(|at| is_open[*at] = *at != block);
            loops = self.loops(&is_open);
        }
        loops.iter().flatten().map(|at| self.sizes[*at]).sum()
    }

    /// The outermost loops among the open blocks: maximal sets of blocks that all reach each other.
    fn loops(&self, is_open: &[bool]) -> Vec<Vec<usize>> {
        let mut is_waiting = is_open.to_vec();
        let mut order = Vec::new();
        for start in 0..self.sizes.len() {
            self.visit(start, &mut is_waiting, &mut order);
        }
        is_waiting.copy_from_slice(is_open);
        // Start at the block finished last: waiting blocks that lead to it share a loop with it.
        let mut loops: Vec<Vec<usize>> = Vec::new();
        for last in order.into_iter().rev() {
            if std::mem::take(&mut is_waiting[last]) {
                loops.push(self.leading_to(last, &mut is_waiting));
            }
        }
        loops.retain(|blocks| blocks.len() > 1 || self.cfg.successors(blocks[0]).contains(&blocks[0]));
        loops
    }

    /// Depth-first search from `start` over waiting blocks. `order` gets each after all that it reaches.
    fn visit(&self, start: usize, is_waiting: &mut [bool], order: &mut Vec<usize>) {
        if !std::mem::take(&mut is_waiting[start]) {
            return;
        }
        let mut path = vec![(start, 0)];
        while let Some((at, edge)) = path.pop() {
            match self.cfg.successors(at).get(edge) {
                Some(to) => {
                    path.push((at, edge + 1));
                    if std::mem::take(&mut is_waiting[*to]) {
                        path.push((*to, 0));
                    }
                }
                None => order.push(at),
            }
        }
    }

    /// Takes `end` and the waiting blocks that lead to it.
    fn leading_to(&self, end: usize, is_waiting: &mut [bool]) -> Vec<usize> {
        let mut found = vec![end];
        let mut done = 0;
        while let Some(at) = found.get(done).copied() {
            let before = self.cfg.predecessors(at).iter();
            found.extend(before.filter(|from| std::mem::take(&mut is_waiting[**from])));
            done += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;

    use super::{super::tests::parsed, *};

    /// A loop of `outer`, `inner` and `latch`, which contains the loop `inner`; then `alone`, a loop of three
    /// instructions.
    const CODE: &str = "define void @f(i1 %c) {\n\
        entry:\n br label %outer\n\
        outer:\n br label %inner\n\
        inner:\n %x = add i64 1, 2\n br i1 %c, label %inner, label %latch\n\
        latch:\n br i1 %c, label %outer, label %between\n\
        between:\n br label %alone\n\
        alone:\n %y = add i64 1, 2\n %z = add i64 1, 2\n br i1 %c, label %alone, label %end\n\
        end:\n ret void\n}\n";

    fn alignment(name: &str) -> usize {
        let context = Context::create();
        let module = parsed(&context, CODE);
        let function = module.get_function("f").unwrap();
        let block = function.get_basic_block_iter().find(|it| it.get_name().to_str() == Ok(name)).unwrap();
        ControlFlow::of(function).sibling_loops(block)
    }

    #[test]
    fn a_block_in_no_loop_is_beside_all_loops() {
        for name in ["entry", "between", "end"] {
            assert_eq!(alignment(name), 1 + 2 + 1 + 3, "{name}");
        }
    }

    #[test]
    fn a_block_in_a_loop_is_beside_the_smaller_loops_in_it() {
        assert_eq!(alignment("outer"), 2);
        assert_eq!(alignment("latch"), 2);
        assert_eq!(alignment("inner"), 0);
        assert_eq!(alignment("alone"), 0);
    }
}
