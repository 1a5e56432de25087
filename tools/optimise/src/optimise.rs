//! Applies those proposals of the search that the checker accepts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Difference, LinkedScript, RewriteError, RewriteRule, Settings, Untouched, Why,
    search::{Proposal, propose},
};

/// Rounds of reverting rejected pieces before whole functions are reverted.
const ROUNDS_MAX: usize = 8;

/// A rewritten piece of code.
#[derive(Clone, Debug, Serialize)]
pub struct Rewrite {
    /// Its address.
    pub pc: u64,
    /// Its length.
    pub bytes: usize,
    /// Its function.
    pub function: String,
    /// Number of executions.
    pub runs: u64,
    /// Cycles of one execution, before.
    pub cycles_before: u64,
    /// Cycles of one execution, after.
    pub cycles_after: u64,
    /// Applied rules, with counts.
    pub rules: BTreeMap<RewriteRule, u32>,
    /// Why the checker rejected it; then it is not applied.
    pub refused: Option<String>,
}

impl Rewrite {
    /// Savings in cycles over all executions.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.cycles_before.saturating_sub(self.cycles_after).saturating_mul(self.runs)
    }
}

/// A script that costs fewer cycles.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The file; unchanged if nothing is cheaper.
    pub elf: Vec<u8>,
    /// Applied and rejected rewrites, the largest savings first.
    pub rewrites: Vec<Rewrite>,
    /// Functions that must not change.
    pub untouched: Vec<Untouched>,
    /// Number of pieces that the search tried.
    pub tried: usize,
}

/// Rewrites `elf`. Calls `progress` with the finished and total pieces; `false` ends the search.
///
/// # Errors
/// The ELF is not a script, or does not identify its entry points.
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
        // If no proposal explains a difference, apply none.
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

/// Whether `proposal` may have caused `difference`.
fn is_blamed(difference: &Difference, proposal: &Proposal, round: usize) -> bool {
    let piece = proposal.rewrite.pc..proposal.rewrite.pc + proposal.bytes.len() as u64;
    let is_near = round < ROUNDS_MAX && !matches!(difference.why, Why::Register(_));
    let place = if is_near { &piece } else { &proposal.function };
    place.start < difference.at.end && difference.at.start < place.end
}

/// Applies `proposals` to the file of `script`.
fn write(script: &LinkedScript, proposals: &[Proposal]) -> Result<Vec<u8>, RewriteError> {
    let mut elf = script.elf.clone();
    for Proposal { rewrite, bytes, .. } in proposals {
        let place = script.offset(rewrite.pc).and_then(|at| elf.get_mut(at..at + bytes.len()));
        place.ok_or(RewriteError::Outside(rewrite.pc))?.copy_from_slice(bytes);
    }
    Ok(elf)
}
