//! Findings in any code: divisions by constants, instructions that B replaces, calls of small functions.

use std::collections::BTreeMap;

use antares_program::{Block, Function, Instruction, Op, Reg, Terminator};

use super::{
    Finding, Rule,
    code::{At, Code, loaded_bytes, writes},
};

/// Maximum instructions of a function that is worth inlining.
const INLINABLE_MAX: usize = 8;
/// Minimum calls of a function that is worth inlining.
const CALLS_MIN: u64 = 16;

/// All findings outside and inside of loops.
pub(crate) fn of_function(code: &Code<'_>, function: &Function) -> Vec<Finding> {
    let mut found = constant_divisions(code, function);
    found.extend(missing_b(code, function));
    found.extend(inlinable(code, function));
    found
}

/// The constant in `register` before the instruction at `index` of a block, if the same block loads it.
fn constant(block: &Block, index: usize, register: Reg) -> Option<i64> {
    let mut before = block.instructions[..index].iter().rev();
    let (_, made) = before.find(|(_, instruction)| writes(instruction, register))?;
    match made.op {
        Op::Addi | Op::Addiw if made.rs1 == Reg::ZERO => Some(made.imm),
        Op::LoadImm | Op::LoadUimm | Op::Lui => Some(made.imm),
        _ => None,
    }
}

fn constant_divisions(code: &Code<'_>, function: &Function) -> Vec<Finding> {
    let mut found = Vec::new();
    for block in &function.blocks {
        for (index, (pc, instruction)) in block.instructions.iter().enumerate() {
            let is_division = matches!(
                instruction.op,
                Op::Div | Op::Divu | Op::Divw | Op::Divuw | Op::Rem | Op::Remu | Op::Remw | Op::Remuw
            );
            let cycles = code.cost(pc.0).cycles;
            if !is_division || cycles == 0 {
                continue;
            }
            let Some(divisor) = constant(block, index, instruction.rs2) else { continue };
            let why = format!("a division by the constant {divisor} takes 32 cycles each time");
            let advice = "compile this file with -O2 instead of -Os: a multiplication by the reciprocal takes about 7, and \
                          a power of two is a shift";
            // 7 cycles instead of 32; a power of two takes less.
            let saves = Some(cycles - cycles / 32 * 7);
            found.push(Finding { saves, ..code.finding(Rule::ConstantDivision, pc.0, cycles, why, advice) });
        }
    }
    found
}

/// Instruction sequences that one instruction of the B extension replaces, with their savings.
fn missing_b(code: &Code<'_>, function: &Function) -> Option<Finding> {
    if !code.has_b {
        return None;
    }
    let mut shapes: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut first = None;
    for block in &function.blocks {
        let line: Vec<At> = block.instructions.iter().map(|(pc, i)| (pc.0, *i)).collect();
        for index in 0..line.len() {
            if let Some((shape, saved)) = shape(&line, index) {
                let cycles = saved.iter().map(|pc| code.cost(*pc).cycles).fold(0, u64::saturating_add);
                if cycles > 0 {
                    *shapes.entry(shape).or_default() += cycles;
                    first = first.or(Some(line[index].0));
                }
            }
        }
    }
    let cycles = shapes.values().copied().fold(0, u64::saturating_add);
    let names: Vec<&str> = shapes.keys().copied().collect();
    let why = format!("several instructions do what the B extension does in one: {}", names.join(", "));
    let advice = "compile with -march=rv64imc_zba_zbb_zbc_zbs: VM versions 1 and 2 have it";
    Some(Finding { saves: Some(cycles), ..code.finding(Rule::MissingB, first?, cycles, why, advice) })
}

/// The sequence that ends at `index`, and the addresses of the instructions that would be removed.
fn shape(line: &[At], index: usize) -> Option<(&'static str, Vec<u64>)> {
    let (_, last) = line[index];
    // Does not check that nothing else uses the register in between: a finding is only a hint.
    let maker = |register: Reg| {
        line[..index].iter().rev().take(8).find(|(_, instruction)| writes(instruction, register)).copied()
    };
    let shift = |found: Option<At>, op: Op| found.filter(|(_, i)| i.op == op);
    match last.op {
        Op::Or | Op::Add | Op::Xor => {
            let (a, b) = (maker(last.rs1), maker(last.rs2));
            for (left, right, bits, name) in [
                (Op::Slli, Op::Srli, 64, "rotation (rori)"),
                (Op::Slliw, Op::Srliw, 32, "rotation of 32 bits (roriw)"),
            ] {
                for (one, other) in [(a, b), (b, a)] {
                    if let (Some((at, l)), Some((to, r))) = (shift(one, left), shift(other, right))
                        && l.rs1 == r.rs1
                        && l.imm + r.imm == bits
                    {
                        return Some((name, vec![at, to]));
                    }
                }
            }
            scaled(&last, a, b)
        }
        Op::And => {
            let inverted =
                |found: Option<At>| found.filter(|(_, i)| i.op == Op::Xori && i.imm == -1).map(|(pc, _)| pc);
            let gone = inverted(maker(last.rs1)).or_else(|| inverted(maker(last.rs2)))?;
            Some(("and with the inverse (andn)", vec![gone]))
        }
        Op::Srli if last.imm == 32 => {
            let (at, _) = shift(maker(last.rs1), Op::Slli).filter(|(_, i)| i.imm == 32)?;
            Some(("zero extension (add.uw)", vec![at]))
        }
        _ => None,
    }
}

/// An index times 2, 4 or 8, added to an address.
fn scaled(last: &Instruction, a: Option<At>, b: Option<At>) -> Option<(&'static str, Vec<u64>)> {
    let is_scaled = |found: &At| found.1.op == Op::Slli && (1..=3).contains(&found.1.imm);
    let (at, _) = [a, b].into_iter().flatten().find(is_scaled).filter(|_| last.op == Op::Add)?;
    Some(("scaled index (sh1add to sh3add)", vec![at]))
}

/// A leaf function of a few instructions.
fn inlinable(code: &Code<'_>, function: &Function) -> Option<Finding> {
    let [block] = function.blocks.as_slice() else { return None };
    let is_small = (1..=INLINABLE_MAX).contains(&block.instructions.len());
    if !is_small || !matches!(block.terminator, Terminator::Return { .. }) {
        return None;
    }
    let times = code.cost(function.entry.0).instructions;
    if times < CALLS_MIN {
        return None;
    }
    // The call and the return cost 3 cycles each.
    let cycles = times.saturating_mul(6);
    let loads = block.instructions.iter().filter(|(_, i)| loaded_bytes(i.op).is_some()).count();
    let why = format!(
        "it has {} instructions ({loads} loads) and was called {times} times: there and back alone are 6 cycles",
        block.instructions.len()
    );
    let advice = "make it static inline in a header, or compile with -flto";
    let finding = code.finding(Rule::InlinableCall, function.entry.0, cycles, why, advice);
    Some(Finding { saves: Some(cycles), ..finding })
}
