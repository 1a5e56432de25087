//! Facts about registers as addresses: the accessible range around each, and how blocks change it.
//!
//! Memory is one range, and so is the part of it where stores are native. If both contain two ranges around
//! the same value, they contain everything in between. So the facts about a register are one range for each
//! kind of access.

use antares_ir::{
    Access, Cfg, Linear, Module, Op, Terminator, Value,
    dataflow::{self, Direction, Effort, Problem},
};
use antares_program::Reg;

/// Maximum distance to follow.
const REACH: i64 = 1 << 20;

const ACCESSES: [Access; 2] = [Access::Read, Access::Write];

/// Offsets `[low, high)` from a value; empty if nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    low: i32,
    high: i32,
}

impl Range {
    /// The range, or the empty one if it is out of reach.
    pub(crate) fn new(low: i64, high: i64) -> Self {
        let is_near = -REACH <= low && low < high && high <= REACH;
        match (i32::try_from(low), i32::try_from(high)) {
            (Ok(low), Ok(high)) if is_near => Self { low, high },
            _ => Self::default(),
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.low >= self.high
    }

    pub(crate) fn low(self) -> i64 {
        i64::from(self.low)
    }

    pub(crate) fn high(self) -> i64 {
        i64::from(self.high)
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        other.is_empty() || self.low <= other.low && other.high <= self.high
    }

    /// The intersection.
    pub(crate) fn meet(self, other: Self) -> Self {
        Self::new(self.low().max(other.low()), self.high().min(other.high()))
    }

    /// The hull of both ranges.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self::new(self.low().min(other.low()), self.high().max(other.high())),
        }
    }

    /// The range relative to a value that is lower by `by`, clamped to the reach; `by` is within reach too.
    /// If a wide range became empty at its end instead, more facts would imply less, and the result would
    /// depend on the visiting order of blocks.
    pub(crate) fn moved(self, by: i64) -> Self {
        if self.is_empty() {
            return self;
        }
        let near = |offset: i64| (offset + by).clamp(-REACH, REACH);
        Self::new(near(self.low()), near(self.high()))
    }
}

/// Ranges for loads and for stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Both([Range; 2]);

impl Both {
    pub(crate) fn of(access: Access, range: Range) -> Self {
        let mut both = Self::default();
        both.0[access as usize] = range;
        both
    }

    pub(crate) fn get(self, access: Access) -> Range {
        self.0[access as usize]
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn moved(self, by: i64) -> Self {
        Self(self.0.map(|range| range.moved(by)))
    }

    pub(crate) fn join(self, other: Self) -> Self {
        Self([self.0[0].join(other.0[0]), self.0[1].join(other.0[1])])
    }

    pub(crate) fn meet(self, other: Self) -> Self {
        Self([self.0[0].meet(other.0[0]), self.0[1].meet(other.0[1])])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (Access, Range)> {
        ACCESSES.into_iter().zip(self.0).filter(|(_, range)| !range.is_empty())
    }
}

/// What checks of stores imply about loads. If both bounds end at the same address, every writable address is
/// readable. So are as many bytes below it as lie below the writable range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImpliedRanges {
    /// Any number works: offsets beyond `i64` are out of reach.
    below: Option<i64>,
}

impl ImpliedRanges {
    pub(crate) fn of(module: &Module) -> Self {
        let [(read_start, read_end), (start, end)] = ACCESSES.map(|access| module.bounds(access));
        let is_same_end = end == read_end && start < end;
        let below = is_same_end.then(|| start.checked_sub(read_start)).flatten();
        Self { below: below.and_then(|below| i64::try_from(below).ok()) }
    }

    /// All facts that `known` implies.
    pub(crate) fn all(self, known: Both) -> Both {
        let write = known.get(Access::Write);
        let Some(below) = self.below.filter(|_| !write.is_empty()) else { return known };
        let low = write.low().saturating_sub(below).max(-REACH);
        known.join(Both::of(Access::Read, Range::new(low, write.high())))
    }

    /// The minimal checks that imply `needed`.
    pub(crate) fn fewest(self, needed: Both) -> Both {
        let (read, write) = (needed.get(Access::Read), needed.get(Access::Write));
        let Some(below) = self.below.filter(|_| !read.is_empty() && !write.is_empty()) else { return needed };
        if read.low() < write.low().saturating_sub(below) {
            return needed;
        }
        Both::of(Access::Write, Range::new(write.low(), write.high().max(read.high())))
    }
}

pub(crate) type Facts = [Both; 32];

/// The value from which `value` has a fixed distance, and that distance.
pub(crate) fn root(ops: &[Op], value: Value) -> (Value, i64) {
    let Linear { root, offset } = Linear::of(ops, value, REACH);
    (root, offset)
}

/// The facts at function entry, where the frame is checked first: stores to `[sp + frame_low, sp)`.
pub(crate) fn at_entry(frame_low: Option<i64>, implied: ImpliedRanges) -> Facts {
    let mut facts = Facts::default();
    if let Some(low) = frame_low {
        facts[Reg::SP.index()] = implied.all(Both::of(Access::Write, Range::new(low, 0)));
    }
    facts
}

/// The value of a register at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// A register's entry value plus a number.
    Copied(Reg, i64),
    /// A value that the block computes, plus a number.
    Computed(Value, i64),
    /// An unknown value.
    Unknown,
}

/// The effect of a block on facts.
pub(crate) struct Summary {
    /// The block's checks of registers at its start.
    pub(crate) own: Facts,
    /// The block's checks of values that it computes.
    pub(crate) made: Vec<(Value, Both)>,
    pub(crate) transfers: [Transfer; 32],
}

impl Summary {
    pub(crate) fn new<'a>(
        ops: &[Op],
        checks: impl Iterator<Item = &'a Op>,
        writes: &[(Reg, Value)],
        terminator: &Terminator,
    ) -> Self {
        let mut summary = Self {
            own: Facts::default(),
            made: Vec::new(),
            transfers: std::array::from_fn(|index| match u8::try_from(index) {
                Ok(number) if number > 0 => Transfer::Copied(Reg(number), 0),
                _ => Transfer::Unknown,
            }),
        };
        for op in checks {
            if let Op::Check { access, base, low, high } | Op::Proved { access, base, low, high } = *op {
                let (root, offset) = root(ops, base);
                summary.record(ops, root, Both::of(access, Range::new(low, high).moved(offset)));
            }
        }
        for &(register, value) in writes {
            let (root, offset) = root(ops, value);
            summary.transfers[register.index()] = match ops[root.0 as usize] {
                Op::Read(register) => Transfer::Copied(register, offset),
                Op::Const(_) => Transfer::Unknown,
                _ => Transfer::Computed(root, offset),
            };
        }
        for register in changed_by(terminator) {
            summary.transfers[register.index()] = Transfer::Unknown;
        }
        summary
    }

    /// Records a fact about `value`, which is not a sum with a constant.
    pub(crate) fn record(&mut self, ops: &[Op], value: Value, known: Both) {
        match ops[value.0 as usize] {
            Op::Read(Reg::ZERO) | Op::Const(_) => {}
            Op::Read(register) => {
                let own = &mut self.own[register.index()];
                *own = own.join(known);
            }
            _ => match self.made.iter_mut().find(|(made, _)| *made == value) {
                Some((_, both)) => *both = both.join(known),
                None => self.made.push((value, known)),
            },
        }
    }

    pub(crate) fn made(&self, value: Value) -> Both {
        let found = self.made.iter().find(|(made, _)| *made == value);
        found.map_or(Both::default(), |(_, both)| *both)
    }

    /// The facts at the end if `before` holds at the start.
    pub(crate) fn after(&self, before: &Facts, implied: ImpliedRanges) -> Facts {
        self.transfers.map(|transfer| match transfer {
            Transfer::Copied(register, by) => before[register.index()].moved(-by),
            Transfer::Computed(value, by) => implied.all(self.made(value)).moved(-by),
            Transfer::Unknown => Both::default(),
        })
    }
}

/// Registers that `terminator` may change.
fn changed_by(terminator: &Terminator) -> Vec<Reg> {
    match terminator {
        Terminator::Call { .. } | Terminator::CallIndirect { .. } => (1..32).map(Reg).collect(),
        Terminator::Ecall { .. } => vec![Reg::A0],
        _ => Vec::new(),
    }
}

/// Maximum changes of facts at a loop header before widening.
const VISITS_MAX: u32 = 64;

/// Maximum changes of facts before widening: a register with a small step in a loop causes thousands, even in
/// a small function.
const STEPS_MAX: usize = 1 << 14;
const STEPS_PER_BLOCK: usize = 512;

/// Computes the facts at the end of each block, if each block ensures `ensured` at its start and `entry` holds
/// at function entry. `None` for unreachable blocks. A fact at a loop header widens after [`VISITS_MAX`]
/// changes, or after too many changes in total. Other blocks depend on headers and retain what they ensure.
/// After far too many changes, all changing facts widen.
pub(crate) fn solve(
    summaries: &[Summary],
    cfg: &Cfg,
    ensured: &[Facts],
    entry: &Facts,
    implied: ImpliedRanges,
) -> Vec<Option<Facts>> {
    let steps_max = STEPS_MAX + STEPS_PER_BLOCK * summaries.len();
    let problem = Ensured { summaries, ensured, implied, is_header: cfg.loop_headers(), steps_max };
    let mut known: Vec<Option<Facts>> = vec![None; summaries.len()];
    known[0] = Some(*entry);
    let known = dataflow::solve(cfg, Direction::Forward, &problem, known);
    (0..).zip(known).map(|(block, before)| Some(problem.transfer(block, &before?))).collect()
}

/// The problem of [`solve`].
struct Ensured<'a> {
    summaries: &'a [Summary],
    ensured: &'a [Facts],
    implied: ImpliedRanges,
    is_header: Vec<bool>,
    steps_max: usize,
}

impl Problem for Ensured<'_> {
    type Fact = Facts;

    fn transfer(&self, block: usize, before: &Facts) -> Facts {
        let ensured = &self.ensured[block];
        let start = std::array::from_fn(|index| self.implied.all(before[index].join(ensured[index])));
        self.summaries[block].after(&start, self.implied)
    }

    fn meet(&self, block: usize, effort: Effort, known: &Facts, other: &Facts) -> Facts {
        let is_late = self.is_header[block] && (effort.visits > VISITS_MAX || effort.steps > self.steps_max);
        let gives_up = is_late || effort.steps > 4 * self.steps_max;
        std::array::from_fn(|index| match known[index].meet(other[index]) {
            met if met != known[index] && gives_up => Both::default(),
            met => met,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_says_no_less_wherever_it_is_seen_from() {
        let (wide, narrow) = (Range::new(-REACH, 7), Range::new(0, 7));
        for by in [-4, 0, 4, REACH] {
            assert!(wide.moved(by).covers(narrow.moved(by)), "{by}");
        }
    }
}
