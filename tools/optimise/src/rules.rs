//! The rules: what may be side by side to be fused, and what fewer instructions can say. None is trusted:
//! whatever comes of them is proved, window by window, on the bytes that are written.

use std::collections::HashSet;

use antares_program::Op;

use crate::{
    slots,
    values::{Unit, Val, Values},
};

/// What a rule does, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteRule {
    /// Both halves of a product side by side.
    WideMultiply,
    /// Quotient and remainder side by side.
    WideDivide,
    /// A sum, its carry, and a sum with that.
    AddThree,
    /// A sum and its carry.
    Carry,
    /// A difference and its borrow.
    Borrow,
    /// Both halves of a constant.
    Constant,
    /// One instruction of the B extension for several.
    BitManipulation,
    /// One load for the bytes that are put together to its result.
    Slot,
    /// A move, an extension or a load that changes nothing.
    Redundant,
    /// One instruction, or a value that is there, for several; found by trying.
    Enumerated,
}

/// A way to have less to pay for, to be tried.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) rule: RewriteRule,
    /// The node that it is about.
    pub(crate) at: usize,
    pub(crate) values: Values,
}

/// Rules that did not pay, by the nodes that they were tried at.
pub(crate) type Failed = HashSet<(RewriteRule, usize)>;

/// Ways to put instructions side by side that are not in a unit yet.
pub(crate) fn pairings(values: &Values) -> Vec<(RewriteRule, Vec<usize>)> {
    let mut found = Vec::new();
    for (at, node) in values.alive() {
        let partners = match node.op {
            Op::Mulh | Op::Mulhu | Op::Mulhsu => Some((RewriteRule::WideMultiply, Op::Mul)),
            Op::Div => Some((RewriteRule::WideDivide, Op::Rem)),
            Op::Divu => Some((RewriteRule::WideDivide, Op::Remu)),
            Op::Sub => Some((RewriteRule::Borrow, Op::Sltu)),
            _ => None,
        };
        if let Some((rule, op)) = partners {
            let may_swap = matches!(node.op, Op::Mulh | Op::Mulhu);
            let is_same =
                |other: &[Val; 2]| *other == node.srcs || may_swap && [other[1], other[0]] == node.srcs;
            let others = values.alive().filter(|(_, other)| other.op == op && is_same(&other.srcs));
            found.extend(others.map(|(other, _)| (rule, vec![at, other])));
        }
        if node.op == Op::Lui {
            let rests =
                values.alive().filter(|(_, rest)| rest.op == Op::Addiw && rest.uses(Val::of_node(at)));
            found.extend(rests.map(|(rest, _)| (RewriteRule::Constant, vec![at, rest])));
        }
        if node.op == Op::Sltu {
            let Some(sum) = node.srcs[0].node().filter(|sum| values.nodes[*sum].op == Op::Add) else {
                continue;
            };
            if !values.nodes[sum].uses(node.srcs[1]) {
                continue;
            }
            let carry = Val::of_node(at);
            let lasts = values.alive().filter(|(_, last)| last.op == Op::Add && last.uses(carry));
            found.extend(lasts.map(|(last, _)| (RewriteRule::AddThree, vec![sum, at, last])));
            found.push((RewriteRule::Carry, vec![sum, at]));
        }
    }
    found.sort_by_key(|(rule, members)| (*rule, members[0]));
    found
}

/// `values` with `members` side by side near `place`, if none of them is beside others already.
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
            let sum = &mut values.nodes[sum];
            if sum.srcs[0] != first {
                sum.srcs = [sum.srcs[1], sum.srcs[0]];
            }
        }
        [upper, rest] if rule == RewriteRule::Constant => {
            values.nodes[upper].partner = Some(rest);
            values.nodes[rest].partner = Some(upper);
        }
        _ => {}
    }
    if let [_, carry, last] = *members {
        let value = Val::of_node(carry);
        let node = &mut values.nodes[last];
        if node.srcs[0] != value {
            node.srcs = [node.srcs[1], node.srcs[0]];
        }
        node.partner = Some(carry);
        values.nodes[carry].partner = Some(last);
    }
    for &member in members {
        values.nodes[member].is_pinned = true;
    }
    values.units.push(Unit { members: members.to_vec(), place });
    Some(values)
}

/// Everything that fewer instructions can say, but for what is known to have `failed`.
pub(crate) fn shorter(values: &Values, has_b: bool, failed: &Failed) -> Vec<Proposal> {
    let mut found = slots::proposals(values, has_b, failed);
    for (at, node) in values.alive() {
        if values.units.iter().any(|unit| unit.members.contains(&at)) {
            continue;
        }
        let is_new = |rule: RewriteRule| !failed.contains(&(rule, at));
        if let Some(source) = unchanged(values, at).filter(|_| is_new(RewriteRule::Redundant)) {
            found.extend(without(values, at, source));
        }
        let may_say = has_b && is_new(RewriteRule::BitManipulation);
        let said = may_say.then(|| one_for_several(values, at)).flatten();
        if let Some((op, srcs, imm)) = said {
            let mut values = values.clone();
            let form = crate::encode::form(op);
            let Some(form) = form else { continue };
            values.nodes[at] = crate::values::Node { op, form, srcs, imm, ..*node };
            values.drop_dead();
            found.push(Proposal { rule: RewriteRule::BitManipulation, at, values });
        }
    }
    found
}

/// The value that the node at `at` only copies.
fn unchanged(values: &Values, at: usize) -> Option<Val> {
    let node = &values.nodes[at];
    let is_zero = |value: Val| value == Val::ZERO;
    match node.op {
        Op::Addi if node.imm == 0 => Some(node.srcs[0]),
        Op::Add if is_zero(node.srcs[0]) => Some(node.srcs[1]),
        Op::Add if is_zero(node.srcs[1]) => Some(node.srcs[0]),
        Op::Addiw if node.imm == 0 && is_word(values, node.srcs[0]) => Some(node.srcs[0]),
        Op::Andi if node.imm == 255 && values.made_by(node.srcs[0], Op::Lbu).is_some() => Some(node.srcs[0]),
        _ => None,
    }
}

/// Whether `value` is a 32-bit one, sign extended.
fn is_word(values: &Values, value: Val) -> bool {
    use Op::{Addiw, Addw, Lb, Lbu, Lh, Lhu, Lw, Mulw, Slliw, Sllw, Sraiw, Sraw, Srliw, Srlw, Subw};
    let Some(node) = value.node().map(|node| &values.nodes[node]) else { return value == Val::ZERO };
    matches!(
        node.op,
        Addw | Addiw | Subw | Sllw | Slliw | Srlw | Srliw | Sraw | Sraiw | Mulw | Lw | Lh | Lhu | Lb | Lbu
    )
}

/// The values without the copy at `at` of `source`.
pub(crate) fn without(values: &Values, at: usize, source: Val) -> Option<Proposal> {
    let copy = Val::of_node(at);
    // The register behind the window has to get it from somewhere.
    if values.is_out(copy) && (source.node().is_none() || values.is_out(source)) {
        return None;
    }
    let mut less = values.clone();
    less.replace(copy, source);
    less.nodes[at].is_alive = false;
    Some(Proposal { rule: RewriteRule::Redundant, at, values: less })
}

/// What one instruction of the B extension says instead of the node at `at` and those that it uses.
fn one_for_several(values: &Values, at: usize) -> Option<(Op, [Val; 2], i64)> {
    let node = &values.nodes[at];
    let shifted = |value: Val, op: Op| values.made_by(value, op).map(|shift| (shift.srcs[0], shift.imm));
    let [a, b] = node.srcs;
    let alone = |op: Op, value: Val| Some((op, [value, Val::ZERO], 0));
    match node.op {
        Op::Or | Op::Add | Op::Xor => {
            for (x, y) in [(a, b), (b, a)] {
                for (right, left, rotate, width) in
                    [(Op::Srli, Op::Slli, Op::Rori, 64), (Op::Srliw, Op::Slliw, Op::Roriw, 32)]
                {
                    if let (Some(low), Some(high)) = (shifted(x, right), shifted(y, left))
                        && low.0 == high.0
                        && low.1 + high.1 == width
                        && low.1 > 0
                        && high.1 > 0
                    {
                        return Some((rotate, [low.0, Val::ZERO], low.1));
                    }
                }
                if node.op == Op::Add
                    && let Some(said) = scaled(values, x, y)
                {
                    return Some(said);
                }
                if node.op == Op::Or
                    && let Some((inverted, -1)) = shifted(y, Op::Xori)
                {
                    return Some((Op::Orn, [x, inverted], 0));
                }
            }
            None
        }
        Op::And => [(a, b), (b, a)].into_iter().find_map(|(x, y)| match shifted(y, Op::Xori) {
            Some((inverted, -1)) => Some((Op::Andn, [x, inverted], 0)),
            _ => None,
        }),
        Op::Xori if node.imm == -1 => values.made_by(a, Op::Xor).map(|xor| (Op::Xnor, xor.srcs, 0)),
        Op::Srli => match (shifted(a, Op::Slli)?, node.imm) {
            ((x, 32), 32) => alone(Op::Adduw, x),
            ((x, 48), 48) => alone(Op::Zexth, x),
            ((x, 32), less @ 1..32) => Some((Op::Slliuw, [x, Val::ZERO], 32 - less)),
            _ => None,
        },
        Op::Srai => match (shifted(a, Op::Slli)?, node.imm) {
            ((x, 48), 48) => alone(Op::Sexth, x),
            ((x, 56), 56) => alone(Op::Sextb, x),
            _ => None,
        },
        Op::Andi if node.imm == 1 => shifted(a, Op::Srli).map(|(x, bit)| (Op::Bexti, [x, Val::ZERO], bit)),
        _ => None,
    }
}

/// The sum of `y` and of `x`, which is another value shifted or extended.
fn scaled(values: &Values, x: Val, y: Val) -> Option<(Op, [Val; 2], i64)> {
    if let Some(shift) = values.made_by(x, Op::Slli) {
        let op = match shift.imm {
            1 => Op::Sh1add,
            2 => Op::Sh2add,
            3 => Op::Sh3add,
            _ => return None,
        };
        return Some((op, [shift.srcs[0], y], 0));
    }
    if let Some(shift) = values.made_by(x, Op::Slliuw) {
        let op = match shift.imm {
            1 => Op::Sh1adduw,
            2 => Op::Sh2adduw,
            3 => Op::Sh3adduw,
            _ => return None,
        };
        return Some((op, [shift.srcs[0], y], 0));
    }
    let extended = values.made_by(x, Op::Adduw).filter(|node| node.srcs[1] == Val::ZERO)?;
    Some((Op::Adduw, [extended.srcs[0], y], 0))
}
