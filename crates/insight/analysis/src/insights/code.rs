//! The code of a program with its costs: functions, loops, instructions.

use std::collections::{BTreeMap, HashSet};

use antares_abi::{CompileLimits, Hints, Isa};
use antares_profile::Value;
use antares_profile_view::{Symbols, View};
use antares_program::{Function, Instruction, Op, Program, Reg, Terminator, recover};

use super::{Finding, Rule};

pub(crate) type At = (u64, Instruction);

/// The code of a program that ran, with its costs.
pub(crate) struct Code<'a> {
    pub(crate) program: Program,
    pub(crate) symbols: &'a Symbols,
    /// Whether the program may use the B extension.
    pub(crate) has_b: bool,
    /// Whether ckb-vm fuses its instructions.
    pub(crate) has_mop: bool,
    /// Version of the VM that ran it.
    pub(crate) vm_version: u32,
    /// Whether it contains Mbed TLS, on whose RSA the advice was measured.
    pub(crate) is_mbedtls: bool,
    costs: BTreeMap<u64, Value>,
}

/// An innermost loop, with its instructions sorted by address.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) start: u64,
    pub(crate) instructions: Vec<At>,
    pub(crate) cycles: u64,
    /// Whether it contains calls or system calls.
    pub(crate) calls: bool,
}

impl<'a> Code<'a> {
    /// A finding about the code at `at`, without estimated or measured savings.
    pub(crate) fn finding(&self, rule: Rule, at: u64, cycles: u64, why: String, advice: &str) -> Finding {
        Finding {
            rule,
            function: self.name(at),
            place: self.location(at),
            address: Some(at),
            cycles,
            saves: None,
            why,
            advice: advice.to_owned(),
            measured: None,
        }
    }

    /// The code of one of the view's programs, if its ELF is available and valid.
    pub(crate) fn of(view: &'a View<'_>, program: u32) -> Option<Self> {
        let known = view.profile().programs().get(program as usize)?;
        let image = view.programs().image(known)?;
        let mut code = recover(&image, &CompileLimits::DEFAULT, &Hints::default()).ok()?;
        // Functions overlap where one returns by both ra and t0, or an address inside of it is taken.
        let mut seen = HashSet::new();
        for block in code.functions.iter_mut().flat_map(|function| &mut function.blocks) {
            block.instructions.retain(|(pc, _)| seen.insert(*pc));
        }
        let costs = view.profile().costs().swap_remove(program as usize);
        let symbols = view.symbols(program)?;
        let is_bignum = |name: &str| name.starts_with("mbedtls_mpi_") || name == "mpi_mul_hlp";
        let is_mbedtls = symbols.functions().any(|(_, _, name)| is_bignum(name));
        let [has_b, has_mop] = [Isa::B, Isa::MOP].map(|extension| Isa(known.isa).has(extension));
        Some(Self { program: code, symbols, has_b, has_mop, vm_version: known.vm_version, is_mbedtls, costs })
    }

    /// Cost of the instruction at `pc`.
    pub(crate) fn cost(&self, pc: u64) -> Value {
        self.costs.get(&pc).copied().unwrap_or_default()
    }

    /// Total cycles of these instructions.
    pub(crate) fn cycles<'b>(&self, instructions: impl IntoIterator<Item = &'b At>) -> u64 {
        instructions.into_iter().map(|(pc, _)| self.cost(*pc).cycles).fold(0, u64::saturating_add)
    }

    /// Number of passes: how often its most frequent instruction ran.
    pub(crate) fn passes(&self, found: &Loop) -> u64 {
        found.instructions.iter().map(|(pc, _)| self.cost(*pc).instructions).max().unwrap_or(0)
    }

    /// Name of the outermost function at `pc`, into which the others are inlined.
    pub(crate) fn name(&self, pc: u64) -> String {
        self.symbols.locate(pc).pop().map(|location| location.function).unwrap_or_default()
    }

    /// Source location of `pc`, as `file:line`.
    pub(crate) fn location(&self, pc: u64) -> Option<String> {
        let line = self.symbols.locate(pc).into_iter().next()?.line?;
        (line.line > 0).then(|| format!("{}:{}", line.file, line.line))
    }

    /// Innermost loops that ran. A jump back to an earlier block of the same function identifies a loop,
    /// because compilers lay loops out that way.
    pub(crate) fn loops(&self) -> Vec<Loop> {
        let mut loops = Vec::new();
        for function in &self.program.functions {
            let mut ranges = back_edges(function);
            ranges.sort_by_key(|(start, end)| (end - start, *start));
            let mut inner: Vec<(u64, u64)> = Vec::new();
            for (start, end) in ranges {
                if inner.iter().all(|(from, to)| *from < start || end < *to) {
                    inner.push((start, end));
                }
            }
            loops.extend(inner.into_iter().filter_map(|(start, end)| self.inside(function, start, end)));
        }
        loops
    }

    fn inside(&self, function: &Function, start: u64, end: u64) -> Option<Loop> {
        let blocks = function.blocks.iter().filter(|block| (start..=end).contains(&block.pc.0));
        let calls = blocks.clone().any(|block| {
            matches!(
                block.terminator,
                Terminator::Call { .. } | Terminator::IndirectCall { .. } | Terminator::Ecall(_)
            )
        });
        let instructions = blocks.flat_map(|block| block.instructions.iter());
        let mut instructions: Vec<At> = instructions.map(|(pc, instruction)| (pc.0, *instruction)).collect();
        instructions.sort_by_key(|(pc, _)| *pc);
        let cycles = self.cycles(&instructions);
        (cycles > 0).then_some(Loop { start, instructions, cycles, calls })
    }
}

/// Addresses of the first and last block of each loop.
fn back_edges(function: &Function) -> Vec<(u64, u64)> {
    let address = |id: antares_program::BlockId| function.blocks.get(id.0 as usize).map(|block| block.pc.0);
    let mut ranges = Vec::new();
    for block in &function.blocks {
        let targets = match block.terminator {
            Terminator::Jump(to) => vec![to],
            Terminator::Branch { taken, otherwise } => vec![taken, otherwise],
            _ => Vec::new(),
        };
        let back = targets.into_iter().filter_map(address).filter(|to| *to <= block.pc.0);
        ranges.extend(back.map(|to| (to, block.pc.0)));
    }
    ranges
}

pub(crate) fn loaded_bytes(op: Op) -> Option<u32> {
    match op {
        Op::Lb | Op::Lbu => Some(1),
        Op::Lh | Op::Lhu => Some(2),
        Op::Lw | Op::Lwu => Some(4),
        Op::Ld => Some(8),
        _ => None,
    }
}

pub(crate) fn stored_bytes(op: Op) -> Option<u32> {
    match op {
        Op::Sb => Some(1),
        Op::Sh => Some(2),
        Op::Sw => Some(4),
        Op::Sd => Some(8),
        _ => None,
    }
}

pub(crate) fn writes(instruction: &Instruction, register: Reg) -> bool {
    let is_fused =
        instruction.is_fused() && !matches!(instruction.op, Op::Adc | Op::Sbb | Op::Add3a | Op::Add3b);
    instruction.rd == register || is_fused && instruction.rs3 == register
}
