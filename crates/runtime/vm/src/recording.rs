//! The data of a profiled run: how often each trace (straight-line code) ran, and in which call context.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, OnceLock},
};

use antares_abi::Sha256Digest;
use bytes::Bytes;
use ckb_vm::{
    ckb_vm_definitions::{
        asm::Trace,
        instructions::{
            Instruction, OP_CUSTOM_TRACE_END, OP_FAR_JUMP_ABS, OP_FAR_JUMP_REL, OP_JAL, OP_JALR_VERSION0,
            OP_JALR_VERSION1,
        },
    },
    cost_model::estimate_cycles,
    instructions::{Itype, Utype, extract_opcode, instruction_length},
    registers::RA,
};

use crate::limits::{
    RECORDED_COUNTS_MAX, RECORDED_DEPTH_MAX, RECORDED_NODES_MAX, RECORDED_PROGRAMS_MAX, RECORDED_TRACES_MAX,
};

/// A location on a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackLocation {
    /// The bottom of every stack.
    Root,
    /// An instruction: a call, or an `ecall`.
    Code {
        /// Which of [`Recording::programs`].
        program: u32,
        /// Guest address.
        pc: u64,
    },
    /// A system call, by its number.
    Syscall(u64),
    /// A program that replaced its caller, by the number of the `exec` in this recording, from 1.
    Exec(u32),
    /// A spawned VM, by the number of the `spawn` in this recording, from 1.
    Spawn(u32),
    /// The loading of a program.
    Load,
}

/// A stack location with the stack below it.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The context below; the root is below itself.
    pub parent: u32,
    /// The stack location.
    pub place: StackLocation,
    /// Cycles of the location itself, excluding those of instructions.
    pub cycles: u64,
    depth: u16,
}

/// A program that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The ELF; `None` if the recording has no whole ELF.
    pub elf: Option<Bytes>,
    /// VM version.
    pub vm_version: u32,
    /// ISA flags.
    pub isa: u8,
    /// Digest of the ELF, computed once and shared, because a program may be recorded many times.
    pub(crate) digest: Arc<OnceLock<Sha256Digest>>,
}

impl Recorded {
    pub(crate) fn new(elf: Option<Bytes>, vm_version: u32, isa: u8) -> Self {
        Self { elf, vm_version, isa, digest: Arc::default() }
    }

    /// Digest of the ELF.
    pub(crate) fn digest(&self) -> Option<Sha256Digest> {
        self.elf.as_ref().map(|elf| *self.digest.get_or_init(|| Sha256Digest::of(elf)))
    }

    /// Whether both are equal; fast if they share their ELF.
    fn is(&self, other: &Self) -> bool {
        let is_elf = match (&self.elf, &other.elf) {
            (Some(one), Some(two)) => one.len() == two.len() && (one.as_ptr() == two.as_ptr() || one == two),
            (None, None) => true,
            _ => false,
        };
        is_elf && (self.vm_version, self.isa) == (other.vm_version, other.isa)
    }
}

/// How often an instruction ran in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Index into [`Recording::contexts`].
    pub context: u32,
    /// Index into [`Recording::programs`].
    pub program: u32,
    /// Guest address.
    pub pc: u64,
    /// Number of executions.
    pub count: u64,
    /// Cycles of one execution.
    pub cost: u64,
}

/// A straight-line trace.
#[derive(Debug)]
pub(crate) struct Line {
    program: u32,
    pc: u64,
    /// The instructions as decoded by ckb-vm.
    instructions: Box<[Instruction]>,
    pub(crate) cycles: u64,
    pub(crate) end: End,
}

/// Effect of a trace's last instruction on the call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No effect.
    Falls,
    /// A call that writes the return address to register `link`.
    Calls { site: u64, return_pc: u64, link: usize },
    /// A jump to a register address, possibly a return.
    Jumps,
}

/// A complete recording. Sums are exact: each cycle of the run belongs to a context, an instruction, or
/// [`Recording::unknown`].
#[derive(Debug)]
pub struct Recording {
    pub(crate) programs: Vec<Recorded>,
    contexts: Vec<Context>,
    children: HashMap<(u32, StackLocation), u32>,
    lines: Vec<Line>,
    known: HashMap<(u32, u64), u32>,
    /// Passes by context and trace.
    counts: HashMap<(u32, u32), u64, BuildHasherDefault<Mix>>,
    unknown: (u64, u64),
    /// Unknown cycles that a sample could have hit.
    unseen: u64,
    /// The context of the last sample, and the cycles beyond the run that the sample stands for.
    claim: Option<(u32, u64)>,
}

/// The root context.
pub(crate) const ROOT: u32 = 0;

impl Default for Recording {
    fn default() -> Self {
        let root = Context { parent: ROOT, place: StackLocation::Root, cycles: 0, depth: 0 };
        Self {
            programs: Vec::new(),
            contexts: vec![root],
            children: HashMap::new(),
            lines: Vec::new(),
            known: HashMap::new(),
            counts: HashMap::default(),
            unknown: (0, 0),
            unseen: 0,
            claim: None,
        }
    }
}

impl Recording {
    /// All recorded programs.
    #[must_use]
    pub fn programs(&self) -> &[Recorded] {
        &self.programs
    }

    /// All contexts, each after its parent; the first is the root.
    #[must_use]
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// How often each instruction ran in each context, unordered; an instruction may occur more than once.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.counts.iter().flat_map(|(key, count)| {
            let (context, line) = (key.0, &self.lines[key.1 as usize]);
            let mut pc = line.pc;
            line.instructions.iter().map(move |instruction| {
                let at = pc;
                pc += u64::from(instruction_length(*instruction));
                let cost = estimate_cycles(*instruction);
                Step { context, program: line.program, pc: at, count: *count, cost }
            })
        })
    }

    /// Unknown cycles and instructions: those beyond the table limits, and unsampled cycles.
    #[must_use]
    pub fn unknown(&self) -> (u64, u64) {
        self.unknown
    }

    /// Cycles of native code after the last sample that no sample stands for; they are part of the unknown
    /// cycles. Over many runs, their sum converges to that of [`Recording::claimed`].
    #[must_use]
    pub fn unseen(&self) -> u64 {
        self.unseen
    }

    /// The context and the cycles beyond the run that the last sample stands for. These cycles are not
    /// counted elsewhere in this recording.
    #[must_use]
    pub fn claimed(&self) -> Option<(u32, u64)> {
        self.claim
    }

    /// Total cycles.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        let own = self.contexts.iter().map(|context| context.cycles);
        let lines =
            self.counts.iter().map(|(key, count)| self.lines[key.1 as usize].cycles.saturating_mul(*count));
        own.chain(lines).fold(self.unknown.0, u64::saturating_add)
    }

    /// The number of a program. At the limit, the last program stands for all further ones.
    pub(crate) fn program(&mut self, program: Recorded) -> u32 {
        let known = self.programs.iter().position(|other| other.is(&program));
        let index = known.unwrap_or_else(|| {
            if self.programs.len() < RECORDED_PROGRAMS_MAX {
                self.programs.push(program);
            }
            self.programs.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// The context of `place` on top of `parent`, and whether it is new. At the limit, returns `parent`.
    pub(crate) fn context(&mut self, parent: u32, place: StackLocation) -> (u32, bool) {
        if let Some(id) = self.children.get(&(parent, place)) {
            return (*id, false);
        }
        let depth = self.contexts[parent as usize].depth + 1;
        let Ok(id) = u32::try_from(self.contexts.len()) else { return (parent, false) };
        if self.contexts.len() >= RECORDED_NODES_MAX || depth > RECORDED_DEPTH_MAX {
            return (parent, false);
        }
        self.contexts.push(Context { parent, place, cycles: 0, depth });
        self.children.insert((parent, place), id);
        (id, true)
    }

    /// Adds cycles to a context itself.
    pub(crate) fn spend(&mut self, context: u32, cycles: u64) {
        let own = &mut self.contexts[context as usize].cycles;
        *own = own.saturating_add(cycles);
    }

    /// Adds cycles without a known context.
    pub(crate) fn spend_unknown(&mut self, cycles: u64) {
        self.unknown.0 = self.unknown.0.saturating_add(cycles);
    }

    /// Moves cycles that exceed the run from a context to the claim on other runs.
    pub(crate) fn claim(&mut self, context: u32, cycles: u64) {
        let own = &mut self.contexts[context as usize].cycles;
        *own = own.saturating_sub(cycles);
        self.claim = Some((context, cycles));
    }

    /// Adds cycles that a sample could have hit, but did not.
    pub(crate) fn overlook(&mut self, cycles: u64) {
        self.unseen = self.unseen.saturating_add(cycles);
        self.spend_unknown(cycles);
    }

    /// The number of the trace; `None` at the limit.
    pub(crate) fn line(&mut self, program: u32, trace: &Trace) -> Option<u32> {
        let length = trace.instructions.iter().position(|instruction| is_end(*instruction));
        let instructions = &trace.instructions[..length.unwrap_or(trace.instructions.len())];
        let key = (program, trace.address);
        if let Some(id) = self.known.get(&key)
            && *self.lines[*id as usize].instructions == *instructions
        {
            return Some(*id);
        }
        if self.lines.len() >= RECORDED_TRACES_MAX {
            return None;
        }
        let id = u32::try_from(self.lines.len()).ok()?;
        self.lines.push(Line {
            program,
            pc: trace.address,
            instructions: instructions.into(),
            cycles: trace.cycles,
            end: end_of(trace, instructions),
        });
        self.known.insert(key, id);
        Some(id)
    }

    /// The effect of a trace's last instruction.
    pub(crate) fn end(&self, line: Option<u32>) -> End {
        line.map_or(End::Falls, |line| self.lines[line as usize].end)
    }

    /// Counts `passes` of a trace in a context; `cycles` is their total.
    pub(crate) fn count(&mut self, context: u32, line: Option<u32>, passes: u64, cycles: u64) {
        let key = line.map(|line| (context, line));
        if let Some(key) = key {
            if let Some(count) = self.counts.get_mut(&key) {
                *count = count.saturating_add(passes);
                return;
            }
            if self.counts.len() < RECORDED_COUNTS_MAX {
                self.counts.insert(key, passes);
                return;
            }
            let length = line.map_or(0, |line| self.lines[line as usize].instructions.len() as u64);
            self.unknown.1 = self.unknown.1.saturating_add(length.saturating_mul(passes));
        }
        self.spend_unknown(cycles);
    }
}

fn is_end(instruction: Instruction) -> bool {
    extract_opcode(instruction) == OP_CUSTOM_TRACE_END
}

fn end_of(trace: &Trace, instructions: &[Instruction]) -> End {
    let Some(last) = instructions.last().copied() else { return End::Falls };
    let return_pc = trace.address.wrapping_add(u64::from(trace.length));
    let before = &instructions[..instructions.len() - 1];
    let site = before.iter().map(|instruction| u64::from(instruction_length(*instruction)));
    let site = trace.address.wrapping_add(site.sum());
    let link = match extract_opcode(last) {
        OP_JAL => Utype(last).rd(),
        OP_JALR_VERSION0 | OP_JALR_VERSION1 => Itype(last).rd(),
        // A fused auipc and jalr, both on ra.
        OP_FAR_JUMP_REL | OP_FAR_JUMP_ABS => RA,
        _ => return End::Falls,
    };
    match extract_opcode(last) {
        _ if link == RA || link == T0 => End::Calls { site, return_pc, link },
        OP_JAL => End::Falls,
        _ => End::Jumps,
    }
}

/// The alternate link register, used in calls of compiler helpers.
pub(crate) const T0: usize = 5;

/// A hash for a few small numbers. Guests have little control over them.
#[derive(Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // An odd constant near 2^64 divided by the golden ratio; the high half is the well mixed one.
        let mixed = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
