//! Turns values back into a window: an order, a register for each value, and bytes of the same length.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    cost::Fusions,
    encode::{Line, short},
    values::{Val, Values},
};
use crate::checker::state::{Shape, is_commutative};

/// Registers available in addition to a value's own, those of short instructions first. Excludes those of the
/// stack, the thread and the globals.
const FREE: [u8; 28] = [
    15, 14, 13, 12, 11, 10, 9, 8, 16, 17, 5, 6, 7, 28, 29, 30, 31, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 1,
];

/// An equivalent window.
#[derive(Clone, Debug)]
pub(crate) struct Arranged {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cycles: u64,
}

/// Encodes `values` in `length` bytes.
pub(crate) fn arrange(values: &Values, length: usize, fusions: Fusions, tries: u32) -> Option<Arranged> {
    let order = order(values)?;
    let mut best: Option<Arranged> = None;
    let tastes = [Taste::Own, Taste::Operand, Taste::Lonely];
    for taste in tastes.into_iter().chain((0..tries).map(Taste::Chance)) {
        let Some(registers) = registers(values, &order, taste) else { continue };
        let line = |&at: &usize| {
            let node = &values.nodes[at];
            let [rs1, rs2] = node.srcs.map(|value| match value.node() {
                Some(node) => registers[node],
                None => value.register(),
            });
            (Line { rd: registers[at], rs1, rs2, ..node.line }, node.is_pinned)
        };
        match lay_out(order.iter().map(line).collect(), length, fusions) {
            Some(found) if best.as_ref().is_none_or(|best| found.cycles < best.cycles) => best = Some(found),
            _ => {}
        }
    }
    best
}

/// Preferred register for a result if several are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taste {
    /// The original one.
    Own,
    /// An operand's, which allows short forms.
    Operand,
    /// The original one, otherwise one that the fewest others had.
    Lonely,
    /// A random one, with this seed.
    Chance(u32),
}

/// Orders nodes so that each follows its operands, memory accesses retain their order, and units are
/// adjacent.
fn order(values: &Values) -> Option<Vec<usize>> {
    let count = values.nodes.len();
    // Each node belongs to a cluster, named by its first member.
    let mut cluster: Vec<usize> = (0..count).collect();
    let mut place: Vec<usize> = (0..count).map(|at| 2 * at + 1).collect();
    let mut members: Vec<Vec<usize>> = (0..count).map(|at| vec![at]).collect();
    for unit in &values.units {
        let head = unit.members[0];
        unit.members.iter().for_each(|member| cluster[*member] = head);
        place[head] = 2 * unit.place + 1;
        members[head].clone_from(&unit.members);
    }
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waits = vec![0_usize; count];
    let mut edge = |from: usize, to: usize| {
        let (from, to) = (cluster[from], cluster[to]);
        if from != to {
            behind[from].push(to);
            waits[to] += 1;
        }
    };
    // Loads between two stores may be reordered.
    let (mut store, mut loads) = (None, Vec::new());
    for (at, node) in values.alive() {
        node.srcs.iter().filter_map(|source| source.node()).for_each(|source| edge(source, at));
        match node.shape {
            Shape::Load => {
                store.into_iter().for_each(|last| edge(last, at));
                loads.push(at);
            }
            Shape::Store => {
                store.replace(at).into_iter().for_each(|last| edge(last, at));
                loads.drain(..).for_each(|load| edge(load, at));
            }
            _ => {}
        }
    }
    // Use a register's initial value before its final value replaces it.
    for &(register, value) in &values.outs {
        let Some(last) = value.node() else { continue };
        let old = Val(u32::from(register));
        values.alive().filter(|(at, node)| node.uses(old) && *at != last).for_each(|(at, _)| edge(at, last));
    }
    let heads = values.alive().map(|(at, _)| at).filter(|at| cluster[*at] == *at);
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> =
        heads.filter(|at| waits[*at] == 0).map(|at| Reverse((place[at], at))).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse((_, head))) = ready.pop() {
        order.extend(&members[head]);
        for &next in &behind[head] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(Reverse((place[next], next)));
            }
        }
    }
    (order.len() == values.alive().count()).then_some(order)
}

/// Occupied registers by step, in ranges `[from, to)`.
struct Taken([Vec<(usize, usize)>; 32]);

impl Taken {
    fn is_free(&self, register: u8, span: (usize, usize)) -> bool {
        self.0[usize::from(register)].iter().all(|other| other.1 <= span.0 || span.1 <= other.0)
    }

    fn conflicts(&self, register: u8, span: (usize, usize)) -> usize {
        self.0[usize::from(register)].iter().filter(|other| span.0 < other.1 && other.0 < span.1).count()
    }

    fn take(&mut self, register: u8, span: (usize, usize)) {
        self.0[usize::from(register)].push(span);
    }
}

/// A deterministic pseudo-random number.
fn chance(seed: u32, at: usize) -> u32 {
    let mixed = (u64::from(seed) << 32 | at as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 33) as u32
}

/// Preferred registers for the result of the node at `at`.
fn wishes(values: &Values, at: usize, chosen: &[u8], taste: Taste) -> Vec<u8> {
    let node = &values.nodes[at];
    // The stack pointer remains in its register, which short forms support.
    if !FREE.contains(&node.line.rd) {
        return vec![node.line.rd];
    }
    let of_partner =
        |partner: usize| if chosen[partner] == 0 { values.nodes[partner].line.rd } else { chosen[partner] };
    let mut wishes: Vec<u8> = node.partner.map(of_partner).into_iter().collect();
    let operands = node.srcs.map(|source| source.node().map_or(source.register(), |source| chosen[source]));
    let count = if is_commutative(node.line.op) { 2 } else { 1 };
    let prefers_operands = match taste {
        Taste::Operand => true,
        Taste::Chance(seed) => chance(seed, at).is_multiple_of(3),
        Taste::Own | Taste::Lonely => false,
    };
    let own = wishes.len();
    wishes.push(node.line.rd);
    wishes.extend(&operands[..count]);
    if prefers_operands {
        wishes[own..].rotate_left(1);
    }
    if let Taste::Chance(seed) = taste {
        let from = chance(seed, at + values.nodes.len()) as usize % FREE.len();
        let turned: Vec<u8> = FREE.iter().cycle().skip(from).take(FREE.len()).copied().collect();
        wishes.extend(turned.iter().take(8).filter(|register| (8..16).contains(*register)));
        wishes.extend(turned);
    }
    wishes
}

/// Assigns a register to each node's result.
fn registers(values: &Values, order: &[usize], taste: Taste) -> Option<Vec<u8>> {
    let end = order.len() + 1;
    let mut start_of = vec![0; values.nodes.len()];
    let mut last_use = vec![0; values.nodes.len() + 32];
    for (step, &at) in order.iter().enumerate() {
        start_of[at] = step + 1;
        values.nodes[at].srcs.iter().for_each(|source| last_use[source.0 as usize] = step + 1);
    }
    values.outs.iter().for_each(|out| last_use[out.1.0 as usize] = end);
    let mut taken = Taken(std::array::from_fn(|_| Vec::new()));
    for register in 1..32_u8 {
        if last_use[usize::from(register)] > 0 {
            taken.take(register, (0, last_use[usize::from(register)]));
        }
    }
    let mut chosen = vec![0_u8; values.nodes.len()];
    let span = |at: usize| {
        let last = last_use[Val::of_node(at).0 as usize];
        (start_of[at], last.max(start_of[at] + 1))
    };
    for &(register, value) in &values.outs {
        let Some(node) = value.node() else {
            if value.0 != u32::from(register) {
                return None;
            }
            continue;
        };
        if chosen[node] != 0 || !taken.is_free(register, span(node)) {
            return None;
        }
        taken.take(register, span(node));
        chosen[node] = register;
    }
    let mut wanted = Taken(std::array::from_fn(|_| Vec::new()));
    if taste == Taste::Lonely {
        order.iter().for_each(|at| wanted.take(values.nodes[*at].line.rd, span(*at)));
    }
    for &at in order {
        let node = &values.nodes[at];
        if chosen[at] != 0 || node.line.rd == 0 || node.shape == Shape::Store {
            continue;
        }
        let mut wishes = wishes(values, at, &chosen, taste);
        if taste == Taste::Lonely {
            let mut others = FREE;
            others.sort_by_cached_key(|register| wanted.conflicts(*register, span(at)));
            wishes.extend(others);
        }
        let may_have = |register: &u8| FREE.contains(register) || *register == node.line.rd;
        let register = wishes
            .into_iter()
            .chain(FREE)
            .find(|register| may_have(register) && taken.is_free(*register, span(at)))?;
        taken.take(register, span(at));
        chosen[at] = register;
    }
    Some(chosen)
}

/// Encodes `lines`, with short forms where needed and minimal padding.
fn lay_out(mut lines: Vec<(Line, bool)>, length: usize, fusions: Fusions) -> Option<Arranged> {
    let mut shorts = Vec::with_capacity(lines.len());
    for (line, is_pinned) in &mut lines {
        let swapped = Line { rs1: line.rs2, rs2: line.rs1, ..*line };
        let found = short(*line);
        if found.is_none() && !*is_pinned && is_commutative(line.op) && short(swapped).is_some() {
            *line = swapped;
        }
        shorts.push(short(*line));
    }
    let least: usize = shorts.iter().map(|short| if short.is_some() { 2 } else { 4 }).sum();
    let mut spare = length.checked_sub(least)?;
    for short in &mut shorts {
        if spare >= 2 && short.is_some() {
            *short = None;
            spare -= 2;
        }
    }
    let mut bytes = Vec::with_capacity(length);
    for ((line, _), short) in lines.iter().zip(&shorts) {
        match short {
            Some(word) => bytes.extend(word.to_le_bytes()),
            None => bytes.extend(line.wide().to_le_bytes()),
        }
    }
    let mut lines: Vec<Line> = lines.into_iter().map(|line| line.0).collect();
    let short_nop = (spare % 4 > 0).then_some([1, 0].as_slice());
    for nop in std::iter::repeat_n([0x13, 0, 0, 0].as_slice(), spare / 4).chain(short_nop) {
        lines.push(Line::NOP);
        bytes.extend(nop);
    }
    Some(Arranged { bytes, cycles: fusions.cycles(&lines) })
}
