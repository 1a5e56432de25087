//! Scripts that cost fewer cycles: windows of code rewritten for ckb-vm's cost model, each proved by a
//! solver.
//!
//! ```text
//! plan      finds windows (entered at their start alone) and cheaper forms; changes the ELF's bytes in place
//! Plan::prove   asks a solver about each, on the bytes that were written; takes back what is not proved
//! ```
//! No rule is trusted, no proof is about anything but bytes: both sides of a question are decoded by ckb-vm's
//! decoder. The file keeps its length, its symbols and the place of everything that has an address.
#![forbid(unsafe_code)]

mod arrange;
mod claims;
mod cost;
mod encode;
mod graph;
mod liveness;
mod memory;
mod patch;
mod question;
mod rules;
mod search;
mod simulate;
mod slots;
mod solver;
mod terms;
#[cfg(test)]
mod tests;
mod values;
mod windows;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_program::{Decoder, Op, ProgramError, RegSet, read, recover};

pub use arrange::Obstacle;
pub use question::Statement;
pub use rules::RewriteRule;
pub use solver::{QUESTION_S_MAX, Solver, SolverAnswer};

use crate::{
    cost::Fusions,
    encode::Line,
    patch::Patches,
    search::{Machine, search},
};

/// Why nothing was rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The ELF is no script.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It has been found to read its own code.
    #[error("the script reads its own code at {pc:#x}, so it may notice that this has changed")]
    ReadsItself {
        /// The first instruction that does.
        pc: u64,
    },
    /// Code is in no part of the file, or in two.
    #[error("the file does not tell where the code at {pc:#x} comes from")]
    NoPlace {
        /// Where the code is.
        pc: u64,
    },
}

/// Share of all instructions, one in so many, from which a window is worth more tries.
const HOT_SHARE: u64 = 50;

/// These.
const TRIES: u32 = 12;

/// What to rewrite.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How many times instructions were executed, by address. Without it every window counts once.
    pub runs: Option<BTreeMap<u64, u64>>,
    /// Also rewrite what never ran.
    pub takes_all: bool,
    /// Rewrite although the script reads its own code.
    pub may_read_itself: bool,
}

/// A window that was rewritten.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rewrite {
    /// Address of its first instruction.
    pub pc: u64,
    /// Its length, bytes.
    pub bytes: usize,
    /// The function that it is in.
    pub function: String,
    /// How many times it ran.
    pub runs: u64,
    /// Cycles for once through it, before.
    pub cycles_before: u64,
    /// Cycles for once through it, after.
    pub cycles_after: u64,
    /// What the rules did, and how many times.
    pub rules: BTreeMap<RewriteRule, u32>,
    /// Whether the solver proved it; none before it was asked.
    pub is_proved: Option<bool>,
    /// Time of the proof, microseconds.
    pub proof_us: u64,
    /// Whether the proof was known from an earlier run.
    pub is_cached: bool,
    /// What the solver said if it did not prove it.
    pub refused: Option<String>,
    #[serde(skip)]
    old: Vec<u8>,
    #[serde(skip)]
    offset: usize,
    #[serde(skip)]
    live_out: RegSet,
    /// What is to be proved; none if that cannot be asked.
    #[serde(skip)]
    pub statement: Option<Statement>,
    /// How it was: questions of which each is answered `unsat`.
    #[serde(skip)]
    pub proof: Option<String>,
}

/// What a rule could not do.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Left {
    /// The rule.
    pub rule: RewriteRule,
    /// Why not.
    pub obstacle: Obstacle,
    /// How many times.
    pub count: u64,
    /// How many times that ran.
    pub runs: u64,
}

/// A rewritten ELF.
#[derive(Clone, Debug)]
pub struct Plan {
    elf: Vec<u8>,
    /// The windows, those that save most first.
    pub rewrites: Vec<Rewrite>,
    /// What was left.
    pub left: Vec<Left>,
    /// Windows that were looked at.
    pub windows: usize,
}

/// Finds what can be rewritten in `elf`. `progress` is told how many windows of how many are done, and ends
/// the search by saying `false`.
///
/// # Errors
/// The ELF is no script, or one that must not be changed.
pub fn plan(
    elf: &[u8],
    options: CompileOptions,
    settings: &Settings,
    progress: impl Fn(usize, usize) -> bool,
) -> Result<Plan, RewriteError> {
    let limits = CompileLimits::DEFAULT;
    // Without fusions an instruction is one instruction.
    let plain = CompileOptions { isa: Isa(options.isa.0 & !Isa::MOP.0), ..options };
    let image = read(elf, plain, &limits)?;
    let program = recover(&image, &limits, &Hints::default())?;
    let found = windows::windows(&image, &program);
    if let Some(&pc) = found.own_code_reads.first().filter(|_| !settings.may_read_itself) {
        return Err(RewriteError::ReadsItself { pc });
    }
    let runs = |window: &windows::Window| {
        let Some(runs) = &settings.runs else { return 1 };
        let inside = runs.range(window.pc..window.pc + window.length as u64);
        inside.map(|(_, count)| *count).max().unwrap_or(0)
    };
    let mut hot: Vec<(u64, windows::Window)> =
        found.windows.into_iter().map(|window| (runs(&window), window)).collect();
    hot.retain(|(runs, _)| settings.takes_all || *runs > 0);
    hot.sort_by_key(|(runs, window)| (std::cmp::Reverse(work(*runs, window)), window.pc));
    let sum: u64 = hot.iter().map(|(runs, window)| work(*runs, window)).fold(0, u64::saturating_add);
    let mut patches = Patches::new(elf);
    let mut left: BTreeMap<(RewriteRule, Obstacle), (u64, u64)> = BTreeMap::new();
    let mut made = Vec::new();
    for (index, (runs, window)) in hot.iter().enumerate() {
        if !progress(index, hot.len()) {
            break;
        }
        let is_hot = work(*runs, window) >= sum / HOT_SHARE;
        let tries = if settings.runs.is_some() && is_hot { TRIES } else { 0 };
        let machine = Machine { fusions: Fusions::of(options), has_b: options.isa.has(Isa::B), tries };
        let Some(found) = search(&window.lines, window.length, window.live_out, machine) else { continue };
        for (key, count) in found.left {
            let sum = left.entry(key).or_default();
            sum.0 += u64::from(count);
            sum.1 += u64::from(count).saturating_mul(*runs);
        }
        let Some(arranged) = found.arranged else { continue };
        let offset = patches.write(window.pc, &arranged.bytes)?;
        made.push(Rewrite {
            pc: window.pc,
            bytes: window.length,
            function: window.function.clone(),
            runs: *runs,
            cycles_before: found.before,
            cycles_after: arranged.cycles,
            rules: found.used,
            is_proved: None,
            proof_us: 0,
            is_cached: false,
            refused: None,
            old: elf[offset..offset + window.length].to_vec(),
            offset,
            live_out: window.live_out,
            statement: None,
            proof: None,
        });
    }
    let mut plan = Plan { elf: patches.elf, rewrites: made, left: Vec::new(), windows: hot.len() };
    plan.left = left
        .into_iter()
        .map(|((rule, obstacle), (count, runs))| Left { rule, obstacle, count, runs })
        .collect();
    plan.rewrites.sort_by_key(|rewrite| (std::cmp::Reverse(rewrite.saved()), rewrite.pc));
    plan.ask_about(elf, plain)?;
    Ok(plan)
}

/// Instructions of a window that were executed.
fn work(runs: u64, window: &windows::Window) -> u64 {
    runs.saturating_mul(window.lines.len() as u64)
}

impl Rewrite {
    /// Cycles that it saves in all runs.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.cycles_before.saturating_sub(self.cycles_after).saturating_mul(self.runs)
    }
}

impl Plan {
    /// Makes the questions, from the bytes before and after.
    fn ask_about(&mut self, before: &[u8], plain: CompileOptions) -> Result<(), RewriteError> {
        let limits = CompileLimits::DEFAULT;
        let (before, after) = (read(before, plain, &limits)?, read(&self.elf, plain, &limits)?);
        let (mut before, mut after) = (Decoder::new(&before), Decoder::new(&after));
        for rewrite in &mut self.rewrites {
            let old = decoded(&mut before, rewrite);
            let new = decoded(&mut after, rewrite);
            // What cannot be asked is not proved.
            let Some((old, new)) = old.zip(new) else { continue };
            rewrite.statement = Statement::new(old, new, rewrite.live_out);
        }
        Ok(())
    }

    /// Has `solver` prove each rewrite, several at a time, and takes back those that it does not. `progress`
    /// is told how many are done.
    pub fn prove(
        &mut self,
        threads: usize,
        solver: impl Fn(&Statement) -> SolverAnswer + Sync,
        progress: impl Fn(usize) + Sync,
    ) {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let rewrites = &self.rewrites;
        let answers: Vec<(usize, SolverAnswer)> = std::thread::scope(|scope| {
            let work = || {
                let mut answers = Vec::new();
                while let Some((at, rewrite)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    rewrites.get(at).map(|rewrite| (at, rewrite))
                } {
                    let unasked = || SolverAnswer::Refused { said: "it cannot be asked".to_owned() };
                    answers.push((at, rewrite.statement.as_ref().map_or_else(unasked, &solver)));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                answers
            };
            let started: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        for (at, answer) in answers {
            let rewrite = &mut self.rewrites[at];
            match answer {
                SolverAnswer::Proved { took, is_cached, proof } => {
                    rewrite.is_proved = Some(true);
                    rewrite.proof = Some(proof);
                    rewrite.is_cached = is_cached;
                    rewrite.proof_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                }
                SolverAnswer::Refused { said } => {
                    rewrite.is_proved = Some(false);
                    rewrite.refused = Some(said);
                }
            }
        }
    }

    /// The file, in which only what was proved is changed.
    #[must_use]
    pub fn proved_elf(&self) -> Vec<u8> {
        let mut elf = self.elf.clone();
        for rewrite in self.rewrites.iter().filter(|rewrite| rewrite.is_proved != Some(true)) {
            elf[rewrite.offset..rewrite.offset + rewrite.bytes].copy_from_slice(&rewrite.old);
        }
        elf
    }
}

/// The instructions that ckb-vm finds in a window, if they fill it.
fn decoded(decoder: &mut Decoder<'_>, rewrite: &Rewrite) -> Option<Vec<Line>> {
    let end = rewrite.pc + rewrite.bytes as u64;
    let mut lines = Vec::new();
    let mut pc = rewrite.pc;
    while pc < end {
        let instruction = decoder.decode(pc)?;
        // A jump over what is left of the window ends it.
        if instruction.op == Op::Jal && instruction.rd.0 == 0 {
            let target = pc.wrapping_add(instruction.imm.cast_unsigned());
            return (target == end).then_some(lines);
        }
        lines.push(Line::of(&instruction));
        pc += u64::from(instruction.length);
    }
    (pc == end).then_some(lines)
}
