//! Windows: rows of instructions that are entered at their start alone, and that compute, load and store.

use std::collections::{BTreeMap, BTreeSet};

use antares_program::{Image, Instruction, Op, Program, RegSet};

use crate::{
    encode::{Line, form},
    liveness::{Liveness, overlaps},
};

/// Instructions of a window, at most.
const INSTRUCTIONS_MAX: usize = 600;

/// A window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) pc: u64,
    pub(crate) length: usize,
    pub(crate) lines: Vec<Line>,
    pub(crate) live_out: RegSet,
    pub(crate) function: String,
}

impl Window {
    fn end(&self) -> u64 {
        self.pc + self.length as u64
    }
}

/// All windows of a program, and where it reads its own code.
pub(crate) struct Windows {
    pub(crate) windows: Vec<Window>,
    pub(crate) own_code_reads: Vec<u64>,
}

/// Finds them.
pub(crate) fn windows(image: &Image, program: &Program) -> Windows {
    let mut instructions: BTreeMap<u64, Instruction> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut starts: BTreeSet<u64> = BTreeSet::new();
    for function in &program.functions {
        for block in &function.blocks {
            starts.insert(block.pc.0);
            for (pc, instruction) in &block.instructions {
                instructions.insert(pc.0, *instruction);
            }
        }
        let name = function.name.clone().unwrap_or_else(|| format!("fn_{}", function.entry));
        names.entry(function.entry.0).or_insert(name);
    }
    starts.extend(words(image).filter(|word| instructions.contains_key(word)));
    let (computed, own_code_reads) = constants(program, &instructions);
    starts.extend(computed);
    let mut barriers: BTreeSet<u64> = overlaps(&instructions).into_iter().collect();
    barriers.extend(kept_together(&instructions));
    let liveness = Liveness::of(program);
    let mut windows: Vec<Window> = Vec::new();
    let mut is_open = false;
    for (&pc, instruction) in &instructions {
        if form(instruction.op).is_none() || barriers.contains(&pc) {
            is_open = false;
            continue;
        }
        let goes_on = |window: &&mut Window| {
            window.end() == pc && !starts.contains(&pc) && window.lines.len() < INSTRUCTIONS_MAX
        };
        let length = usize::from(instruction.length);
        match windows.last_mut().filter(|_| is_open).filter(goes_on) {
            Some(window) => {
                window.lines.push(Line::of(instruction));
                window.length += length;
            }
            None => {
                let function = names.range(..=pc).next_back().map(|(_, name)| name.clone());
                let (lines, live_out) = (vec![Line::of(instruction)], RegSet::ALL);
                let function = function.unwrap_or_default();
                windows.push(Window { pc, length, lines, live_out, function });
                is_open = true;
            }
        }
    }
    for window in &mut windows {
        window.live_out = liveness.before(window.end());
    }
    Windows { windows, own_code_reads }
}

/// Aligned words of loaded memory.
fn words(image: &Image) -> impl Iterator<Item = u64> + '_ {
    let places = image.segments.iter().flat_map(|&(start, end)| (start.next_multiple_of(4)..end).step_by(4));
    places.flat_map(|address| {
        let narrow = image.bytes(address).map(u32::from_le_bytes).map(u64::from);
        let broad = address.is_multiple_of(8).then(|| image.bytes(address).map(u64::from_le_bytes)).flatten();
        [narrow, broad].into_iter().flatten()
    })
}

/// What stands side by side to be fused with something that no window has.
fn kept_together(instructions: &BTreeMap<u64, Instruction>) -> Vec<u64> {
    let mut found = Vec::new();
    for (&pc, head) in instructions {
        let behind = pc + u64::from(head.length);
        let next = instructions.get(&behind);
        let is_rest = |op: Op| next.is_some_and(|next| next.op == op && next.rs1 == head.rd);
        match head.op {
            Op::Auipc if is_rest(Op::Addi) => found.push(behind),
            Op::Lui if is_rest(Op::Jalr) => found.push(pc),
            _ => {}
        }
    }
    found
}

/// Places in code that code computes, and instructions that load from code at an address that the same block
/// computes.
fn constants(program: &Program, instructions: &BTreeMap<u64, Instruction>) -> (Vec<u64>, Vec<u64>) {
    let (mut places, mut reads) = (Vec::new(), Vec::new());
    let is_code = |address: u64| {
        let last = instructions.range(..=address).next_back();
        last.is_some_and(|(pc, instruction)| address < pc + u64::from(instruction.length))
    };
    for block in program.functions.iter().flat_map(|function| &function.blocks) {
        let mut held: [Option<u64>; 32] = [None; 32];
        for (pc, i) in &block.instructions {
            held[0] = Some(0);
            let sum = held[i.rs1.index()].map(|base| base.wrapping_add(i.imm.cast_unsigned()));
            let value = match i.op {
                Op::Lui => Some(i.imm.cast_unsigned()),
                Op::Auipc => Some(pc.0.wrapping_add(i.imm.cast_unsigned())),
                Op::Addi => sum,
                Op::Addiw => sum.map(|sum| (sum.cast_signed() << 32 >> 32).cast_unsigned()),
                Op::Lb | Op::Lbu | Op::Lh | Op::Lhu | Op::Lw | Op::Lwu | Op::Ld => {
                    reads.extend(sum.filter(|sum| is_code(*sum)).map(|_| pc.0));
                    None
                }
                _ => None,
            };
            places.extend(value.filter(|value| instructions.contains_key(value)));
            held[i.rd.index()] = value;
        }
    }
    (places, reads)
}
