//! A finished script: where it is rewritten, and the file that comes of it.

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_program::{Decoder, Op, read, recover};

use crate::{
    Left, Rewrite, RewriteError, Settings, SolverAnswer, Statement,
    arrange::Room,
    cost::Fusions,
    encode::Line,
    patch::Patches,
    rewrite::{Leftovers, prove},
    search::{Machine, search},
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
    /// What stood in the file where each of them is.
    pub(crate) replaced: Vec<Replaced>,
    /// What was left.
    pub left: Vec<Left>,
    /// Windows that were looked at.
    pub windows: usize,
}

/// Bytes of the file that are others now.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) offset: usize,
    pub(crate) old: Vec<u8>,
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
    let found = windows(&image, &program);
    if let Some(&pc) = found.own_code_reads.first().filter(|_| !settings.may_read_itself) {
        return Err(RewriteError::ReadsItself { pc });
    }
    let hot = hottest(found.windows, settings);
    let sum: u64 = hot.iter().map(Hot::work).fold(0, u64::saturating_add);
    let mut patches = Patches::new(elf);
    let mut left = Leftovers::default();
    let mut made = Vec::new();
    for (index, hot_one) in hot.iter().enumerate() {
        if !progress(index, hot.len()) {
            break;
        }
        let Hot { runs, window } = hot_one;
        let is_hot = hot_one.work() >= sum / HOT_SHARE;
        let tries = if settings.runs.is_some() && is_hot { TRIES } else { 0 };
        let machine = Machine { fusions: Fusions::of(options), has_b: options.isa.has(Isa::B), tries };
        let room = Room::Exactly(window.length);
        let Some(found) = search(&window.lines, room, window.live_out, machine) else { continue };
        left.add(&found, *runs);
        let Some(arranged) = found.arranged else { continue };
        let offset = patches.write(window.pc, &arranged.bytes)?;
        let old = elf[offset..offset + window.length].to_vec();
        let rewrite = Rewrite {
            pc: window.pc,
            bytes: window.length,
            function: window.function.clone(),
            runs: *runs,
            cycles_before: found.before,
            cycles_after: arranged.cycles,
            rules: found.used,
            live_out: window.live_out,
            ..Rewrite::default()
        };
        made.push((rewrite, Replaced { offset, old }));
    }
    made.sort_by_key(|(rewrite, _)| (std::cmp::Reverse(rewrite.saved()), rewrite.pc));
    let (rewrites, replaced) = made.into_iter().unzip();
    let mut plan = Plan { elf: patches.elf, rewrites, replaced, left: left.all(), windows: hot.len() };
    plan.ask_about(elf, plain)?;
    Ok(plan)
}

/// A window, and how many times it ran.
struct Hot {
    runs: u64,
    window: Window,
}

impl Hot {
    /// Its instructions that were executed.
    fn work(&self) -> u64 {
        self.runs.saturating_mul(self.window.lines.len() as u64)
    }
}

/// The windows that are to be looked at, hottest first.
fn hottest(windows: Vec<Window>, settings: &Settings) -> Vec<Hot> {
    let runs = |window: &Window| {
        let Some(runs) = &settings.runs else { return 1 };
        let inside = runs.range(window.pc..window.pc + window.length as u64);
        inside.map(|(_, count)| *count).max().unwrap_or(0)
    };
    let mut hot: Vec<Hot> = windows.into_iter().map(|window| Hot { runs: runs(&window), window }).collect();
    hot.retain(|hot| settings.takes_all || hot.runs > 0);
    hot.sort_by_key(|hot| (std::cmp::Reverse(hot.work()), hot.window.pc));
    hot
}

impl Plan {
    /// Makes the questions, from the bytes before and after.
    pub(crate) fn ask_about(&mut self, before: &[u8], plain: CompileOptions) -> Result<(), RewriteError> {
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
        prove(&mut self.rewrites, threads, solver, progress);
    }

    /// The file, in which only what was proved is changed.
    #[must_use]
    pub fn proved_elf(&self) -> Vec<u8> {
        let mut elf = self.elf.clone();
        for (rewrite, Replaced { offset, old }) in self.rewrites.iter().zip(&self.replaced) {
            if rewrite.is_proved != Some(true) {
                elf[*offset..offset + old.len()].copy_from_slice(old);
            }
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
