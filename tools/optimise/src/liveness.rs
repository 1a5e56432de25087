//! Which registers are used behind each instruction, over the whole program.
//!
//! Of an ABI nothing is assumed but that `sp` matters to whoever is returned to. A call goes on in its
//! callee, a return behind every call of its function; what leaves to a place that is not known uses every
//! register.

use std::collections::{BTreeMap, HashMap};

use antares_program::{Block, Function, Instruction, Op, Program, Reg, RegSet, Terminator};

/// Registers that may be read before they are written, at each instruction.
pub(crate) struct Liveness {
    before: HashMap<u64, RegSet>,
}

impl Liveness {
    /// What is live before the instruction at `pc`; everything where nobody knows.
    pub(crate) fn before(&self, pc: u64) -> RegSet {
        self.before.get(&pc).copied().unwrap_or(RegSet::ALL)
    }

    pub(crate) fn of(program: &Program) -> Self {
        let flow = Flow::of(program);
        let mut ins: Vec<Vec<RegSet>> =
            program.functions.iter().map(|function| vec![RegSet::EMPTY; function.blocks.len()]).collect();
        let mut returns = vec![RegSet::EMPTY; program.functions.len()];
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (index, function) in program.functions.iter().enumerate().rev() {
                let back = flow.behind(index, &ins, &returns);
                is_changed |= back != returns[index];
                returns[index] = back;
                for (at, block) in function.blocks.iter().enumerate().rev() {
                    let out = flow.out(index, block, &Known { ins: &ins, back });
                    let live = block.instructions.iter().rev().fold(out, |live, (_, i)| step(live, i));
                    is_changed |= live != ins[index][at];
                    ins[index][at] = live;
                }
            }
        }
        let mut before: HashMap<u64, RegSet> = HashMap::new();
        for (index, function) in program.functions.iter().enumerate() {
            let known = Known { ins: &ins, back: returns[index] };
            for block in &function.blocks {
                let mut live = flow.out(index, block, &known);
                for (pc, instruction) in block.instructions.iter().rev() {
                    live = step(live, instruction);
                    let known = before.entry(pc.0).or_default();
                    *known = known.or(live);
                }
            }
        }
        Self { before }
    }
}

fn entry(ins: &[Vec<RegSet>], function: usize) -> RegSet {
    ins.get(function).and_then(|blocks| blocks.first()).copied().unwrap_or(RegSet::ALL)
}

/// What is known while it is found.
struct Known<'a> {
    ins: &'a [Vec<RegSet>],
    /// Live behind the calls of this function.
    back: RegSet,
}

/// Where functions are called from.
struct Flow {
    /// Of each function: places behind its calls, by function and block.
    returns_to: Vec<Vec<(usize, u32)>>,
    /// Of each function: functions that go to it for good, and return for it.
    returns_as: Vec<Vec<usize>>,
    /// Functions of which not every caller is known.
    is_open: Vec<bool>,
}

impl Flow {
    fn of(program: &Program) -> Self {
        let count = program.functions.len();
        let is_exposed = |function: &&Function| function.is_exposed;
        let exposed: Vec<usize> =
            program.functions.iter().filter(is_exposed).map(|function| function.id.0 as usize).collect();
        let mut flow = Self {
            returns_to: vec![Vec::new(); count],
            returns_as: vec![Vec::new(); count],
            is_open: program.functions.iter().map(|function| function.entry == program.entry).collect(),
        };
        let mut by_address = Vec::new();
        let mut jumps = Vec::new();
        for (index, function) in program.functions.iter().enumerate() {
            for block in &function.blocks {
                match &block.terminator {
                    Terminator::Call { callee, to, .. } => {
                        flow.returns_to[callee.0 as usize].push((index, to.0))
                    }
                    Terminator::TailCall(callee) => flow.returns_as[callee.0 as usize].push(index),
                    Terminator::IndirectCall { to, .. } => by_address.push((index, to.0)),
                    Terminator::IndirectJump { is_table, .. } if !is_table => jumps.push(index),
                    _ => {}
                }
            }
        }
        for &callee in &exposed {
            flow.returns_to[callee].extend(&by_address);
            flow.returns_as[callee].extend(&jumps);
        }
        flow
    }

    /// Live behind the calls of a function.
    fn behind(&self, function: usize, ins: &[Vec<RegSet>], returns: &[RegSet]) -> RegSet {
        if self.is_open[function] {
            return RegSet::ALL;
        }
        let known = self.returns_to[function].iter().map(|&(caller, block)| ins[caller][block as usize]);
        let tails = self.returns_as[function].iter().map(|&caller| returns[caller]);
        // A return with another `sp` than its caller's leaves native code, whether it is used there or not.
        known.chain(tails).fold(RegSet::of(&[Reg::SP]), RegSet::or)
    }

    /// Live behind a block, its last instruction included where that only goes somewhere.
    fn out(&self, function: usize, block: &Block, known: &Known<'_>) -> RegSet {
        let at = |id: antares_program::BlockId| known.ins[function][id.0 as usize];
        match &block.terminator {
            Terminator::Jump(to) | Terminator::Ecall(to) => at(*to),
            Terminator::Branch { taken, otherwise } => at(*taken).or(at(*otherwise)),
            // A call that never returns reads what is live behind it as little as one that does.
            Terminator::Call { callee, to, .. } => entry(known.ins, callee.0 as usize).or(at(*to)),
            Terminator::TailCall(callee) => entry(known.ins, callee.0 as usize),
            Terminator::IndirectJump { candidates, is_table: true } => {
                candidates.iter().fold(RegSet::EMPTY, |live, to| live.or(at(*to)))
            }
            Terminator::Return { locals } => locals.iter().fold(known.back, |live, to| live.or(at(*to))),
            Terminator::IndirectCall { .. } | Terminator::IndirectJump { .. } | Terminator::Leave => {
                RegSet::ALL
            }
            Terminator::Exit => RegSet::of(&[Reg::A0, Reg::A7]),
        }
    }
}

/// Live before an instruction behind which `live` is.
fn step(live: RegSet, instruction: &Instruction) -> RegSet {
    let Instruction { op, rd, rs1, rs2, .. } = *instruction;
    if matches!(op, Op::Ecall | Op::Ebreak) {
        let arguments: Vec<Reg> = (10..18).map(Reg).collect();
        return live.or(RegSet::of(&arguments));
    }
    live.without(rd).with(rs1).with(rs2)
}

/// Whether no two instructions of `program` overlap, by their addresses; those that do are told.
pub(crate) fn overlaps(instructions: &BTreeMap<u64, Instruction>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut end = 0;
    let mut last = 0;
    for (&pc, instruction) in instructions {
        if pc < end {
            found.extend([last, pc]);
        }
        end = pc + u64::from(instruction.length);
        last = pc;
    }
    found
}
