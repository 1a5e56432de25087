//! Optimises one window: tries to make instructions adjacent, and retains what costs less.

use std::collections::{BTreeMap, HashSet};

use antares_program::RegSet;

use super::{
    arrange::{Arranged, arrange},
    cost::Fusions,
    encode::Line,
    rules::{RewriteRule, paired, pairings, without_moves},
    values::Values,
};

/// Maximum positions to try for a pair, between its parts.
const POSITIONS_MAX: usize = 6;

/// Straight-line code.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) pc: u64,
    pub(crate) length: usize,
    pub(crate) lines: Vec<Line>,
    /// Live registers after the window.
    pub(crate) live_out: RegSet,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) arranged: Arranged,
    pub(crate) used: BTreeMap<RewriteRule, u32>,
    pub(crate) before: u64,
}

/// A cheaper form of `window`; tries a number of random register assignments.
pub(crate) fn search(window: &Window, fusions: Fusions, tries: u32) -> Option<Found> {
    let before = fusions.cycles(&window.lines);
    let mut search = Search {
        best: Values::of(&window.lines, window.live_out)?,
        arranged: None,
        cycles: before,
        length: window.length,
        fusions,
        tries,
        used: BTreeMap::new(),
    };
    search.drop_moves();
    search.pair();
    search.drop_moves();
    let Search { arranged, used, .. } = search;
    arranged.filter(|arranged| arranged.cycles < before).map(|arranged| Found { arranged, used, before })
}

struct Search {
    best: Values,
    arranged: Option<Arranged>,
    cycles: u64,
    length: usize,
    fusions: Fusions,
    tries: u32,
    used: BTreeMap<RewriteRule, u32>,
}

impl Search {
    fn arrange(&self, values: &Values, tries: u32) -> Option<Arranged> {
        arrange(values, self.length, self.fusions, tries)
    }

    fn keep(&mut self, values: Values, arranged: Arranged, rule: RewriteRule) {
        self.cycles = arranged.cycles;
        self.best = values;
        self.arranged = Some(arranged);
        *self.used.entry(rule).or_default() += 1;
    }

    /// Removes dead code and moves, as long as that reduces the cost.
    fn drop_moves(&mut self) {
        if let Some(arranged) = self.arrange(&self.best, 0).filter(|arranged| arranged.cycles < self.cycles) {
            self.keep(self.best.clone(), arranged, RewriteRule::Move);
        }
        // Retry failed removals after others succeeded.
        let (mut failed, mut is_better) = (HashSet::new(), false);
        loop {
            let better = without_moves(&self.best, &failed).into_iter().find_map(|(at, values)| {
                let arranged = self.arrange(&values, 0).filter(|arranged| arranged.cycles < self.cycles);
                if arranged.is_none() {
                    failed.insert(at);
                }
                arranged.map(|arranged| (values, arranged))
            });
            match better {
                Some((values, arranged)) => {
                    self.keep(values, arranged, RewriteRule::Move);
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
        // A pair without benefit may help after others are in place.
        for round in 0..2 {
            for (rule, members) in pairings(&self.best) {
                self.try_pair(rule, &members, round);
            }
        }
    }

    fn try_pair(&mut self, rule: RewriteRule, members: &[usize], round: u32) {
        let (Some(&first), Some(&last)) = (members.iter().min(), members.iter().max()) else { return };
        let tries = if round > 0 { self.tries } else { 0 };
        let mut places = vec![last, first];
        places.extend(members);
        if round > 0 {
            places.extend((first..last).step_by(((last - first) / POSITIONS_MAX).max(4)));
        }
        for place in places {
            let Some(values) = paired(&self.best, rule, members, place) else { return };
            let Some(arranged) = self.arrange(&values, tries) else { continue };
            if arranged.cycles < self.cycles {
                return self.keep(values, arranged, rule);
            }
            // Retain fusions that already exist.
            if arranged.cycles == self.cycles && last - first < members.len() {
                self.best = values;
                self.arranged = Some(arranged);
                return;
            }
        }
    }
}
