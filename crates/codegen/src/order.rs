//! The scheduler: the order of instructions in blocks of high register pressure, which need many more registers than there are.
//!
//! Guest code comes in an order for 31 registers, and LLVM keeps what it is given but for small steps. So a block that would be
//! all spills is put into an order in which fewer values live at once, before host code is made of it.

mod graph;
mod kept;
mod loops;
mod schedule;

use inkwell::{
    attributes::{Attribute, AttributeLoc},
    basic_block::BasicBlock,
    builder::Builder,
    module::Module,
    values::{FunctionValue, InstructionOpcode, InstructionValue},
};

use self::{
    graph::{Graph, is_barrier},
    loops::ControlFlow,
    schedule::Schedule,
};
use crate::CodegenError;

/// Instructions of a region that are scheduled, at least and at most: fewer have nothing to gain, and time grows faster than
/// their number.
const INSTRUCTIONS: std::ops::RangeInclusive<usize> = 48..=2048;

/// Registers for values: those of the host but for the stack's, for one operand of products, and for one that an operation needs
/// in between.
const REGISTERS: usize = 13;

/// Loads and stores that another order must save, and the percentage of those before that may be left: registers are
/// given out anew in all of the function, in its loops too, and what was in luck there may lose.
const SAVED_MIN: usize = 20;
const LEFT_MAX_PERCENT: usize = 80;

/// The part of a block's instructions that may be in sibling loops.
const SIBLING_LOOPS_PART: usize = 8;

/// Puts the blocks of `module` in order.
///
/// # Errors
/// [`CodegenError::Order`] if an order would not do the same.
pub(crate) fn run(module: &Module) -> Result<(), CodegenError> {
    let builder = module.get_context().create_builder();
    for function in module.get_functions().filter(|function| !is_left_alone(*function)) {
        let mut flow = None;
        for block in function.get_basic_block_iter() {
            let Some(ordered) = ordered(block) else { continue };
            let flow = flow.get_or_insert_with(|| ControlFlow::of(function));
            if flow.sibling_loops(block) <= ordered.len() / SIBLING_LOOPS_PART {
                if !kept::does_the_same(&scheduled(block), &ordered) {
                    return Err(CodegenError::Order {
                        function: function.get_name().to_string_lossy().into_owned(),
                    });
                }
                refill(block, &ordered, &builder);
            }
        }
    }
    Ok(())
}

/// The instructions of `block` that have an order.
fn scheduled(block: BasicBlock) -> Vec<InstructionValue> {
    block.get_instructions().filter(|it| it.get_opcode() != InstructionOpcode::Phi).collect()
}

/// Whether the function is so big that LLVM does not optimize it either.
fn is_left_alone(function: FunctionValue) -> bool {
    let kind = Attribute::get_named_enum_kind_id("optnone");
    function.get_enum_attribute(AttributeLoc::Function, kind).is_some()
}

/// The instructions of `block` but phis in a better order, if there is one.
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

/// Puts the instructions of `block` but phis in this order.
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
    let is_worth_it = after + SAVED_MIN <= before && after * 100 <= before * LEFT_MAX_PERCENT;
    let members = order.iter().flat_map(|node| &graph.members[*node]);
    is_worth_it.then(|| members.map(|member| instructions[*member]).collect())
}
