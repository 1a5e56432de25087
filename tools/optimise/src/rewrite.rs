//! What a plan tells: rewritten windows with their proofs, and what was left.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use antares_program::RegSet;

use crate::{Obstacle, RewriteRule, SolverAnswer, Statement, plan::Place, search::Found};

/// A window that was rewritten.
#[derive(Clone, Debug, Default, serde::Serialize)]
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
    /// Whether it is in a copy of its function, beside the old one.
    pub is_copy: bool,
    #[serde(skip)]
    pub(crate) old_bytes: usize,
    #[serde(skip)]
    pub(crate) place: Place,
    #[serde(skip)]
    pub(crate) live_out: RegSet,
    /// What is to be proved; none if that cannot be asked.
    #[serde(skip)]
    pub statement: Option<Statement>,
    /// How it was: questions of which each is answered `unsat`.
    #[serde(skip)]
    pub proof: Option<String>,
}

impl Rewrite {
    /// Which window of the copies it is, if it is one.
    pub(crate) fn number(&self) -> Option<usize> {
        match self.place {
            Place::Copy(number) => Some(number),
            Place::Same { .. } => None,
        }
    }

    /// Cycles that it saves in all runs.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.cycles_before.saturating_sub(self.cycles_after).saturating_mul(self.runs)
    }
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

/// What is left, while it is counted.
#[derive(Default)]
pub(crate) struct Leftovers(BTreeMap<(RewriteRule, Obstacle), Left>);

impl Leftovers {
    /// Adds what was left of a window that ran so many times.
    pub(crate) fn add(&mut self, found: &Found, runs: u64) {
        for (&(rule, obstacle), &count) in &found.left {
            let none = Left { rule, obstacle, count: 0, runs: 0 };
            let sum = self.0.entry((rule, obstacle)).or_insert(none);
            sum.count += u64::from(count);
            sum.runs += u64::from(count).saturating_mul(runs);
        }
    }

    pub(crate) fn all(self) -> Vec<Left> {
        self.0.into_values().collect()
    }
}

/// Has `solver` prove each of `rewrites`, several at a time. `progress` is told how many are done.
pub(crate) fn prove(
    rewrites: &mut [Rewrite],
    threads: usize,
    solver: impl Fn(&Statement) -> SolverAnswer + Sync,
    progress: impl Fn(usize) + Sync,
) {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let asked: &[Rewrite] = rewrites;
    let answers: Vec<(usize, SolverAnswer)> = std::thread::scope(|scope| {
        let work = || {
            let mut answers = Vec::new();
            while let Some((at, rewrite)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                asked.get(at).map(|rewrite| (at, rewrite))
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
        let rewrite = &mut rewrites[at];
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
