//! The scheduler: reorders instructions in blocks that need many more registers than there are.
//!
//! Guest code has an order for 31 registers, and LLVM mostly preserves the given order. So before host code
//! generation, the scheduler reorders a block with many spills so that fewer values are live at once.

mod effect;
mod graph;
mod loops;
mod preserved;
mod schedule;

use inkwell::{
    attributes::{Attribute, AttributeLoc},
    basic_block::BasicBlock,
    builder::Builder,
    module::Module,
    values::{FunctionValue, InstructionOpcode, InstructionValue},
};

use self::{effect::Effect, graph::Graph, loops::ControlFlow, schedule::Schedule};

/// Minimum and maximum instructions of a region to schedule. Smaller regions gain nothing, and the time grows
/// faster than the size.
const INSTRUCTIONS: std::ops::RangeInclusive<usize> = 48..=2048;

/// Host registers for values: all but the stack pointer, one for operands of products, and one temporary.
const REGISTERS: usize = 13;

/// Minimum loads and stores that a new order must save, and the maximum percentage that may remain. A new
/// order changes the register allocation of the whole function, so its loops may become slower by chance.
const SAVED_MIN: usize = 20;
const REMAINING_MAX_PERCENT: usize = 80;

/// Maximum share of sibling loops, as a fraction of a block's instructions.
const SIBLING_LOOPS_PART: usize = 8;

/// Reorders the blocks of `module`. Returns the number of blocks that keep their order because the new one is
/// not equivalent, which is a bug in the scheduler.
pub(crate) fn run(module: &Module) -> u64 {
    run_by(ordered, module)
}

/// Returns a better order of a block's instructions except phis, if there is one.
type Scheduler = for<'c> fn(BasicBlock<'c>) -> Option<Vec<InstructionValue<'c>>>;

/// Like [`run`], with another `scheduler`, which may be wrong.
fn run_by(scheduler: Scheduler, module: &Module) -> u64 {
    let builder = module.get_context().create_builder();
    let mut refused = 0;
    for function in module.get_functions().filter(|function| !is_unoptimized(*function)) {
        let mut flow = None;
        for block in function.get_basic_block_iter() {
            let Some(ordered) = scheduler(block) else { continue };
            let flow = flow.get_or_insert_with(|| ControlFlow::of(function));
            if flow.sibling_loops(block) > ordered.len() / SIBLING_LOOPS_PART {
                continue;
            }
            if preserved::does_the_same(&scheduled(block), &ordered) {
                refill(block, &ordered, &builder);
            } else {
                refused += 1;
            }
        }
    }
    refused
}

/// The instructions of `block` that have an order.
fn scheduled(block: BasicBlock) -> Vec<InstructionValue> {
    block.get_instructions().filter(|it| it.get_opcode() != InstructionOpcode::Phi).collect()
}

/// Whether the function is so large that LLVM does not optimize it either.
fn is_unoptimized(function: FunctionValue) -> bool {
    let kind = Attribute::get_named_enum_kind_id("optnone");
    function.get_enum_attribute(AttributeLoc::Function, kind).is_some()
}

/// The production scheduler.
fn ordered(block: BasicBlock) -> Option<Vec<InstructionValue>> {
    let all = scheduled(block);
    let mut ordered = Vec::with_capacity(all.len());
    let mut is_changed = false;
    for region in all.split_inclusive(|instruction| is_barrier(*instruction)) {
        let barriers = usize::from(region.last().is_some_and(|last| is_barrier(*last)));
        let (inside, barrier) = region.split_at(region.len() - barriers);
        let other = if INSTRUCTIONS.contains(&inside.len()) { better_order(inside) } else { None };
        is_changed |= other.is_some();
        ordered.extend(other.unwrap_or_else(|| inside.to_vec()));
        ordered.extend_from_slice(barrier);
    }
    is_changed.then_some(ordered)
}

/// Whether no instruction may move across `instruction`.
fn is_barrier(instruction: InstructionValue) -> bool {
    matches!(Effect::of(instruction), Effect::Any)
}

/// Puts the instructions of `block` except phis into this order.
fn refill<'c>(block: BasicBlock<'c>, ordered: &[InstructionValue<'c>], builder: &Builder<'c>) {
    for instruction in ordered {
        instruction.remove_from_basic_block();
    }
    builder.position_at_end(block);
    for instruction in ordered {
        let name = instruction.get_name().and_then(|name| name.to_str().ok()).filter(|name| !name.is_empty());
        builder.insert_instruction(instruction, name);
    }
}

/// An order of `instructions` with far fewer loads and stores, if there is one.
fn better_order<'c>(instructions: &[InstructionValue<'c>]) -> Option<Vec<InstructionValue<'c>>> {
    let graph = Graph::of(instructions);
    let schedule = Schedule::of(&graph.nodes, graph.registers, &graph.live_out);
    let as_given: Vec<usize> = (0..graph.nodes.len()).collect();
    let before = schedule.spills(&as_given, REGISTERS);
    if before < SAVED_MIN {
        return None;
    }
    let order = schedule.order()?;
    let after = schedule.spills(&order, REGISTERS);
    let is_worth_it = after + SAVED_MIN <= before && after * 100 <= before * REMAINING_MAX_PERCENT;
    let members = order.iter().flat_map(|node| &graph.members[*node]);
    is_worth_it.then(|| members.map(|member| instructions[*member]).collect())
}

#[cfg(test)]
mod tests {
    use inkwell::{context::Context, memory_buffer::MemoryBuffer};

    use super::*;

    /// The module of this text.
    pub(super) fn parsed<'c>(context: &'c Context, code: &str) -> Module<'c> {
        let code = format!("{code}\0");
        let text = MemoryBuffer::create_from_memory_range_copy(code.as_bytes(), "code");
        context.create_module_from_ir(text).unwrap()
    }

    /// Reverses all instructions except the terminator.
    fn reversed<'c>(block: BasicBlock<'c>) -> Option<Vec<InstructionValue<'c>>> {
        let mut all = scheduled(block);
        let last = all.pop()?;
        all.reverse();
        all.push(last);
        Some(all)
    }

    /// The number of blocks that keep their order, and the resulting module.
    fn after(scheduler: Scheduler, code: &str) -> (u64, String) {
        let context = Context::create();
        let module = parsed(&context, code);
        let refused = run_by(scheduler, &module);
        module.verify().unwrap();
        (refused, module.print_to_string().to_string())
    }

    #[test]
    fn a_block_whose_new_order_is_wrong_keeps_the_one_it_had() {
        let wrong =
            "define void @f(ptr %p, ptr %q) {\nstore i64 1, ptr %p\nstore i64 2, ptr %q\nret void\n}\n";
        let right =
            "define void @g(ptr %p) {\nstore volatile i64 1, ptr %p\n%x = add i64 1, 2\nret void\n}\n";
        let both = format!("{wrong}{right}");
        let (_, before) = after(|_| None, &both);
        let (refused, behind) = after(reversed, &both);
        assert_eq!(refused, 1);
        let g = |text: &str| text.find("@g").unwrap();
        assert_eq!(before[..g(&before)], behind[..g(&behind)]);
        assert!(behind.find("add i64").unwrap() < behind.find("store volatile").unwrap(), "{behind}");
    }

    /// Resembles a program that prints registers as hexadecimal digits and may load code: volatile byte
    /// stores to consecutive addresses, each of a part of the same value.
    #[test]
    fn a_region_of_volatile_stores_has_an_order_that_the_check_takes() {
        let mut code = String::from("define void @f(ptr %p, ptr %q, i64 %v) {\n");
        for at in 0..64 {
            code += &format!("%s{at} = mul i64 %v, {}\n", 2 * at + 3);
        }
        for at in 0..64 {
            code += &format!("%a{at} = getelementptr i8, ptr %p, i64 {}\n", 8 * at);
            code += &format!("store volatile i64 %s{at}, ptr %a{at}\n");
        }
        code += "ret void\n}\n";
        let (_, before) = after(|_| None, &code);
        let (refused, behind) = after(ordered, &code);
        assert_eq!(refused, 0);
        assert_ne!(before, behind, "there is a better order");
        let stores = |text: &str| {
            text.lines().filter(|line| line.contains("volatile")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(stores(&before), stores(&behind));
    }
}
