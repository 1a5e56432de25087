//! The way from a script to a cheaper one: what the search proposes and the checker lets pass.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Difference, LinkedScript, RewriteError, RewriteRule, Settings, Untouched, Why,
    search::{Proposal, propose},
};

/// Times that refused pieces are taken back before the whole function is.
const ROUNDS_MAX: usize = 8;

/// A rewritten piece of code.
#[derive(Clone, Debug, Serialize)]
pub struct Rewrite {
    /// Where it is.
    pub pc: u64,
    /// How many bytes it has.
    pub bytes: usize,
    /// The function that it is of.
    pub function: String,
    /// How many times it ran.
    pub runs: u64,
    /// Cycles of one run, before and after.
    pub cycles_before: u64,
    /// After.
    pub cycles_after: u64,
    /// What was done, and how often.
    pub rules: BTreeMap<RewriteRule, u32>,
    /// What the checker refused it for; then it is left as it was.
    pub refused: Option<String>,
}

impl Rewrite {
    /// Cycles that it saves in all runs.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.cycles_before.saturating_sub(self.cycles_after).saturating_mul(self.runs)
    }
}

/// A script that costs fewer cycles.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The file. It is the old one if nothing is cheaper.
    pub elf: Vec<u8>,
    /// What was rewritten, and what was not: those that save most first.
    pub rewrites: Vec<Rewrite>,
    /// Functions that may not be changed.
    pub untouched: Vec<Untouched>,
    /// Pieces of code that were tried.
    pub tried: usize,
}

/// Rewrites `elf`. `progress` is told how many pieces of how many are done, and ends the search by saying
/// `false`.
///
/// # Errors
/// The ELF is no script, or does not tell where its code is entered.
pub fn optimise(
    elf: &[u8],
    settings: &Settings,
    progress: impl Fn(usize, usize) -> bool,
) -> Result<Optimised, RewriteError> {
    let script = LinkedScript::read(elf)?;
    let (mut proposals, tried) = propose(&script, settings, progress);
    let mut refused = Vec::new();
    let mut written = write(&script, &proposals)?;
    for round in 0.. {
        let differences = script.differences(&written)?;
        if differences.is_empty() {
            break;
        }
        let before = proposals.len();
        let blamed = |proposal: &Proposal| differences.iter().find(|found| is_blamed(found, proposal, round));
        proposals.retain(|proposal| match blamed(proposal) {
            Some(difference) => {
                refused
                    .push(Rewrite { refused: Some(difference.why.to_string()), ..proposal.rewrite.clone() });
                false
            }
            None => true,
        });
        // What nobody is to blame for is no reason to write a file.
        if proposals.len() == before {
            proposals.clear();
        }
        written = write(&script, &proposals)?;
    }
    let mut rewrites: Vec<Rewrite> =
        proposals.into_iter().map(|proposal| proposal.rewrite).chain(refused).collect();
    rewrites.sort_by_key(|rewrite| (std::cmp::Reverse(rewrite.saved()), rewrite.pc));
    Ok(Optimised { elf: written, rewrites, untouched: script.code.untouched.clone(), tried })
}

/// Whether `proposal` may be the reason for `difference`.
fn is_blamed(difference: &Difference, proposal: &Proposal, round: usize) -> bool {
    let piece = proposal.rewrite.pc..proposal.rewrite.pc + proposal.bytes.len() as u64;
    let is_near = round < ROUNDS_MAX && !matches!(difference.why, Why::Register(_));
    let place = if is_near { &piece } else { &proposal.function };
    place.start < difference.at.end && difference.at.start < place.end
}

/// The file of `script` with `proposals` in it.
fn write(script: &LinkedScript, proposals: &[Proposal]) -> Result<Vec<u8>, RewriteError> {
    let mut elf = script.elf.clone();
    for Proposal { rewrite, bytes, .. } in proposals {
        let place = script.offset(rewrite.pc).and_then(|at| elf.get_mut(at..at + bytes.len()));
        place.ok_or(RewriteError::Outside(rewrite.pc))?.copy_from_slice(bytes);
    }
    Ok(elf)
}
