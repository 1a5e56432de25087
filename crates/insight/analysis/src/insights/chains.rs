//! Pairs that ckb-vm could fuse into one instruction in which the second uses the result of the first: a sum
//! and its carry, a difference and its borrow, the halves of a constant.

use antares_program::{Block, Function, Instruction, Op};

use super::{
    Finding, Rule,
    code::{Code, writes},
};

/// VM version from which the decoder fuses carries and address constants.
const NEWER_FUSIONS: u32 = 2;

/// All pairs that the decoder would fuse if they were adjacent.
pub(crate) fn of_function(code: &Code<'_>, function: &Function) -> Vec<Finding> {
    let mut found = Vec::new();
    for (rule, why, advice) in [
        (
            Rule::UnfusedCarry,
            "`add` and the `sltu` that takes its carry, or `sub` and the `sltu` that takes its borrow, take one cycle \
             together and not two, but only where they are adjacent and the `sltu` compares with the first operand",
            "write them side by side in inline assembly: `add r, a, b` and `sltu c, r, a`; `sub r, a, b` and `sltu c, a, b`",
        ),
        (
            Rule::UnfusedConstant,
            "`lui` and `addiw`, or `auipc` and `addi`, of one register take one cycle together and not two, but only \
             where they are adjacent",
            "keep the constant in a register or a table, or load it by `li` or `la` in inline assembly",
        ),
    ] {
        let (mut cycles, mut first) = (0_u64, None);
        for block in &function.blocks {
            for pair in pairs(block, rule, code.vm_version) {
                let spent = pair.map(|at| code.cost(block.instructions[at].0.0).cycles);
                if spent[0] > 0 {
                    cycles = spent.iter().fold(cycles, |sum, cycles| sum.saturating_add(*cycles));
                    first = first.or(Some(block.instructions[pair[0]].0.0));
                }
            }
        }
        let why = || format!("{why}. Half of these cycles would go");
        let finding =
            |at| Finding { saves: Some(cycles / 2), ..code.finding(rule, at, cycles, why(), advice) };
        found.extend(first.map(finding));
    }
    found
}

/// Indices of the pairs of `rule` in a block.
fn pairs(block: &Block, rule: Rule, vm_version: u32) -> Vec<[usize; 2]> {
    let mut taken = vec![false; block.instructions.len()];
    let mut pairs = Vec::new();
    for at in 0..block.instructions.len() {
        let later = match rule {
            Rule::UnfusedCarry if vm_version >= NEWER_FUSIONS => carry(block, at),
            Rule::UnfusedConstant => rest_of_constant(block, at, vm_version),
            _ => None,
        };
        if let Some(later) = later.filter(|&later| !taken[later]) {
            taken[later] = true;
            pairs.push([at, later]);
        }
    }
    pairs
}

/// The `sltu` that computes the carry of the `add` at `at`, or the borrow of the `sub`.
fn carry(block: &Block, at: usize) -> Option<usize> {
    let head = block.instructions[at].1;
    let is_sum = head.op == Op::Add;
    if !is_sum && head.op != Op::Sub || is_sum && head.rs1 == head.rs2 {
        return None;
    }
    // After a difference that overwrites an operand, the borrow cannot be computed.
    let overwrites = head.rd == head.rs1 || head.rd == head.rs2;
    if !is_sum && overwrites {
        return None;
    }
    let takes = |i: &Instruction| {
        let operands = [head.rs1, head.rs2];
        i.op == Op::Sltu
            && if is_sum {
                i.rs1 == head.rd && operands.contains(&i.rs2) && i.rs2 != head.rd
            } else {
                (i.rs1, i.rs2) == (head.rs1, head.rs2)
            }
    };
    let is_lost = |i: &Instruction| writes(i, head.rd) || writes(i, head.rs1) || writes(i, head.rs2);
    next(block, at, takes, is_lost)
}

/// The instruction that adds the lower half to the upper half loaded at `at`, if other instructions are
/// between them.
fn rest_of_constant(block: &Block, at: usize, vm_version: u32) -> Option<usize> {
    let head = block.instructions[at].1;
    let rest = match head.op {
        Op::Lui => Op::Addiw,
        Op::Auipc if vm_version >= NEWER_FUSIONS => Op::Addi,
        _ => return None,
    };
    let is_rest = |i: &Instruction| i.op == rest && i.rd == head.rd && i.rs1 == head.rd;
    let uses = |i: &Instruction| writes(i, head.rd) || [i.rs1, i.rs2, i.rs3, i.rs4].contains(&head.rd);
    next(block, at, is_rest, uses).filter(|later| *later > at + 1)
}

/// The first instruction after `at` that is `wanted`, unless an earlier one `ends` the search.
fn next(
    block: &Block,
    at: usize,
    wanted: impl Fn(&Instruction) -> bool,
    ends: impl Fn(&Instruction) -> bool,
) -> Option<usize> {
    let behind = block.instructions.iter().enumerate().skip(at + 1);
    let (later, instruction) =
        behind.map(|(later, (_, i))| (later, i)).find(|(_, i)| wanted(i) || ends(i))?;
    wanted(instruction).then_some(later)
}
