//! The search: rules are tried one after another, and what costs less stays.

use std::collections::{BTreeMap, HashSet};

use antares_program::RegSet;

use crate::{
    arrange::{Arranged, Obstacle, Room, arrange},
    cost::{Fusions, MULTIPLY_CYCLES, cycles},
    encode::Line,
    enumerate,
    rules::{Failed, Proposal, RewriteRule, paired, pairings, shorter},
    values::Values,
};

/// Rounds of rules that make code shorter; each takes one step.
const STEPS_MAX: usize = 400;

/// Places between its parts at which a pair is tried.
const PLACES_MAX: usize = 6;

/// What came of a window.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) arranged: Option<Arranged>,
    pub(crate) used: BTreeMap<RewriteRule, u32>,
    pub(crate) left: BTreeMap<(RewriteRule, Obstacle), u32>,
    pub(crate) before: u64,
}

/// A cheaper form of `lines` that fits `room`, and of which `live_out` is used behind them.
pub(crate) fn search(lines: &[Line], room: Room, live_out: RegSet, machine: Machine) -> Option<Found> {
    let before = machine.fusions.cycles(lines);
    let mut search = Search {
        best: Values::of(lines, live_out)?,
        arranged: None,
        cycles: before,
        room,
        machine,
        used: BTreeMap::new(),
        left: BTreeMap::new(),
    };
    // What is dead goes.
    if let Ok(arranged) = arrange(&search.best, room, machine.fusions, 0)
        && arranged.cycles < before
    {
        search.keep(search.best.clone(), arranged, RewriteRule::Redundant);
    }
    search.shorten(shorter);
    search.pair();
    search.shorten(shorter);
    // Products are unknown to the solver: with them, what was only tried is rarely proved, and late.
    if !lines.iter().any(|line| cycles(line.op) == MULTIPLY_CYCLES) {
        search.shorten(enumerate::proposals);
    }
    let Search { arranged, cycles, used, left, .. } = search;
    let arranged = arranged.filter(|_| cycles < before);
    Some(Found { arranged, used, left, before })
}

/// What the code runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) fusions: Fusions,
    pub(crate) has_b: bool,
    /// Assignments of registers that are tried by chance.
    pub(crate) tries: u32,
}

struct Search {
    best: Values,
    arranged: Option<Arranged>,
    cycles: u64,
    room: Room,
    machine: Machine,
    used: BTreeMap<RewriteRule, u32>,
    left: BTreeMap<(RewriteRule, Obstacle), u32>,
}

impl Search {
    fn keep(&mut self, values: Values, arranged: Arranged, rule: RewriteRule) {
        self.cycles = arranged.cycles;
        self.best = values;
        self.arranged = Some(arranged);
        *self.used.entry(rule).or_default() += 1;
    }

    fn shorten(&mut self, proposals: impl Fn(&Values, bool, &Failed) -> Vec<Proposal>) {
        // What did not pay is tried again when all the rest is done.
        let mut failed = HashSet::new();
        let mut is_better = false;
        for _ in 0..STEPS_MAX {
            let proposals = proposals(&self.best, self.machine.has_b, &failed);
            let mut kept = None;
            for Proposal { rule, at, values } in proposals {
                match arrange(&values, self.room, self.machine.fusions, 0) {
                    Ok(arranged) if arranged.cycles < self.cycles => {
                        kept = Some((values, arranged, rule));
                        break;
                    }
                    _ => failed.insert((rule, at)),
                };
            }
            match kept {
                Some((values, arranged, rule)) => {
                    self.keep(values, arranged, rule);
                    is_better = true;
                }
                None if is_better => {
                    failed.clear();
                    is_better = false;
                }
                None => return,
            }
        }
    }

    fn pair(&mut self) {
        // A part that gave nothing may do when others are in place.
        for round in 0..2 {
            self.left.clear();
            for (rule, members) in pairings(&self.best) {
                self.try_pair(rule, &members, round);
            }
        }
    }

    fn try_pair(&mut self, rule: RewriteRule, members: &[usize], round: u32) {
        let (first, last) = (members.iter().min().copied(), members.iter().max().copied());
        let (Some(first), Some(last)) = (first, last) else { return };
        let mut obstacle = Obstacle::Order;
        let tries = if round > 0 { self.machine.tries } else { 0 };
        let mut places = vec![last, first];
        places.extend(members);
        if round > 0 {
            places.extend((first..last).step_by(((last - first) / PLACES_MAX).max(4)));
        }
        for place in places {
            let Some(values) = paired(&self.best, rule, members, place) else { return };
            match arrange(&values, self.room, self.machine.fusions, tries) {
                // Whatever is fused already stays so.
                Ok(arranged) if arranged.cycles < self.cycles => {
                    return self.keep(values, arranged, rule);
                }
                Ok(arranged) if arranged.cycles == self.cycles && last - first < members.len() => {
                    self.best = values;
                    self.arranged = Some(arranged);
                    return;
                }
                Ok(_) => obstacle = obstacle.max(Obstacle::Cost),
                Err(other) => obstacle = obstacle.max(other),
            }
        }
        *self.left.entry((rule, obstacle)).or_default() += 1;
    }
}
