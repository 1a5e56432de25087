//! What a single instruction says as well as several do, whatever the rule: all that could are tried on
//! numbers, and what agrees is put to the solver like everything else.

use std::collections::{BTreeSet, HashMap};

use antares_program::Op;

use crate::{
    encode::{Form, Line, form},
    rules::{Failed, Proposal, RewriteRule, without},
    simulate::Samples,
    values::{Node, Val, Values},
};

/// How far below a result its values may be.
const DEPTH: usize = 3;

/// Rounds of numbers that a guess has to agree with.
const ROUNDS: usize = 8;

/// Values below a result, at most.
const LEAVES_MAX: usize = 10;

/// Masks that are tried beside those that the code has.
const MASKS: [i64; 11] = [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047];

const TWO: [Op; 15] = [
    Op::Add,
    Op::Sub,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Sll,
    Op::Srl,
    Op::Sra,
    Op::Slt,
    Op::Sltu,
    Op::Addw,
    Op::Subw,
    Op::Sllw,
    Op::Srlw,
    Op::Sraw,
];

const TWO_OF_B: [Op; 18] = [
    Op::Andn,
    Op::Orn,
    Op::Xnor,
    Op::Rol,
    Op::Ror,
    Op::Rolw,
    Op::Rorw,
    Op::Min,
    Op::Minu,
    Op::Max,
    Op::Maxu,
    Op::Sh1add,
    Op::Sh2add,
    Op::Sh3add,
    Op::Adduw,
    Op::Sh1adduw,
    Op::Sh2adduw,
    Op::Sh3adduw,
];

const SHIFTS: [Op; 6] = [Op::Slli, Op::Srli, Op::Srai, Op::Slliw, Op::Srliw, Op::Sraiw];

const SHIFTS_OF_B: [Op; 4] = [Op::Rori, Op::Roriw, Op::Slliuw, Op::Bexti];

const ONE_OF_B: [Op; 4] = [Op::Sextb, Op::Sexth, Op::Zexth, Op::Rev8];

/// Everything that a value that is there, or one instruction, says instead of several.
pub(crate) fn proposals(values: &Values, has_b: bool, failed: &Failed) -> Vec<Proposal> {
    let rounds: Vec<Vec<Samples>> = (0..ROUNDS).map(|round| samples(values, round)).collect();
    let samples = &rounds[0];
    let is_same =
        |a: Val, b: Val| rounds.iter().all(|samples| samples[a.0 as usize] == samples[b.0 as usize]);
    let mut known: HashMap<&Samples, Val> = HashMap::new();
    let mut found = Vec::new();
    let users = users(values);
    for (at, node) in values.alive() {
        let own = Val::of_node(at);
        let is_taken = values.units.iter().any(|unit| unit.members.contains(&at));
        let is_plain = !node.form.is_memory() && !matches!(node.form, Form::Upper(_)) && node.rd != 0;
        let result = &samples[own.0 as usize];
        if is_plain && !is_taken && !failed.contains(&(RewriteRule::Enumerated, at)) && result.is_telling() {
            let same = known.get(result).filter(|same| is_same(**same, own));
            let same = same.and_then(|same| without(values, at, *same));
            let shorter = || {
                let search = Search { values, rounds: &rounds, users: &users, has_b };
                search.one_for(at, node).map(|line| said(values, at, &line))
            };
            if let Some(proposal) = same.or_else(shorter) {
                found.push(Proposal { rule: RewriteRule::Enumerated, ..proposal });
            }
        }
        known.entry(result).or_insert(own);
    }
    found
}

/// An instruction on values.
struct Said {
    op: Op,
    srcs: [Val; 2],
    imm: i64,
}

fn said(values: &Values, at: usize, line: &Said) -> Proposal {
    let mut values = values.clone();
    if let Some(form) = form(line.op) {
        let old = values.nodes[at];
        values.nodes[at] = Node { op: line.op, form, srcs: line.srcs, imm: line.imm, ..old };
        values.drop_dead();
    }
    Proposal { rule: RewriteRule::Enumerated, at, values }
}

/// How many use each value.
fn users(values: &Values) -> Vec<usize> {
    let mut users = vec![0; values.nodes.len() + 32];
    let used = values.alive().flat_map(|(_, node)| node.srcs).chain(values.outs.iter().map(|out| out.1));
    used.for_each(|value| users[value.0 as usize] += 1);
    users
}

/// What each value is in the tries. Of loads nothing is known.
fn samples(values: &Values, round: usize) -> Vec<Samples> {
    let of = |value: usize| if round == 0 { Samples::of(value) } else { Samples::related(value, round) };
    let mut samples: Vec<Samples> =
        (0..32).map(|register| if register == 0 { Samples::zero() } else { of(register) }).collect();
    for (at, node) in values.nodes.iter().enumerate() {
        let line = Line { op: node.op, rd: 0, rs1: 0, rs2: 0, imm: node.imm };
        let [a, b] = node.srcs.map(|value| &samples[value.0 as usize]);
        let is_known = node.is_alive && !node.form.is_memory();
        let result = is_known.then(|| Samples::result(&line, a, b)).flatten();
        samples.push(result.unwrap_or_else(|| of(at + 32)));
    }
    samples
}

struct Search<'a> {
    values: &'a Values,
    rounds: &'a [Vec<Samples>],
    users: &'a [usize],
    has_b: bool,
}

impl Search<'_> {
    /// One instruction for the result of `node` and for something below it that nothing else uses.
    fn one_for(&self, at: usize, node: &Node) -> Option<Said> {
        let goes = |value: &Val| {
            let below = value.node().map(|node| &self.values.nodes[node]);
            below.is_some_and(|below| !below.form.is_memory()) && self.users[value.0 as usize] == 1
        };
        let below: Vec<Val> = node.srcs.into_iter().filter(goes).collect();
        if below.is_empty() {
            return None;
        }
        let (leaves, numbers) = self.leaves(at);
        // With all of what only this uses, nothing would be gained.
        let gains = |said: &Said| below.iter().any(|value| !said.srcs.contains(value));
        let agrees = |said: &Said| {
            let line = Line { op: said.op, rd: 0, rs1: 0, rs2: 0, imm: said.imm };
            let is_in = |samples: &Vec<Samples>| {
                let [a, b] = said.srcs.map(|value| &samples[value.0 as usize]);
                samples[at + 32].is_of(&line, a, b)
            };
            gains(said) && self.rounds.iter().all(is_in)
        };
        self.candidates(at, &leaves, &numbers).find(agrees)
    }

    /// Values at most [`DEPTH`] below a node, and the numbers that stand there.
    fn leaves(&self, at: usize) -> (Vec<Val>, BTreeSet<i64>) {
        let (mut leaves, mut numbers) = (Vec::new(), BTreeSet::from(MASKS));
        let mut level = vec![at];
        for _ in 0..DEPTH {
            let mut next = Vec::new();
            for node in level {
                let node = &self.values.nodes[node];
                numbers.insert(node.imm);
                for value in node.srcs {
                    if value != Val::ZERO && !leaves.contains(&value) && leaves.len() < LEAVES_MAX {
                        leaves.push(value);
                        let below = |node: &usize| !self.values.nodes[*node].form.is_memory();
                        next.extend(value.node().filter(below));
                    }
                }
            }
            level = next;
        }
        (leaves, numbers)
    }

    fn candidates<'b>(
        &self,
        at: usize,
        leaves: &'b [Val],
        numbers: &'b BTreeSet<i64>,
    ) -> impl Iterator<Item = Said> + use<'b, '_> {
        let of_b = |ops: &'static [Op]| if self.has_b { ops } else { &[] };
        let twos = TWO.iter().chain(of_b(&TWO_OF_B));
        let shifts = SHIFTS.iter().chain(of_b(&SHIFTS_OF_B));
        let pairs = leaves.iter().flat_map(move |a| leaves.iter().map(move |b| [*a, *b]));
        let two = pairs.flat_map(move |srcs| twos.clone().map(move |op| Said { op: *op, srcs, imm: 0 }));
        let ones = leaves.iter().flat_map(move |value| {
            of_b(&ONE_OF_B).iter().map(|op| Said { op: *op, srcs: [*value, Val::ZERO], imm: 0 })
        });
        let shifted = leaves.iter().flat_map(move |value| {
            let srcs = [*value, Val::ZERO];
            let is_narrow = |op: Op| matches!(op, Op::Slliw | Op::Srliw | Op::Sraiw | Op::Roriw);
            shifts.clone().flat_map(move |op| {
                (1..if is_narrow(*op) { 32 } else { 64 }).map(move |imm| Said { op: *op, srcs, imm })
            })
        });
        let samples = &self.rounds[0];
        let result = samples[at + 32].0[0];
        let masked = leaves.iter().flat_map(move |value| {
            let srcs = [*value, Val::ZERO];
            let sum = result.wrapping_sub(samples[value.0 as usize].0[0]).cast_signed();
            let sums = [Op::Addi, Op::Addiw].map(|op| Said { op, srcs, imm: sum });
            let fits = |imm: &&i64| (-2048..2048).contains(*imm);
            let others = numbers.iter().filter(fits).flat_map(move |imm| {
                [Op::Andi, Op::Ori, Op::Xori, Op::Sltiu, Op::Slti].map(|op| Said { op, srcs, imm: *imm })
            });
            sums.into_iter().filter(move |_| (-2048..2048).contains(&sum)).chain(others)
        });
        two.chain(ones).chain(masked).chain(shifted)
    }
}
