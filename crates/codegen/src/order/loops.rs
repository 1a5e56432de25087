//! How much of a function is in loops that a block is not in.

use std::collections::HashMap;

use inkwell::{basic_block::BasicBlock, values::FunctionValue};

/// The control flow of a function.
pub(crate) struct ControlFlow<'c> {
    places: HashMap<BasicBlock<'c>, usize>,
    /// Instructions of each block.
    sizes: Vec<usize>,
    next: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl<'c> ControlFlow<'c> {
    pub(crate) fn of(function: FunctionValue<'c>) -> Self {
        let blocks: Vec<BasicBlock> = function.get_basic_block_iter().collect();
        let places: HashMap<_, _> = blocks.iter().enumerate().map(|(at, block)| (*block, at)).collect();
        let mut next = vec![Vec::new(); blocks.len()];
        let mut before = vec![Vec::new(); blocks.len()];
        for (from, block) in blocks.iter().enumerate() {
            let end = block.get_terminator();
            let operands =
                end.iter().flat_map(|end| (0..end.get_num_operands()).filter_map(|at| end.get_operand(at)));
            for to in operands.filter_map(|operand| places.get(&operand.block()?).copied()) {
                next[from].push(to);
                before[to].push(from);
            }
        }
        let sizes = blocks.iter().map(|block| block.get_instructions().count()).collect();
        Self { places, sizes, next, before }
    }

    /// Instructions in loops that `block` is not in: smaller loops of its own loop, or any of the function if it is in none.
    pub(crate) fn sibling_loops(&self, block: BasicBlock) -> usize {
        let Some(block) = self.places.get(&block).copied() else { return usize::MAX };
        let mut is_open = vec![true; self.next.len()];
        let ahead = reached(&self.next, &mut is_open, block);
        if ahead.contains(&block) {
            is_open.fill(true);
            let behind = reached(&self.before, &mut is_open, block);
            is_open.fill(false);
            // Only what is both ahead and behind is in a loop with the block.
            for at in behind {
                is_open[at] = true;
            }
            let is_ahead: Vec<usize> = ahead.into_iter().filter(|at| is_open[*at]).collect();
            is_open.fill(false);
            for at in is_ahead {
                is_open[at] = at != block;
            }
        } else {
            is_open.fill(true);
        }
        self.in_loops(&is_open)
    }

    /// Instructions in loops among the blocks that are open.
    fn in_loops(&self, is_open: &[bool]) -> usize {
        let mut is_waiting = is_open.to_vec();
        let mut left = Vec::new();
        for start in 0..self.next.len() {
            self.leave(start, &mut is_waiting, &mut left);
        }
        // From the block that was left last: what leads to it and was left before is in a loop with it.
        is_waiting.copy_from_slice(is_open);
        let mut instructions = 0;
        while let Some(last) = left.pop() {
            if std::mem::take(&mut is_waiting[last]) {
                let around = reached(&self.before, &mut is_waiting, last);
                if !around.is_empty() || self.next[last].contains(&last) {
                    instructions += self.sizes[last] + around.iter().map(|at| self.sizes[*at]).sum::<usize>();
                }
            }
        }
        instructions
    }

    /// Goes all paths from `start` among the blocks that wait; `left` gets each behind all that it leads to.
    fn leave(&self, start: usize, is_waiting: &mut [bool], left: &mut Vec<usize>) {
        if !std::mem::take(&mut is_waiting[start]) {
            return;
        }
        let mut path = vec![(start, 0)];
        while let Some((at, edge)) = path.pop() {
            match self.next[at].get(edge) {
                Some(to) => {
                    path.push((at, edge + 1));
                    if std::mem::take(&mut is_waiting[*to]) {
                        path.push((*to, 0));
                    }
                }
                None => left.push(at),
            }
        }
    }
}

/// The open blocks that paths from `start` lead to, which are closed then; `start` too if it is open and a path leads back.
fn reached(next: &[Vec<usize>], is_open: &mut [bool], start: usize) -> Vec<usize> {
    let mut reached: Vec<usize> = Vec::new();
    let mut from = Some(start);
    let mut done = 0;
    while let Some(at) = from {
        reached.extend(next[at].iter().filter(|to| std::mem::take(&mut is_open[**to])));
        from = reached.get(done).copied();
        done += 1;
    }
    reached
}

#[cfg(test)]
mod tests {
    use inkwell::{context::Context, memory_buffer::MemoryBuffer};

    use super::*;

    /// A loop of `outer`, `inner` and `latch`, in which `inner` is a loop of its own; then `alone`, a loop of three.
    const CODE: &str = "define void @f(i1 %c) {\n\
        entry:\n br label %outer\n\
        outer:\n br label %inner\n\
        inner:\n %x = add i64 1, 2\n br i1 %c, label %inner, label %latch\n\
        latch:\n br i1 %c, label %outer, label %between\n\
        between:\n br label %alone\n\
        alone:\n %y = add i64 1, 2\n %z = add i64 1, 2\n br i1 %c, label %alone, label %end\n\
        end:\n ret void\n}\n\0";

    fn beside(name: &str) -> usize {
        let context = Context::create();
        let text = MemoryBuffer::create_from_memory_range_copy(CODE.as_bytes(), "code");
        let module = context.create_module_from_ir(text).unwrap();
        let function = module.get_function("f").unwrap();
        let block = function.get_basic_block_iter().find(|it| it.get_name().to_str() == Ok(name)).unwrap();
        ControlFlow::of(function).sibling_loops(block)
    }

    #[test]
    fn a_block_in_no_loop_is_beside_all_loops() {
        for name in ["entry", "between", "end"] {
            assert_eq!(beside(name), 1 + 2 + 1 + 3, "{name}");
        }
    }

    #[test]
    fn a_block_in_a_loop_is_beside_the_smaller_loops_in_it() {
        assert_eq!(beside("outer"), 2);
        assert_eq!(beside("latch"), 2);
        assert_eq!(beside("inner"), 0);
        assert_eq!(beside("alone"), 0);
    }
}
