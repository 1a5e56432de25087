//! Loads and stores of one place: bytes that are put together become one load, and what is loaded twice or
//! was just stored is loaded once or not at all.

use antares_program::Op;

use crate::{
    encode::{Form, form},
    memory::{Span, Stores, width},
    rules::{Failed, Proposal, RewriteRule},
    values::{Node, Val, Values},
};

/// What one byte of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Zero,
    /// A byte of memory: from which value, how far, and behind how many stores.
    Byte(Val, i64, usize),
    /// Copies of the upper bit of that byte.
    Sign(Val, i64, usize),
    Any,
}

type Parts = [Part; 8];

/// A load, as the stores before it leave it.
#[derive(Clone, Copy, Debug)]
struct Load {
    span: Span<Val>,
    version: usize,
    /// How many stores are before it.
    epoch: usize,
    /// The value that was stored there last, if it is known.
    stored: Option<Val>,
}

/// A value without the numbers that are added to it, and their sum.
fn address(values: &Values, base: Val, offset: i64) -> (Val, i64) {
    let (mut base, mut offset) = (base, offset);
    while let Some(node) = values.made_by(base, Op::Addi) {
        offset = offset.wrapping_add(node.imm);
        base = node.srcs[0];
    }
    (base, offset)
}

/// The loads of a window, by node.
fn loads(values: &Values) -> Vec<Option<Load>> {
    let mut found = vec![None; values.nodes.len()];
    let (mut stores, mut data) = (Stores::new(), Vec::new());
    for (at, node) in values.alive() {
        let Some(width) = width(node.op) else { continue };
        let (root, offset) = address(values, node.srcs[0], node.imm);
        let span = Span { root, offset, width };
        if matches!(node.form, Form::Store(_)) {
            stores.push(span);
            data.push(node.srcs[1]);
            continue;
        }
        let stored = stores.source(&span).filter(|_| node.op == Op::Ld).map(|store| data[store]);
        found[at] = Some(Load { span, version: stores.version(&span), epoch: stores.len(), stored });
    }
    found
}

/// What one load or none says instead of several.
pub(crate) fn proposals(values: &Values, has_b: bool, failed: &Failed) -> Vec<Proposal> {
    let loads = loads(values);
    let mut found = again(values, &loads, failed);
    let mut parts: Vec<Parts> = Vec::with_capacity(values.nodes.len());
    for (at, node) in values.nodes.iter().enumerate() {
        let made = if node.is_alive { parts_of(node, loads[at], &parts) } else { [Part::Any; 8] };
        parts.push(made);
        let is_free = !failed.contains(&(RewriteRule::Slot, at))
            && !values.units.iter().any(|unit| unit.members.contains(&at));
        if node.is_alive && is_free && matches!(node.op, Op::Or | Op::Add | Op::Xor | Op::Addw) {
            found.extend(whole(values, &loads, at, &made, has_b));
        }
    }
    found
}

/// Loads whose result is known.
fn again(values: &Values, loads: &[Option<Load>], failed: &Failed) -> Vec<Proposal> {
    let mut found = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        let Some(load) = load.filter(|_| !failed.contains(&(RewriteRule::Redundant, at))) else { continue };
        let is_same = |other: usize| {
            let earlier = loads[other].filter(|earlier| earlier.version == load.version)?;
            (earlier.span == load.span && values.nodes[other].op == values.nodes[at].op)
                .then(|| Val::of_node(other))
        };
        let Some(known) = load.stored.or_else(|| (0..at).rev().find_map(is_same)) else { continue };
        let own = Val::of_node(at);
        // What is behind the window in two registers is a move.
        if values.is_out(own) && (values.is_out(known) || known.node().is_none()) {
            continue;
        }
        let mut values = values.clone();
        values.replace(own, known);
        values.nodes[at].is_alive = false;
        found.push(Proposal { rule: RewriteRule::Redundant, at, values });
    }
    found
}

fn parts_of_value(value: Val, parts: &[Parts]) -> Parts {
    if value == Val::ZERO {
        return [Part::Zero; 8];
    }
    value.node().and_then(|node| parts.get(node)).copied().unwrap_or([Part::Any; 8])
}

/// What stands above a byte when its sign is extended.
fn sign(part: Part) -> Part {
    match part {
        Part::Byte(root, offset, version) => Part::Sign(root, offset, version),
        Part::Any => Part::Any,
        same => same,
    }
}

fn extended(parts: Parts, width: usize, is_signed: bool) -> Parts {
    let above = if is_signed { sign(parts[width - 1]) } else { Part::Zero };
    std::array::from_fn(|at| if at < width { parts[at] } else { above })
}

fn shifted(parts: Parts, bits: i64) -> Parts {
    let Ok(bytes) = usize::try_from(bits / 8) else { return [Part::Any; 8] };
    if bits % 8 != 0 {
        return [Part::Any; 8];
    }
    std::array::from_fn(|at| at.checked_sub(bytes).map_or(Part::Zero, |from| parts[from]))
}

fn both(a: Parts, b: Parts, op: Op) -> Parts {
    let is_apart = a.iter().zip(&b).all(|(a, b)| *a == Part::Zero || *b == Part::Zero);
    if op != Op::Or && !is_apart {
        return [Part::Any; 8];
    }
    std::array::from_fn(|at| match (a[at], b[at]) {
        (Part::Zero, other) | (other, Part::Zero) => other,
        (a, b) if a == b => a,
        _ => Part::Any,
    })
}

fn parts_of(node: &Node, load: Option<Load>, parts: &[Parts]) -> Parts {
    let [a, b] = node.srcs.map(|value| parts_of_value(value, parts));
    if let Some(Load { span, version, .. }) = load {
        let byte = |at: i64| Part::Byte(span.root, span.offset.wrapping_add(at), version);
        let width = usize::try_from(span.width).unwrap_or(8);
        let bytes: Parts = std::array::from_fn(|at| byte(i64::try_from(at).unwrap_or(0)));
        return extended(bytes, width, matches!(node.op, Op::Lb | Op::Lh | Op::Lw));
    }
    match node.op {
        Op::Or | Op::Add | Op::Xor => both(a, b, node.op),
        Op::Addw => extended(both(a, b, Op::Add), 4, true),
        Op::Slli => shifted(a, node.imm),
        Op::Slliw => extended(shifted(a, node.imm), 4, true),
        Op::Slliuw => shifted(extended(a, 4, false), node.imm),
        Op::Srli if node.imm % 8 == 0 => {
            let bytes = usize::try_from(node.imm / 8).unwrap_or(8);
            std::array::from_fn(|at| a.get(at + bytes).copied().unwrap_or(Part::Zero))
        }
        Op::Addiw if node.imm == 0 => extended(a, 4, true),
        Op::Addi if node.imm == 0 => a,
        Op::Adduw => both(extended(a, 4, false), b, Op::Add),
        Op::Andi if node.imm == 255 => extended(a, 1, false),
        Op::Zexth => extended(a, 2, false),
        Op::Sextb => extended(a, 1, true),
        Op::Sexth => extended(a, 2, true),
        _ => [Part::Any; 8],
    }
}

/// How the bytes of a value lie in memory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    root: Val,
    /// Of the byte with the lowest address.
    offset: i64,
    version: usize,
    width: usize,
    is_signed: bool,
    is_turned: bool,
}

/// Which bytes of memory `parts` are, if they are some in a row.
fn slot(parts: &Parts) -> Option<Slot> {
    let [Part::Byte(root, first, version), Part::Byte(_, second, _), ..] = *parts else { return None };
    let step = second.wrapping_sub(first);
    if step != 1 && step != -1 {
        return None;
    }
    let place = |at: usize| i64::try_from(at).ok().map(|at| first.wrapping_add(at * step));
    let is_next =
        |at: &usize| place(*at).is_some_and(|offset| parts[*at] == Part::Byte(root, offset, version));
    let width = (0..8).take_while(is_next).count();
    let above = parts.get(width).copied();
    let is_signed = above.is_some_and(|above| above == sign(parts[width - 1]));
    let is_plain =
        parts[width..].iter().all(|part| Some(*part) == above && (is_signed || *part == Part::Zero));
    if ![2, 4, 8].contains(&width) || !is_plain {
        return None;
    }
    let last = place(width - 1)?;
    Some(Slot {
        root,
        offset: if step == 1 { first } else { last },
        version,
        width,
        is_signed,
        is_turned: step == -1,
    })
}

/// One load for the value of the node at `at`, which is put together of `parts`.
fn whole(values: &Values, loads: &[Option<Load>], at: usize, parts: &Parts, has_b: bool) -> Option<Proposal> {
    let slot = slot(parts)?;
    if slot.is_turned && !has_b {
        return None;
    }
    let is_at = |load: &Load, offset: i64| {
        load.span.root == slot.root && load.span.offset == offset && load.version == slot.version
    };
    let first = loads.iter().position(|load| load.is_some_and(|load| is_at(&load, slot.offset)))?;
    let mut fresh = values.clone();
    let (op, behind) = match (slot.width, slot.is_signed, slot.is_turned) {
        (8, ..) => (Op::Ld, None),
        (4, is_signed, true) => (Op::Lw, Some((if is_signed { Op::Srai } else { Op::Srli }, 32))),
        (_, is_signed, true) => (Op::Lhu, Some((if is_signed { Op::Srai } else { Op::Srli }, 48))),
        (4, true, false) => (Op::Lw, None),
        (4, false, false) => (Op::Lwu, None),
        (_, true, false) => (Op::Lh, None),
        (_, false, false) => (Op::Lhu, None),
    };
    let loaded = Val::of_node(first);
    let mut turned = None;
    match (slot.is_turned, behind) {
        (false, _) => {
            fresh.replace(Val::of_node(at), loaded);
            fresh.nodes[at].is_alive = false;
        }
        (true, None) => say(&mut fresh, at, Op::Rev8, loaded, 0)?,
        (true, Some((shift, bits))) => {
            let spare = spare(values, at)?;
            turned = Some(spare);
            say(&mut fresh, spare, Op::Rev8, loaded, 0)?;
            say(&mut fresh, at, shift, Val::of_node(spare), bits)?;
        }
    }
    fresh.drop_dead();
    let is_kept = |user: usize| user != at && Some(user) != turned && fresh.nodes[user].is_alive;
    if values.is_out(loaded) || values.alive().any(|(user, node)| is_kept(user) && node.uses(loaded)) {
        return None;
    }
    fresh.nodes[first].op = op;
    fresh.nodes[first].form = form(op)?;
    let slot_width = i64::try_from(slot.width).ok()?;
    for (other, load) in loads.iter().enumerate() {
        let Some(load) = load.filter(|load| other != first && load.version == slot.version) else { continue };
        let distance = load.span.offset.wrapping_sub(slot.offset);
        let width = i64::try_from(load.span.width).ok()?;
        let is_inside = load.span.root == slot.root && distance >= 0 && distance + width <= slot_width;
        if is_inside && !fresh.is_used(Val::of_node(other)) {
            // Where another store is between them, a fault would move.
            if loads[first].is_none_or(|first| first.epoch != load.epoch) {
                return None;
            }
            fresh.nodes[other].is_alive = false;
        }
    }
    Some(Proposal { rule: RewriteRule::Slot, at, values: fresh })
}

/// Has the node at `at` compute something of `source` alone.
fn say(values: &mut Values, at: usize, op: Op, source: Val, imm: i64) -> Option<()> {
    let node = values.nodes[at];
    let srcs = [source, Val::ZERO];
    values.nodes[at] = Node { op, form: form(op)?, srcs, imm, is_pinned: false, ..node };
    Some(())
}

/// A node that only the one at `at` uses.
fn spare(values: &Values, at: usize) -> Option<usize> {
    let is_free = |node: &usize| {
        let value = Val::of_node(*node);
        let is_other = values.alive().any(|(user, other)| user != at && other.uses(value));
        !is_other && !values.is_out(value) && !values.nodes[*node].form.is_memory()
    };
    values.nodes[at].srcs.iter().filter_map(|source| source.node()).find(is_free)
}
