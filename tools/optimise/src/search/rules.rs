//! The rules: which instructions fuse if adjacent, and which are only moves.

use std::collections::HashSet;

use antares_program::Op;

use super::values::{Unit, Val, Values};

/// A change of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteRule {
    /// Both halves of a product, made adjacent.
    WideMultiply,
    /// Quotient and remainder, made adjacent.
    WideDivide,
    /// A sum, its carry, and a sum with the carry.
    AddThree,
    /// A sum and its carry.
    Carry,
    /// A difference and its borrow.
    Borrow,
    /// Both halves of a constant.
    Constant,
    /// Removes a move or an unused result.
    Move,
}

/// Groups of instructions that can be made adjacent and are not in a unit yet.
pub(crate) fn pairings(values: &Values) -> Vec<(RewriteRule, Vec<usize>)> {
    let mut found = Vec::new();
    for (at, node) in values.alive() {
        let partners = match node.line.op {
            Op::Mulh | Op::Mulhu | Op::Mulhsu => Some((RewriteRule::WideMultiply, Op::Mul)),
            Op::Div => Some((RewriteRule::WideDivide, Op::Rem)),
            Op::Divu => Some((RewriteRule::WideDivide, Op::Remu)),
            Op::Sub => Some((RewriteRule::Borrow, Op::Sltu)),
            _ => None,
        };
        if let Some((rule, op)) = partners {
            let may_swap = matches!(node.line.op, Op::Mulh | Op::Mulhu);
            let is_same =
                |other: &[Val; 2]| *other == node.srcs || may_swap && [other[1], other[0]] == node.srcs;
            let others = values.alive().filter(|(_, other)| other.line.op == op && is_same(&other.srcs));
            found.extend(others.map(|(other, _)| (rule, vec![at, other])));
        }
        if node.line.op == Op::Lui {
            let rests =
                values.alive().filter(|(_, rest)| rest.line.op == Op::Addiw && rest.uses(Val::of_node(at)));
            found.extend(rests.map(|(rest, _)| (RewriteRule::Constant, vec![at, rest])));
        }
        if node.line.op == Op::Sltu {
            let Some(sum) = node.srcs[0].node().filter(|sum| values.nodes[*sum].line.op == Op::Add) else {
                continue;
            };
            if !values.nodes[sum].uses(node.srcs[1]) {
                continue;
            }
            let carry = Val::of_node(at);
            let lasts = values.alive().filter(|(_, last)| last.line.op == Op::Add && last.uses(carry));
            found.extend(lasts.map(|(last, _)| (RewriteRule::AddThree, vec![sum, at, last])));
            found.push((RewriteRule::Carry, vec![sum, at]));
        }
    }
    found.sort_by_key(|(rule, members)| (*rule, members[0]));
    found
}

/// `values` with `members` adjacent near `place`; `None` if one of them is already in a unit.
pub(crate) fn paired(values: &Values, rule: RewriteRule, members: &[usize], place: usize) -> Option<Values> {
    let is_free = |member: &usize| {
        values.nodes[*member].is_alive && !values.units.iter().any(|unit| unit.members.contains(member))
    };
    if !members.iter().all(is_free) {
        return None;
    }
    let mut values = values.clone();
    match *members {
        [high, low] if rule == RewriteRule::WideMultiply => values.nodes[low].srcs = values.nodes[high].srcs,
        [sum, carry, ..] if matches!(rule, RewriteRule::Carry | RewriteRule::AddThree) => {
            let first = values.nodes[carry].srcs[1];
            values.nodes[sum].lead(first);
        }
        [upper, rest] if rule == RewriteRule::Constant => {
            values.nodes[upper].partner = Some(rest);
            values.nodes[rest].partner = Some(upper);
        }
        _ => {}
    }
    if let [_, carry, last] = *members {
        let value = Val::of_node(carry);
        values.nodes[last].lead(value);
        values.nodes[last].partner = Some(carry);
        values.nodes[carry].partner = Some(last);
    }
    for &member in members {
        values.nodes[member].is_pinned = true;
    }
    values.units.push(Unit { members: members.to_vec(), place });
    Some(values)
}

/// For each move that did not fail before: its index, and `values` without it.
pub(crate) fn without_moves(values: &Values, failed: &HashSet<usize>) -> Vec<(usize, Values)> {
    let is_free =
        |at: &usize| !failed.contains(at) && !values.units.iter().any(|unit| unit.members.contains(at));
    let moves =
        values.alive().filter_map(|(at, node)| Some((at, moved(node.line.op, node.srcs, node.line.imm)?)));
    moves
        .filter(|(at, _)| is_free(at))
        .filter_map(|(at, source)| Some((at, without(values, at, source)?)))
        .collect()
}

fn moved(op: Op, sources: [Val; 2], number: i64) -> Option<Val> {
    match (op, sources) {
        (Op::Addi, [source, _]) if number == 0 => Some(source),
        (Op::Add, [Val::ZERO, source] | [source, Val::ZERO]) => Some(source),
        _ => None,
    }
}

/// The values without the copy at `at` of `source`.
fn without(values: &Values, at: usize, source: Val) -> Option<Values> {
    let copy = Val::of_node(at);
    // The register after the window needs a source for its value.
    if values.is_out(copy) && (source.node().is_none() || values.is_out(source)) {
        return None;
    }
    let mut less = values.clone();
    less.replace(copy, source);
    less.nodes[at].is_alive = false;
    Some(less)
}
