//! A finished script: where it is rewritten, and the file that comes of it.

use std::collections::BTreeSet;

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_program::{Decoder, Op, read, recover};

use crate::{
    Left, Rewrite, RewriteError, Settings, SolverAnswer, Statement,
    arrange::{Arranged, Room},
    cost::Fusions,
    encode::Line,
    grow::{Grown, grow},
    patch::Patches,
    rewrite::{Leftovers, prove},
    search::{Found, Machine, search},
    windows::{Window, windows},
};

/// Share of all instructions, one in so many, from which a window is worth more tries.
const HOT_SHARE: u64 = 50;

/// These.
const TRIES: u32 = 12;

/// A rewritten ELF.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) elf: Vec<u8>,
    /// The windows, those that save most first.
    pub rewrites: Vec<Rewrite>,
    /// Functions that are written again, with longer windows.
    pub(crate) grown: Option<Grown>,
    /// What was left.
    pub left: Vec<Left>,
    /// Windows that were looked at.
    pub windows: usize,
}

/// Where a rewritten window is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Where it was: the place in the file, and what stood there.
    Same { offset: usize, old: Vec<u8> },
    /// In a copy of its function: its number there.
    Copy(usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Same { offset: 0, old: Vec::new() }
    }
}

/// Finds what can be rewritten in `elf`. `progress` is told how many windows of how many are done, and ends
/// the search by saying `false`.
///
/// # Errors
/// The ELF is no script, or one that must not be changed, or there is no room for what is to grow.
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
    let found = windows(&image, &program);
    if let Some(&pc) = found.own_code_reads.first().filter(|_| !settings.may_read_itself) {
        return Err(RewriteError::ReadsItself { pc });
    }
    let hot = hottest(found.windows, settings);
    let machine = |hot: &Hot| Machine {
        fusions: Fusions::of(options),
        has_b: options.isa.has(Isa::B),
        tries: if settings.runs.is_some() && hot.is_hottest { TRIES } else { 0 },
    };
    let mut patches = Patches::new(elf);
    let mut left = Leftovers::default();
    let mut rewrites = Vec::new();
    let mut cycles = Vec::new();
    for (index, hot_one) in hot.iter().enumerate() {
        if !progress(index, hot.len()) {
            break;
        }
        let Hot { runs, window, .. } = hot_one;
        let room = Room::Exactly(window.length);
        let Some(found) = search(&window.lines, room, window.live_out, machine(hot_one)) else { continue };
        left.add(&found, *runs);
        let now = found.arranged.as_ref().map_or(found.before, |arranged| arranged.cycles);
        cycles.push(Searched { index, cycles: now });
        let Some(arranged) = &found.arranged else { continue };
        let offset = patches.write(window.pc, &arranged.bytes)?;
        let place = Place::Same { offset, old: elf[offset..offset + window.length].to_vec() };
        rewrites.push(hot_one.rewrite(&found, arranged, place));
    }
    let windows = hot.len();
    let mut plan = Plan { elf: patches.elf, rewrites, grown: None, left: left.all(), windows };
    if settings.may_grow {
        let copied =
            grow(program, elf, &cycles, &hot, |hot| progress(windows, windows).then(|| machine(hot)))?;
        plan.grown = copied.grown;
        plan.rewrites.extend(copied.rewrites);
    }
    plan.rewrites.sort_by_key(|rewrite| (std::cmp::Reverse(rewrite.saved()), rewrite.pc));
    plan.ask_about(elf, plain)?;
    Ok(plan)
}

/// What a window takes, by its index, after the search in place.
pub(crate) struct Searched {
    pub(crate) index: usize,
    pub(crate) cycles: u64,
}

/// A window, and how many times it ran.
pub(crate) struct Hot {
    pub(crate) runs: u64,
    pub(crate) window: Window,
    is_hottest: bool,
}

impl Hot {
    /// Its instructions that were executed.
    fn work(&self) -> u64 {
        self.runs.saturating_mul(self.window.lines.len() as u64)
    }

    pub(crate) fn rewrite(&self, found: &Found, arranged: &Arranged, place: Place) -> Rewrite {
        Rewrite {
            pc: self.window.pc,
            bytes: arranged.bytes.len(),
            function: self.window.function.clone(),
            runs: self.runs,
            cycles_before: found.before,
            cycles_after: arranged.cycles,
            rules: found.used.clone(),
            is_copy: matches!(place, Place::Copy(_)),
            old_bytes: self.window.length,
            live_out: self.window.live_out,
            place,
            ..Rewrite::default()
        }
    }
}

/// The windows that are to be looked at, hottest first.
fn hottest(windows: Vec<Window>, settings: &Settings) -> Vec<Hot> {
    let runs = |window: &Window| {
        let Some(runs) = &settings.runs else { return 1 };
        let inside = runs.range(window.pc..window.pc + window.length as u64);
        inside.map(|(_, count)| *count).max().unwrap_or(0)
    };
    let mut hot: Vec<Hot> = windows
        .into_iter()
        .map(|window| Hot { runs: runs(&window), window, is_hottest: false })
        .filter(|hot| settings.takes_all || hot.runs > 0)
        .collect();
    hot.sort_by_key(|hot| (std::cmp::Reverse(hot.work()), hot.window.pc));
    let sum: u64 = hot.iter().map(Hot::work).fold(0, u64::saturating_add);
    for hot in &mut hot {
        hot.is_hottest = hot.work() >= sum / HOT_SHARE;
    }
    hot
}

impl Plan {
    /// Makes the questions, from the bytes before and after.
    pub(crate) fn ask_about(&mut self, before: &[u8], plain: CompileOptions) -> Result<(), RewriteError> {
        let limits = CompileLimits::DEFAULT;
        let all = self.written(|_| true);
        let copied: BTreeSet<usize> = self.rewrites.iter().filter_map(Rewrite::number).collect();
        let places =
            self.grown.as_ref().map(|grown| grown.places(&self.elf, |number| copied.contains(&number)));
        let places = places.unwrap_or_default();
        let (before, after) = (read(before, plain, &limits)?, read(&all, plain, &limits)?);
        let (mut before, mut after) = (Decoder::new(&before), Decoder::new(&after));
        for rewrite in &mut self.rewrites {
            let old = decoded(&mut before, rewrite.pc, rewrite.old_bytes);
            let new = match rewrite.place {
                Place::Same { .. } => decoded(&mut after, rewrite.pc, rewrite.bytes),
                Place::Copy(number) => {
                    places.get(&number).and_then(|pc| decoded(&mut after, *pc, rewrite.bytes))
                }
            };
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
        prove(&mut self.rewrites, threads, solver, progress);
    }

    /// The file, in which only what was proved is changed.
    #[must_use]
    pub fn proved_elf(&self) -> Vec<u8> {
        self.written(|rewrite| rewrite.is_proved == Some(true))
    }

    fn written(&self, takes: impl Fn(&Rewrite) -> bool) -> Vec<u8> {
        let mut elf = self.elf.clone();
        let mut is_taken = BTreeSet::new();
        for rewrite in &self.rewrites {
            match &rewrite.place {
                Place::Same { offset, old } if !takes(rewrite) => {
                    elf[*offset..offset + old.len()].copy_from_slice(old);
                }
                Place::Copy(number) if takes(rewrite) => {
                    is_taken.insert(*number);
                }
                _ => {}
            }
        }
        // Copies of which nothing is proved are of no use.
        let grown = self.grown.as_ref().filter(|_| !is_taken.is_empty());
        let written = grown.and_then(|grown| grown.write(&elf, |number| is_taken.contains(&number)));
        written.unwrap_or(elf)
    }
}

/// The instructions that ckb-vm finds in `bytes` from `pc` on, if they fill them.
fn decoded(decoder: &mut Decoder<'_>, pc: u64, bytes: usize) -> Option<Vec<Line>> {
    let end = pc + bytes as u64;
    let mut lines = Vec::new();
    let mut pc = pc;
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
