//! The question for the solver: can two windows differ in what anybody sees?
//!
//! Seen are the registers that are live behind the window, its stores (which ones, in which order, where, and
//! what), and which bytes are loaded between two of them. So faults are the same too, in order and kind: a
//! load fails if one of its bytes is beyond memory. What registers hold at a fault is seen by nobody: the
//! script has ended.
//!
//! That is asked as small claims, each about two values in terms of earlier ones, whatever these are. Where a
//! claim is proved, both values have one name from there on; so later claims are small too. Claims are
//! guesses until then: what is refused is not used.

use std::collections::{BTreeSet, HashMap, HashSet};

use antares_program::{Op, RegSet};

use crate::{
    claims::{Goal, Sight, question},
    encode::{Form, Line, form},
    graph::{Claim, Graph, Value, WrongGuesses},
    memory::{Span, Stores, width},
};

/// Instructions by which a value is told, one after another until that is enough.
const DEPTHS: [usize; 3] = [3, 6, 12];

/// Rounds of guesses.
const ROUNDS_MAX: usize = 60;

/// Guesses about one value.
const GUESSES_MAX: usize = 3;

/// What stands between questions of which each has to be answered `unsat`.
pub(crate) const BETWEEN: &str = "(reset)\n";

/// That two windows do the same.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    old: Vec<Line>,
    new: Vec<Line>,
    live_out: RegSet,
    whole: String,
}

/// What a solver says of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It holds.
    Unsat,
    /// It does not.
    Sat,
    /// Nobody knows.
    Unknown,
}

/// How long a solver may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SolverTime {
    /// For a guess.
    Short,
    /// For what has to be known.
    Long,
}

/// Asks questions.
pub(crate) type Ask<'a> = dyn FnMut(&[String], SolverTime) -> Result<Vec<Word>, String> + 'a;

/// One store.
struct Store {
    op: Op,
    base: Value,
    offset: i64,
    data: Value,
}

/// A window executed on values.
struct Side {
    registers: [Value; 32],
    stores: Vec<Store>,
    /// Bytes that are loaded and were not touched before: behind how many stores, from which value, how far.
    /// A load has no other effect than that it may fail, and that does not depend on those around it.
    loads: BTreeSet<(usize, Value, i64)>,
}

impl Statement {
    /// None if one of the windows has an instruction without a meaning here.
    pub(crate) fn new(old: Vec<Line>, new: Vec<Line>, live_out: RegSet) -> Option<Self> {
        let mut statement = Self { old, new, live_out, whole: String::new() };
        let (graph, goals) = statement.goals(None)?;
        let whole = question(&graph, &goals, None)?;
        statement.whole = whole;
        Some(statement)
    }

    /// All of it as one question; `unsat` is the answer if the windows are equal.
    #[must_use]
    pub fn whole(&self) -> &str {
        &self.whole
    }

    /// Values of both windows, and what has to be the same.
    fn goals(&self, wrong: Option<WrongGuesses>) -> Option<(Graph, Vec<Goal>)> {
        let mut graph = Graph::new(wrong);
        let old = execute(&self.old, &mut graph)?;
        graph.begin_second();
        let new = execute(&self.new, &mut graph)?;
        let nothing = Goal { values: [Value::ZERO; 2], sight: Sight::Nothing };
        let mut goals = Vec::new();
        for register in self.live_out.iter() {
            let values = [&old, &new].map(|side| side.registers[register.index()]);
            goals.extend((values[0] != values[1]).then_some(Goal { values, sight: Sight::Whole }));
        }
        if old.stores.len() != new.stores.len() || old.loads != new.loads {
            goals.push(nothing);
        }
        for (a, b) in old.stores.iter().zip(&new.stores) {
            if a.op != b.op {
                goals.push(nothing);
                continue;
            }
            if (a.base, a.offset) != (b.base, b.offset) {
                let sight = Sight::Address(a.offset, b.offset);
                goals.push(Goal { values: [a.base, b.base], sight });
            }
            if a.data != b.data {
                goals.push(Goal { values: [a.data, b.data], sight: Sight::Stored(a.op) });
            }
        }
        Some((graph, goals))
    }

    /// Questions that prove it together, each answered `unsat`; or what was said instead.
    pub(crate) fn prove(&self, ask: &mut Ask<'_>) -> Result<String, String> {
        let mut search = ProofSearch { wrong: HashMap::new(), depths: HashMap::new(), words: HashMap::new() };
        for _ in 0..ROUNDS_MAX {
            let (graph, goals) = self.goals(Some(search.wrong.clone())).ok_or("it cannot be asked")?;
            let claims = graph.claims.clone();
            let mut proof = Vec::new();
            let mut failed = Vec::new();
            let texts: Vec<Option<String>> = claims.iter().map(|claim| search.text(&graph, claim)).collect();
            search.ask(texts.iter().flatten(), SolverTime::Short, ask)?;
            for (claim, text) in claims.into_iter().zip(texts) {
                match text {
                    Some(text) if search.words.get(&text) == Some(&Word::Unsat) => proof.push(text),
                    _ => failed.push(claim),
                }
            }
            if failed.is_empty() {
                proof.extend(search.reach(&graph, goals, ask)?);
                // Windows whose values are the same ones have nothing to be proved.
                if proof.is_empty() {
                    proof.extend(question(&graph, &[], None));
                }
                return Ok(joined(proof));
            }
            let deeper: Vec<bool> =
                failed.iter().map(|claim| search.may_look_deeper(&graph, claim)).collect();
            for (claim, is_deeper) in failed.into_iter().zip(deeper) {
                search.give_up(claim, is_deeper);
            }
        }
        Err("unknown".to_owned())
    }
}

/// Questions one after another, each once.
fn joined(questions: Vec<String>) -> String {
    let mut seen = HashSet::new();
    let fresh: Vec<String> = questions.into_iter().filter(|text| seen.insert(text.clone())).collect();
    fresh.join(BETWEEN)
}

/// What was found out about two windows.
struct ProofSearch {
    wrong: WrongGuesses,
    /// Places in [`DEPTHS`], by the instruction that a claim is about.
    depths: HashMap<usize, usize>,
    words: HashMap<String, Word>,
}

impl ProofSearch {
    fn text(&self, graph: &Graph, claim: &Claim) -> Option<String> {
        let depth = self.depths.get(&claim.step).copied().unwrap_or(0);
        question(graph, &[goal(claim)], Some(*DEPTHS.get(depth)?))
    }

    /// Has those of `texts` answered that are not.
    fn ask<'a>(
        &mut self,
        texts: impl Iterator<Item = &'a String>,
        patience: SolverTime,
        ask: &mut Ask<'_>,
    ) -> Result<(), String> {
        let mut seen = HashSet::new();
        let is_known = |text: &String| match self.words.get(text) {
            None => false,
            Some(Word::Unknown) => patience == SolverTime::Short,
            Some(_) => true,
        };
        let fresh: Vec<String> =
            texts.filter(|text| !is_known(text) && seen.insert(*text)).cloned().collect();
        if !fresh.is_empty() {
            let words = ask(&fresh, patience)?;
            self.words.extend(fresh.into_iter().zip(words));
        }
        Ok(())
    }

    /// Whether more instructions say anything more of a claim.
    fn may_look_deeper(&self, graph: &Graph, claim: &Claim) -> bool {
        let depth = self.depths.get(&claim.step).copied().unwrap_or(0);
        let at = |depth: usize| question(graph, &[goal(claim)], DEPTHS.get(depth).copied());
        depth + 1 < DEPTHS.len() && at(depth) != at(depth + 1)
    }

    fn give_up(&mut self, claim: Claim, is_deeper: bool) {
        if is_deeper {
            *self.depths.entry(claim.step).or_default() += 1;
            return;
        }
        self.depths.remove(&claim.step);
        let wrong = self.wrong.entry(claim.step).or_default();
        *wrong += 1;
        if *wrong >= GUESSES_MAX {
            *wrong = usize::MAX / 2;
        }
    }

    /// Questions that prove `goals`.
    fn reach(&mut self, graph: &Graph, goals: Vec<Goal>, ask: &mut Ask<'_>) -> Result<Vec<String>, String> {
        let mut proof = Vec::new();
        let mut open = goals;
        for depth in DEPTHS.into_iter().map(Some).chain([None]) {
            let texts: Option<Vec<String>> =
                open.iter().map(|goal| question(graph, &[*goal], depth)).collect();
            let texts = texts.ok_or("it cannot be asked")?;
            let patience = if depth.is_some() { SolverTime::Short } else { SolverTime::Long };
            self.ask(texts.iter(), patience, ask)?;
            let mut left = Vec::new();
            for (goal, text) in open.into_iter().zip(texts) {
                match self.words.get(&text) {
                    Some(Word::Unsat) => proof.push(text),
                    // Nothing was left out, so they do differ.
                    Some(Word::Sat) if depth.is_none() => return Err("sat".to_owned()),
                    _ => left.push(goal),
                }
            }
            open = left;
        }
        if open.is_empty() { Ok(proof) } else { Err("unknown".to_owned()) }
    }
}

fn goal(claim: &Claim) -> Goal {
    Goal { values: [claim.known, claim.other], sight: Sight::Whole }
}

fn execute(lines: &[Line], graph: &mut Graph) -> Option<Side> {
    let registers = std::array::from_fn(Value::of_register);
    let mut side = Side { registers, stores: Vec::new(), loads: BTreeSet::new() };
    let mut stores = Stores::new();
    let mut touched = HashSet::new();
    for line in lines {
        let [a, b] = [line.rs1, line.rs2].map(|register| side.registers[usize::from(register)]);
        let Some(width) = width(line.op) else {
            let result = graph.compute(line, [a, b])?;
            side.write(line, result);
            continue;
        };
        let (root, offset) = graph.address(a, line.imm);
        let span = Span { root, offset, width };
        let fresh = (0..8).take(usize::try_from(width).ok()?).map(|at| (root, offset.wrapping_add(at)));
        let fresh: Vec<(Value, i64)> = fresh.filter(|place| touched.insert(*place)).collect();
        if matches!(form(line.op)?, Form::Store(_)) {
            side.stores.push(Store { op: line.op, base: root, offset, data: b });
            stores.push(span);
            continue;
        }
        side.loads.extend(fresh.into_iter().map(|(root, at)| (stores.len(), root, at)));
        // What was stored whole is loaded whole.
        let known = stores.source(&span).filter(|_| line.op == Op::Ld);
        let result = match known {
            Some(store) => side.stores[store].data,
            None => graph.load(line.op, &span, stores.version(&span)),
        };
        side.write(line, result);
    }
    Some(side)
}

impl Side {
    fn write(&mut self, line: &Line, value: Value) {
        if line.rd != 0 {
            self.registers[usize::from(line.rd)] = value;
        }
    }
}
