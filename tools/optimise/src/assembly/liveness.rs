//! Which registers are used behind each line, by the calling convention where code goes elsewhere.

use std::collections::HashMap;

use antares_program::{Reg, RegSet};

use crate::assembly::statement::Said;

fn range(from: u8, to: u8) -> RegSet {
    (from..=to).fold(RegSet::EMPTY, |set, register| set.with(Reg(register)))
}

/// What a function keeps for its caller: stack, globals, thread, `s0` to `s11`.
fn kept() -> RegSet {
    range(2, 4).or(range(8, 9)).or(range(18, 27))
}

/// What arguments may be in; nested functions get one more in `t2`.
fn arguments() -> RegSet {
    range(10, 17).with(Reg(7))
}

/// What a call may leave changed.
fn lost() -> RegSet {
    RegSet::ALL.minus(kept())
}

/// What is live before each of `lines`, and behind the last one.
pub(super) fn before(lines: &[Said]) -> Vec<RegSet> {
    let mut places: HashMap<&str, Option<usize>> = HashMap::new();
    for (at, said) in lines.iter().enumerate() {
        let Said::Label(name) = said else { continue };
        // A name that is there twice is one of those that only tell which way.
        places.entry(name).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let mut live = vec![RegSet::EMPTY; lines.len() + 1];
    live[lines.len()] = RegSet::ALL;
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for (at, said) in lines.iter().enumerate().rev() {
            let to = |label: &str| places.get(label).copied().flatten().map(|place| live[place]);
            let now = step(said, live[at + 1], to);
            is_changed |= now != live[at];
            live[at] = now;
        }
    }
    live
}

fn step(said: &Said, behind: RegSet, to: impl Fn(&str) -> Option<RegSet>) -> RegSet {
    match said {
        Said::Nothing | Said::Label(_) | Said::Aside => behind,
        Said::Instructions(lines) => lines
            .iter()
            .rev()
            .fold(behind, |live, line| live.without(Reg(line.rd)).with(Reg(line.rs1)).with(Reg(line.rs2))),
        Said::Linked { reads, writes } => behind.without(*writes).or(*reads),
        Said::Branch { reads, to: label } => behind.or(*reads).or(to(label).unwrap_or(RegSet::ALL)),
        Said::Jump(label) => to(label).unwrap_or_else(|| elsewhere(label)),
        Said::Call(reads) => behind.minus(lost()).or(kept()).or(arguments()).or(*reads),
        Said::Return => kept().or(range(10, 11)).with(Reg::RA),
        Said::Ecall => behind.or(range(10, 17)),
        Said::Unknown => RegSet::ALL,
    }
}

/// Live before a jump to a function of another file, which returns for this one.
fn elsewhere(label: &str) -> RegSet {
    // Labels of this file that are not known once, and what only tells which way.
    if label.starts_with('.') || label.starts_with(|first: char| first.is_ascii_digit()) {
        return RegSet::ALL;
    }
    kept().or(arguments()).with(Reg::RA)
}
