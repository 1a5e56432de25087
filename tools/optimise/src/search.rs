//! Searches for cheaper forms of straight-line code by reordering and renaming registers. Not trusted.

mod arrange;
mod cost;
mod encode;
mod liveness;
mod rules;
mod values;
mod window;

use std::{collections::BTreeMap, ops::Range};

use antares_program::Instruction;

use crate::{
    LinkedScript, Rewrite, Settings,
    checker::code::{Function, Piece},
};

pub use rules::RewriteRule;

use cost::Fusions;
use encode::Line;
use liveness::Liveness;
use window::{Window, search};

/// Maximum instructions rewritten together.
const INSTRUCTIONS_MAX: usize = 600;

/// One in this many executed instructions: pieces from this share on get more tries.
const HOT_SHARE: u64 = 50;

/// Tries for a hot piece.
const TRIES: u32 = 12;

/// A proposed rewrite.
pub(crate) struct Proposal {
    pub(crate) rewrite: Rewrite,
    pub(crate) bytes: Vec<u8>,
    /// Address range of its function.
    pub(crate) function: Range<u64>,
}

/// A window of a function, and its execution count.
struct Candidate<'a> {
    function: &'a Function,
    window: Window,
    runs: u64,
}

impl Candidate<'_> {
    /// Number of its executed instructions.
    fn work(&self) -> u64 {
        self.runs.saturating_mul(self.window.lines.len() as u64)
    }
}

/// Proposals for `script`, the largest savings first; and the number of tried pieces.
pub(crate) fn propose(
    script: &LinkedScript,
    settings: &Settings,
    progress: impl Fn(usize, usize) -> bool,
) -> (Vec<Proposal>, usize) {
    let mut candidates: Vec<Candidate<'_>> =
        script.code.functions.iter().flat_map(|function| candidates(script, function, settings)).collect();
    candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.work()), candidate.window.pc));
    let work: u64 = candidates.iter().map(Candidate::work).fold(0, u64::saturating_add);
    let fusions = Fusions::of(settings.machine);
    let mut proposals = Vec::new();
    let mut tried = 0;
    for candidate @ Candidate { function, window, runs } in &candidates {
        if !progress(tried, candidates.len()) {
            break;
        }
        tried += 1;
        let is_hot = settings.runs.is_some() && candidate.work() >= work / HOT_SHARE;
        let tries = if is_hot { TRIES } else { 0 };
        let Some(found) = search(window, fusions, tries) else { continue };
        proposals.push(Proposal {
            rewrite: Rewrite {
                pc: window.pc,
                bytes: window.length,
                function: function.name.clone(),
                runs: *runs,
                cycles_before: found.before,
                cycles_after: found.arranged.cycles,
                rules: found.used,
                refused: None,
            },
            bytes: found.arranged.bytes,
            function: function.start..function.end,
        });
    }
    (proposals, tried)
}

fn candidates<'a>(script: &LinkedScript, function: &'a Function, settings: &Settings) -> Vec<Candidate<'a>> {
    let liveness = Liveness::of(function);
    let pieces = function.pieces.values().filter(|piece| piece.may_change());
    let windows = pieces.flat_map(|piece| windows(script, piece, &liveness));
    let candidate = |window: Window| {
        // A fused instruction counts at its first address, which may precede the window.
        let inside = window.pc..window.pc + window.length as u64;
        let most = |runs: &BTreeMap<u64, u64>| runs.range(inside).map(|(_, count)| *count).max();
        let runs = settings.runs.as_ref().map_or(1, |runs| most(runs).unwrap_or(0));
        Candidate { function, runs, window }
    };
    windows.map(candidate).filter(|candidate| settings.takes_all || candidate.runs > 0).collect()
}

fn windows(script: &LinkedScript, piece: &Piece, liveness: &Liveness) -> Vec<Window> {
    let rows = piece.row.chunks(INSTRUCTIONS_MAX).enumerate().filter(|(_, row)| row.len() > 1);
    let window = |(number, row): (usize, &[(u64, Instruction)])| {
        let (pc, last) = (row.first()?.0, row.last()?);
        let end = last.0 + u64::from(last.1.length);
        let length = usize::try_from(end - pc).ok()?;
        let at = script.offset(pc)?;
        let bytes = script.elf.get(at..at + length)?;
        let line = |(at, instruction): &(u64, Instruction)| {
            Line::of(instruction, bytes.get(usize::try_from(at - pc).ok()?..)?)
        };
        let lines = row.iter().map(line).collect::<Option<_>>()?;
        let live_out = liveness.before(piece, number * INSTRUCTIONS_MAX + row.len());
        Some(Window { pc, length, lines, live_out })
    };
    rows.filter_map(window).collect()
}
