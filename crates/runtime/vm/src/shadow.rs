//! Tracks the origins of a VM's values while its instructions are followed one by one. It never affects the
//! run.

use std::collections::{BTreeSet, VecDeque};

use antares_profile::evidence::{
    limits::RECORDED_BRANCHES_MAX,
    records::{Branch, Made, Value},
};
use ckb_vm::{
    ckb_vm_definitions::instructions::{
        Instruction, OP_ADD, OP_ADDI, OP_ADDIW, OP_ADDUW, OP_ADDW, OP_ANDI, OP_BEQ, OP_BGE, OP_BGEU, OP_BLT,
        OP_BLTU, OP_BNE, OP_CUSTOM_LOAD_IMM, OP_JALR_VERSION0, OP_JALR_VERSION1, OP_LUI, OP_OR, OP_ORI,
        OP_SEXTB, OP_SEXTH, OP_SLLI, OP_SLLIW, OP_SRAI, OP_SRAIW, OP_SRLI, OP_SRLIW, OP_SUB, OP_SUBW,
        OP_XORI, OP_ZEXTH, instruction_opcode_name,
    },
    instructions::{Itype, Rtype, Stype, extract_opcode, instruction_length},
    registers::A0,
};

use crate::{
    addresses::Addresses,
    limits::{BRANCHES_MAX, CALLERS_MAX, SHADOWED_WORDS},
    touch::{Touch, touched},
};

/// Number of active calls whose branches are searched.
const CALLS_SCANNED: usize = 8;

pub(crate) type Registers = [u64; 32];

/// An executed instruction, and the function call that executed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) pc: u64,
    pub(crate) context: u32,
    /// Distinguishes the calls of a function.
    frame: u32,
    /// Number of branches executed before.
    branches: u64,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, Default)]
enum Source {
    #[default]
    Before,
    Code(At),
    Constant(At),
    SystemCall(u64),
    Memory(u64),
}

/// The origin of a value, and the origin of the value that it was computed from.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    made: Source,
    of: Source,
}

/// A store to memory.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    address: u64,
    /// Size in bytes; 0 for an empty entry.
    bytes: u8,
    value: u64,
    origin: Origin,
}

/// An executed branch.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: At,
    instruction: Instruction,
    to: u64,
    values: [u64; 2],
    origins: [Origin; 2],
}

/// The tracked values of one VM.
pub(crate) struct Shadow {
    registers: [Origin; 32],
    memory: Vec<Stored>,
    /// The active calls, by unique numbers.
    frames: Vec<u32>,
    next_frame: u32,
    /// Callers of the last frames, by the frame's number.
    callers: VecDeque<u32>,
    branches: VecDeque<Taken>,
    branches_before: u64,
    /// The last jump to a register address: its pc, its target, and the origin of the target.
    jump: Option<(u64, u64, Origin)>,
}

impl Shadow {
    pub(crate) fn new() -> Self {
        Self {
            registers: [Origin::default(); 32],
            memory: vec![Stored::default(); SHADOWED_WORDS],
            frames: Vec::new(),
            next_frame: 0,
            callers: VecDeque::new(),
            branches: VecDeque::with_capacity(BRANCHES_MAX),
            branches_before: 0,
            jump: None,
        }
    }

    /// Sets the number of active calls.
    pub(crate) fn be_in(&mut self, calls: usize) {
        self.frames.truncate(calls + 1);
        while self.frames.len() <= calls {
            self.callers.push_back(self.frames.last().copied().unwrap_or(u32::MAX));
            if self.callers.len() > CALLERS_MAX {
                self.callers.pop_front();
            }
            self.frames.push(self.next_frame);
            self.next_frame = self.next_frame.wrapping_add(1);
        }
    }

    /// The instruction at `pc`, in the current call.
    pub(crate) fn at(&self, pc: u64, context: u32) -> At {
        let frame = self.frames.last().copied().unwrap_or_default();
        At { pc, context, frame, branches: self.branches_before + self.branches.len() as u64 }
    }

    /// Records the effect of `instruction`, which ran with the registers `before`.
    pub(crate) fn record(
        &mut self,
        at: At,
        instruction: Instruction,
        before: &Registers,
        after: (&Registers, u64),
    ) {
        let (registers, next_pc) = after;
        let opcode = extract_opcode(instruction);
        match touched(instruction, before) {
            Some(Touch { address, bytes, writes: true, is_atomic: false, .. }) => {
                let from = Stype(instruction).rs2();
                let stored = Stored { address, bytes, value: before[from], origin: self.registers[from] };
                self.memory[slot(address)] = stored;
                return;
            }
            Some(Touch { address, bytes, is_atomic: false, .. }) => {
                let rd = Itype(instruction).rd();
                let loaded = self.loaded(at, (address, bytes), registers[rd]);
                return self.set(rd, loaded);
            }
            _ => {}
        }
        if is_branch(opcode) {
            return self.branch(at, instruction, before, next_pc);
        }
        if matches!(opcode, OP_JALR_VERSION0 | OP_JALR_VERSION1) {
            self.jump = Some((at.pc, next_pc, self.registers[Itype(instruction).rs1()]));
        }
        let origin = match unchanged(instruction) {
            Some(from) if from != 0 => self.registers[from],
            Some(_) => Origin { made: Source::Constant(at), of: Source::Before },
            None if matches!(opcode, OP_LUI | OP_CUSTOM_LOAD_IMM) => {
                Origin { made: Source::Constant(at), of: Source::Before }
            }
            None if let Some(packed) = self.packed(instruction, before) => packed,
            None => Origin { made: Source::Code(at), of: self.source(instruction) },
        };
        self.set(Rtype(instruction).rd(), origin);
        // Some ckb-vm instructions write more than one register.
        for register in (1..32).filter(|register| registers[*register] != before[*register]) {
            if register != Rtype(instruction).rd() {
                self.set(register, Origin { made: Source::Code(at), of: Source::Before });
            }
        }
    }

    /// Records the result of the system call with this index.
    pub(crate) fn record_system_call(&mut self, index: u64) {
        self.registers[A0] = Origin { made: Source::SystemCall(index), of: Source::Before };
    }

    fn set(&mut self, register: usize, origin: Origin) {
        if register != 0 && register < self.registers.len() {
            self.registers[register] = origin;
        }
    }

    /// The origin of a computation's first source register.
    fn source(&self, instruction: Instruction) -> Source {
        let fields = Rtype(instruction);
        let first = self.registers[fields.rs1() & 31].made;
        match first {
            Source::Before if is_of_two(instruction) => self.registers[fields.rs2() & 31].made,
            made => made,
        }
    }

    /// The origin of a constant that is combined with other constants, or of a negated value.
    fn packed(&self, instruction: Instruction, before: &Registers) -> Option<Origin> {
        let fields = Rtype(instruction);
        let [left, right] = [fields.rs1(), fields.rs2()].map(|it| self.registers[it & 31]);
        match (extract_opcode(instruction), left.made, right.made) {
            (OP_ORI | OP_XORI, Source::Constant(_), _) => Some(left),
            (OP_SUB, Source::Constant(_), _) if before[fields.rs1() & 31] == 0 => Some(right),
            (OP_OR, Source::Constant(first), Source::Constant(second)) => {
                Some(if first.branches < second.branches { right } else { left })
            }
            _ => None,
        }
    }

    fn loaded(&self, at: At, (address, bytes): (u64, u8), value: u64) -> Origin {
        let stored = &self.memory[slot(address)];
        let mask = if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        let is_it = stored.bytes >= bytes && stored.address == address && (stored.value ^ value) & mask == 0;
        if is_it { stored.origin } else { Origin { made: Source::Memory(address), of: Source::Code(at) } }
    }

    fn branch(&mut self, at: At, instruction: Instruction, before: &Registers, to: u64) {
        if self.branches.len() == BRANCHES_MAX {
            self.branches.pop_front();
            self.branches_before += 1;
        }
        let compared = Stype(instruction);
        let registers = [compared.rs1(), compared.rs2()];
        let (values, origins) = (registers.map(|it| before[it]), registers.map(|it| self.registers[it]));
        self.branches.push_back(Taken { at, instruction, to, values, origins });
    }

    /// The value of a register with its origin.
    pub(crate) fn value(&self, register: usize, value: u64, addresses: &Addresses<'_>) -> Value {
        self.describe(value, self.registers[register], addresses)
    }

    /// The last jump, with its target.
    pub(crate) fn last_jump(&self, addresses: &Addresses<'_>) -> Option<(u64, Value)> {
        self.jump.map(|(pc, to, origin)| (pc, self.describe(to, origin, addresses)))
    }

    /// The branches before the value of `register` was computed, in that call and in its callers, and those after
    /// it in that call. If code did not compute the value, or `register` is `None`, those of the active calls.
    pub(crate) fn deciders(
        &self,
        register: Option<usize>,
        addresses: &Addresses<'_>,
    ) -> (Vec<Branch>, Vec<Branch>) {
        let origin = register.map(|register| self.registers[register]).unwrap_or_default();
        let (frame, branches) = match (origin.made, origin.of) {
            (Source::Code(at) | Source::Constant(at), _) | (Source::Memory(_), Source::Code(at)) => {
                (at.frame, at.branches)
            }
            // The branch that has compared the result that is passed on.
            (Source::SystemCall(index), _) => {
                let is_it = |it: &Origin| matches!(it.made, Source::SystemCall(of) if of == index);
                let compared = self.branches.iter().rev().find(|taken| taken.origins.iter().any(is_it));
                let end = (self.frames.last().copied().unwrap_or_default(), u64::MAX);
                compared.map_or(end, |taken| (taken.at.frame, taken.at.branches + 1))
            }
            _ => (self.frames.last().copied().unwrap_or_default(), u64::MAX),
        };
        let index =
            |number: u64| usize::try_from(number.saturating_sub(self.branches_before)).unwrap_or(usize::MAX);
        let split = index(branches).min(self.branches.len());
        let calls: Vec<u32> =
            std::iter::successors(Some(frame), |frame| self.caller(*frame)).take(CALLS_SCANNED).collect();
        let above = |taken: &Taken| calls.iter().position(|frame| *frame == taken.at.frame);
        let mut before = self.last_ones(self.branches.range(..split).rev(), &above, addresses);
        before.sort_by_key(|branch| branch.calls_above);
        let in_call = |taken: &Taken| (taken.at.frame == frame).then_some(0);
        (before, self.last_ones(self.branches.range(split..).rev(), &in_call, addresses))
    }

    fn caller(&self, frame: u32) -> Option<u32> {
        let back = usize::try_from(self.next_frame.wrapping_sub(frame)).ok()?;
        let caller = *self.callers.get(self.callers.len().checked_sub(back)?)?;
        (caller != u32::MAX).then_some(caller)
    }

    /// The first execution of each of the branches that `above` knows.
    fn last_ones<'a>(
        &self,
        branches: impl Iterator<Item = &'a Taken>,
        above: &dyn Fn(&Taken) -> Option<usize>,
        addresses: &Addresses<'_>,
    ) -> Vec<Branch> {
        let mut seen = BTreeSet::new();
        let known = branches.filter_map(|taken| Some((taken, above(taken)?)));
        let fresh =
            known.filter(|(taken, above)| seen.insert((taken.at.pc, *above))).take(RECORDED_BRANCHES_MAX);
        fresh.map(|(taken, above)| self.describe_branch(taken, above, addresses)).collect()
    }

    fn describe_branch(&self, taken: &Taken, above: usize, addresses: &Addresses<'_>) -> Branch {
        let Taken { at, instruction, to, values, origins } = taken;
        let compared = Stype(*instruction);
        let next = at.pc.wrapping_add(u64::from(instruction_length(*instruction)));
        let target = at.pc.wrapping_add_signed(i64::from(compared.immediate_s()));
        let is_taken = *to == target;
        Branch {
            stack: addresses.stack(at.context, at.pc),
            calls_above: u32::try_from(above).unwrap_or(u32::MAX),
            name: instruction_opcode_name(extract_opcode(*instruction)).to_lowercase(),
            registers: [compared.rs1(), compared.rs2()].map(|it| u8::try_from(it).unwrap_or_default()),
            to: *to,
            instead: if is_taken { next } else { target },
            is_taken,
            left: self.describe(values[0], origins[0], addresses),
            right: self.describe(values[1], origins[1], addresses),
        }
    }

    #[expect(clippy::unused_self, reason = "where values of this VM came from")]
    fn describe(&self, value: u64, origin: Origin, addresses: &Addresses<'_>) -> Value {
        let made = |source| match source {
            Source::Before => Made::Before,
            Source::Code(at) => Made::Code { stack: addresses.stack(at.context, at.pc), is_constant: false },
            Source::Constant(at) => {
                Made::Code { stack: addresses.stack(at.context, at.pc), is_constant: true }
            }
            Source::SystemCall(index) => Made::SystemCall(index),
            Source::Memory(address) => Made::Memory { address, system_call: addresses.writer(address) },
        };
        let of = (!matches!(origin.of, Source::Before)).then(|| made(origin.of));
        Value { value, made: made(origin.made), of }
    }
}

fn slot(address: u64) -> usize {
    // The byte address is the index, so that adjacent values of one byte and of eight use separate entries.
    usize::try_from(address % SHADOWED_WORDS as u64).unwrap_or_default()
}

fn is_branch(opcode: u16) -> bool {
    matches!(opcode, OP_BEQ | OP_BNE | OP_BLT | OP_BGE | OP_BLTU | OP_BGEU)
}

/// Whether the second source field is a register that may determine the origin.
fn is_of_two(instruction: Instruction) -> bool {
    matches!(extract_opcode(instruction), OP_ADD | OP_SUB | OP_ADDW | OP_SUBW)
}

/// The register whose value the instruction passes on, possibly narrowed, shifted or negated; 0 for a
/// constant.
fn unchanged(instruction: Instruction) -> Option<usize> {
    let (wide, two) = (Itype(instruction), Rtype(instruction));
    match extract_opcode(instruction) {
        OP_ADDI | OP_ADDIW if wide.rs1() == 0 || wide.immediate_s() == 0 => Some(wide.rs1()),
        OP_ANDI | OP_SLLI | OP_SRLI | OP_SRAI | OP_SLLIW | OP_SRLIW | OP_SRAIW => Some(wide.rs1()),
        OP_SEXTB | OP_SEXTH | OP_ZEXTH => Some(two.rs1()),
        OP_ADD | OP_SUB | OP_ADDW | OP_SUBW | OP_ADDUW if two.rs1() == 0 => Some(two.rs2()),
        OP_ADD | OP_ADDW | OP_ADDUW if two.rs2() == 0 => Some(two.rs1()),
        _ => None,
    }
}

/// The base register of a memory access.
pub(crate) fn base(instruction: Instruction) -> usize {
    Itype(instruction).rs1() & 31
}
