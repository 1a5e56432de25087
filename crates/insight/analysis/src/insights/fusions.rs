//! Pairs that ckb-vm would fuse into one instruction if they were adjacent: both halves of a product,
//! quotient and remainder.

use antares_program::{Block, Function, Instruction, Op};

use super::{
    Finding, Rule,
    code::{Code, writes},
};

/// Why a pair is not fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// Other instructions are between them.
    Apart,
    /// They are in the wrong order.
    Order,
    /// The first instruction writes a register that the second one also uses, or the operands are swapped.
    Registers,
}

/// Two instructions that could be fused.
struct Pair {
    rule: Rule,
    /// Indices in the block.
    at: [usize; 2],
    obstacle: Obstacle,
}

/// The rule for `first` and `second`, in the order that the decoder fuses.
fn rule(first: Op, second: Op) -> Option<Rule> {
    match (first, second) {
        (Op::Mulh | Op::Mulhu | Op::Mulhsu, Op::Mul) => Some(Rule::UnfusedWideMultiply),
        (Op::Div, Op::Rem) | (Op::Divu, Op::Remu) => Some(Rule::UnfusedDivision),
        _ => None,
    }
}

/// All pairs that the decoder would fuse in another order or place; at most one finding per rule for a function.
pub(crate) fn of_function(code: &Code<'_>, function: &Function) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in [Rule::UnfusedWideMultiply, Rule::UnfusedDivision] {
        let (mut cycles, mut first, mut obstacles) = (0_u64, None, [0_u64; 3]);
        for block in &function.blocks {
            for pair in pairs(block).iter().filter(|pair| pair.rule == rule) {
                let spent = pair.at.map(|at| code.cost(block.instructions[at].0.0).cycles);
                let spent = spent.iter().fold(0, |sum: u64, cycles| sum.saturating_add(*cycles));
                if spent > 0 {
                    cycles = cycles.saturating_add(spent);
                    first = first.or(Some(block.instructions[pair.at[0]].0.0));
                    obstacles[pair.obstacle as usize] += 1;
                }
            }
        }
        let Some(at) = first else { continue };
        let [apart, order, registers] = obstacles;
        let (what, advice) = words(rule);
        let why = format!(
            "{what}, but only where the two are adjacent, in this order, with the same operands in the same places, and the \
             first writes none of them: here {apart} pairs are apart, {order} in the other order, {registers} with other \
             registers. Half of these cycles would go"
        );
        found.push(Finding { saves: Some(cycles / 2), ..code.finding(rule, at, cycles, why, advice) });
    }
    found
}

fn words(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::UnfusedDivision => (
            "`div` and then `rem` of the same operands take 32 cycles together instead of 64",
            "write them side by side in inline assembly: `div t, a, b` and then `rem u, a, b`",
        ),
        _ => (
            "`mulh`, `mulhu` or `mulhsu` and then `mul` of the same operands take 5 cycles together instead of 10",
            "write them side by side in inline assembly, the high half first, with an early-clobber output for it: \
             `mulhu %0, %2, %3` and then `mul %1, %2, %3`",
        ),
    }
}

/// All pairs of a block; each instruction is in one pair at most.
fn pairs(block: &Block) -> Vec<Pair> {
    let mut taken = vec![false; block.instructions.len()];
    let mut pairs = Vec::new();
    for at in 0..block.instructions.len() {
        if taken[at] {
            continue;
        }
        if let Some(pair) = pair(block, at, &taken) {
            pair.at.iter().for_each(|at| taken[*at] = true);
            pairs.push(pair);
        }
    }
    pairs
}

/// The pair whose earlier instruction is at `at`, if its operands are unchanged at the later one.
fn pair(block: &Block, at: usize, taken: &[bool]) -> Option<Pair> {
    let earlier = block.instructions[at].1;
    let changes = |between: &Instruction| writes(between, earlier.rs1) || writes(between, earlier.rs2);
    for (later, (_, instruction)) in block.instructions.iter().enumerate().skip(at + 1) {
        if changes(&block.instructions[later - 1].1) {
            return None;
        }
        let is_swapped = (instruction.rs1, instruction.rs2) == (earlier.rs2, earlier.rs1);
        let is_same = (instruction.rs1, instruction.rs2) == (earlier.rs1, earlier.rs2);
        // The halves of a product may have swapped operands, except those of `mulhsu`.
        let may_swap = is_swapped && ![earlier.op, instruction.op].contains(&Op::Mulhsu);
        if taken[later] || !(is_same || may_swap) {
            continue;
        }
        let in_order = rule(earlier.op, instruction.op);
        let Some(rule) = in_order.or_else(|| rule(instruction.op, earlier.op)) else { continue };
        if is_swapped && !is_same && rule == Rule::UnfusedDivision {
            continue;
        }
        let obstacle = match in_order {
            None => Obstacle::Order,
            Some(_) if later > at + 1 => Obstacle::Apart,
            Some(_) => Obstacle::Registers,
        };
        return Some(Pair { rule, at: [at, later], obstacle });
    }
    None
}
