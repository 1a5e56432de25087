//! Available checks: for each register, the accessible addresses around it at block entry, over all paths.
//!
//! Forward execution of a block gives each value a root (a register at block entry, or an operation) and a
//! distance from it. A check adds a fact about the root of its base. A written register takes the facts about
//! the root of its new value. The solver starts with all facts and removes those that some path does not
//! provide, until nothing changes. The result is the greatest solution, which holds by induction over the
//! length of a run. Loads and stores each have one contiguous range of valid addresses, so two windows around
//! the same root merge with everything between them.

use std::collections::BTreeSet;

use antares_ir::{Access, BinaryOp, Block, Cfg, Function, Op, Terminator, Value};
use antares_program::{Reg, RegSet};

/// Maximum distance that the analysis follows.
const DISTANCE_MAX: i64 = 1 << 20;

/// Maximum changes of a register's fact at a loop header before widening: windows around values that change
/// in each iteration shrink slowly.
const CHANGES_MAX: u32 = 512;

/// Maximum visits in total and per block before the analysis widens all changes at loop headers. After four
/// times as many, it widens all changes.
const VISITS: usize = 1 << 14;
const VISITS_PER_BLOCK: usize = 512;

/// Distances from a root: `[low, high)`; empty unless `low < high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    low: i32,
    high: i32,
}

impl Window {
    /// `[low, high)`, clamped to the maximum distance.
    fn near(low: i64, high: i64) -> Self {
        let [low, high] = [low, high].map(|end| end.clamp(-DISTANCE_MAX, DISTANCE_MAX));
        // Clamped ends fit.
        match (i32::try_from(low), i32::try_from(high)) {
            (Ok(low), Ok(high)) if low < high => Self { low, high },
            _ => Self::default(),
        }
    }

    fn is_none(self) -> bool {
        self.low >= self.high
    }

    fn hull(self, other: Self) -> Self {
        match (self.is_none(), other.is_none()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { low: self.low.min(other.low), high: self.high.max(other.high) },
        }
    }

    fn common(self, other: Self) -> Self {
        Self::near(self.low.max(other.low).into(), self.high.min(other.high).into())
    }

    /// The window relative to a point `by` above the root, clamped.
    fn seen_from_above(self, by: i64) -> Self {
        if self.is_none() {
            return self;
        }
        Self::near(i64::from(self.low).saturating_sub(by), i64::from(self.high).saturating_sub(by))
    }
}

/// The addresses that loads and stores may access, by kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Windows([Window; 2]);

impl Windows {
    fn of(access: Access, low: i64, high: i64) -> Self {
        let mut windows = Self::default();
        windows.0[access as usize] = Window::near(low, high);
        windows
    }

    fn map(self, change: impl Fn(Window) -> Window) -> Self {
        Self(self.0.map(change))
    }

    fn hull(self, other: Self) -> Self {
        Self([0, 1].map(|access| self.0[access].hull(other.0[access])))
    }

    fn common(self, other: Self) -> Self {
        Self([0, 1].map(|access| self.0[access].common(other.0[access])))
    }

    /// Whether the windows contain all of `[low, high)`.
    pub(super) fn hold(self, access: Access, low: i64, high: i64) -> bool {
        let window = self.0[access as usize];
        low < high && i64::from(window.low) <= low && high <= i64::from(window.high)
    }
}

/// The facts about loads that follow from facts about stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImpliedWindows {
    /// How far loads may reach below stores; `None` if some writable addresses are not readable.
    pub(super) below: Option<i64>,
}

impl ImpliedWindows {
    pub(super) fn of(bounds: impl Fn(Access) -> (u64, u64)) -> Self {
        let (read, write) = (bounds(Access::Read), bounds(Access::Write));
        let is_readable = read.0 <= write.0 && write.0 < write.1 && write.1 <= read.1;
        let below = write.0.checked_sub(read.0).filter(|_| is_readable);
        Self { below: below.and_then(|below| i64::try_from(below).ok()) }
    }

    pub(super) fn all(self, known: Windows) -> Windows {
        let [read, write] = known.0;
        let Some(below) = self.below.filter(|_| !write.is_none()) else { return known };
        let (low, high) = (i64::from(write.low), i64::from(write.high));
        Windows([read.hull(Window::near(low.saturating_sub(below), high)), write])
    }

    /// The facts that a check provides.
    pub(super) fn by(self, access: Access, low: i64, high: i64) -> Windows {
        self.all(Windows::of(access, low, high))
    }
}

/// The facts about each register.
pub(super) type KnownRegisters = [Windows; 32];

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// A register at block entry.
    Register(Reg),
    /// An operation of the block.
    Operation(u32),
}

/// The effect of a block.
pub(super) struct Executed {
    /// The block's omitted checks.
    pub(super) left_out: Vec<ElidedCheck>,
    /// The facts that the block's checks provide.
    checked: Vec<(Root, Windows)>,
    /// The registers that the block writes.
    written: Vec<(Reg, Root, i64)>,
    /// The registers that are unknown after the block.
    lost: RegSet,
}

pub(super) struct ElidedCheck {
    pub(super) operation: usize,
    /// The root of the check's base, and the distance from it.
    root: (Root, i64),
}

impl Executed {
    pub(super) fn of(block: &Block, implied: ImpliedWindows) -> Self {
        let mut roots: Vec<(Root, i64)> = Vec::with_capacity(block.ops.len());
        let (mut checked, mut left_out) = (Vec::<(Root, Windows)>::new(), Vec::new());
        for (number, op) in (0..).zip(&block.ops) {
            let own = (Root::Operation(number), 0);
            roots.push(match *op {
                Op::Read(register) if register != Reg::ZERO => (Root::Register(register), 0),
                Op::Binary(BinaryOp::Add, x, y) => match block.number(y) {
                    Some(by) => {
                        let (root, distance) = roots[x.0 as usize];
                        (root, distance.wrapping_add(by))
                    }
                    None => own,
                },
                _ => own,
            });
            if let Op::Check { access, base, low, high } | Op::Proved { access, base, low, high } = *op {
                let (root, distance) = roots[base.0 as usize];
                if matches!(op, Op::Proved { .. }) {
                    left_out.push(ElidedCheck { operation: roots.len() - 1, root: (root, distance) });
                }
                let windows = implied
                    .by(access, low, high)
                    .map(|window| window.seen_from_above(distance.saturating_neg()));
                match checked.iter_mut().find(|(known, _)| *known == root) {
                    Some((_, known)) => *known = known.hull(windows),
                    None => checked.push((root, windows)),
                }
            }
        }
        let root = |&(register, value): &(Reg, Value)| {
            let (root, distance) = roots[value.0 as usize];
            (register, root, distance)
        };
        let written = block.writes.iter().map(root).collect();
        let lost = match block.terminator {
            Terminator::Call { .. } | Terminator::CallIndirect { .. } => RegSet::ALL,
            Terminator::Ecall { .. } => RegSet::of(&[Reg::A0]),
            _ => RegSet::EMPTY,
        };
        Self { left_out, checked, written, lost }
    }

    /// The root of a register at the block's end.
    pub(super) fn root_of(&self, register: Reg) -> (Root, i64) {
        let written = self.written.iter().find(|(written, ..)| *written == register);
        written.map_or((Root::Register(register), 0), |(_, root, distance)| (*root, *distance))
    }

    fn checked(&self, root: Root) -> Windows {
        let found = self.checked.iter().find(|(known, _)| *known == root);
        found.map(|(_, windows)| *windows).unwrap_or_default()
    }

    /// The facts at the block's end.
    fn after(&self, before: &KnownRegisters) -> KnownRegisters {
        let mut now = *before;
        for &(root, windows) in &self.checked {
            if let Root::Register(register) = root {
                now[register.index()] = now[register.index()].hull(windows);
            }
        }
        let mut after = now;
        for &(register, root, distance) in &self.written {
            let known = match root {
                Root::Register(from) => now[from.index()],
                Root::Operation(_) => self.checked(root),
            };
            after[register.index()] = known.map(|window| window.seen_from_above(distance));
        }
        self.lost.iter().for_each(|register| after[register.index()] = Windows::default());
        after
    }
}

impl ElidedCheck {
    /// The facts about the check's base at block entry.
    pub(super) fn known(&self, before: &KnownRegisters) -> Windows {
        match self.root {
            (Root::Register(register), distance) => {
                before[register.index()].map(|window| window.seen_from_above(distance))
            }
            (Root::Operation(_), _) => Windows::default(),
        }
    }
}

/// The facts at the entry of each block of `function`; none for unreachable blocks.
pub(super) fn solve(
    function: &Function,
    cfg: &Cfg,
    blocks: &[Executed],
    implied: ImpliedWindows,
) -> Vec<Option<KnownRegisters>> {
    let order = cfg.reverse_postorder();
    let mut places = vec![usize::MAX; blocks.len()];
    order.iter().enumerate().for_each(|(position, block)| places[*block] = position);
    let mut entry = KnownRegisters::default();
    if let Some(low) = function.frame_low {
        // The entry checks the frame for stores and loads.
        let frame = Windows::of(Access::Write, low, 0).hull(Windows::of(Access::Read, low, 0));
        entry[Reg::SP.index()] = implied.all(frame);
    }
    let mut before: Vec<Option<KnownRegisters>> = vec![None; blocks.len()];
    before[0] = Some(entry);
    let visits_max = VISITS + VISITS_PER_BLOCK * blocks.len();
    let mut visits = 0;
    let mut changes = vec![[0_u32; 32]; blocks.len()];
    let mut open = BTreeSet::from([0]);
    while let Some(position) = open.pop_first() {
        let block = order[position];
        let Some(known) = &before[block] else { continue };
        let after = blocks[block].after(known).map(|windows| implied.all(windows));
        visits += 1;
        for &next in cfg.successors(block) {
            let leads_back = places[next] <= position;
            let gives_up = visits > visits_max && (leads_back || visits > 4 * visits_max);
            let changed = &mut changes[next];
            let met = match &before[next] {
                None => after,
                Some(old) => std::array::from_fn(|register| {
                    let met = old[register].common(after[register]);
                    if met == old[register] {
                        return met;
                    }
                    changed[register] += 1;
                    let is_widened = gives_up || leads_back && changed[register] > CHANGES_MAX;
                    if is_widened { Windows::default() } else { met }
                }),
            };
            if before[next] != Some(met) {
                before[next] = Some(met);
                open.insert(places[next]);
            }
        }
    }
    before
}
