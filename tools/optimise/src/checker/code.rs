//! The changeable functions of a linked file, in pieces that control enters only at their start.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::OccupiedEntry},
    ops::Range,
};

use antares_program::{Decoder, Image, Instruction, Op, Reg, RegSet};

use super::{
    cycles::ends_straight_code,
    linked::{Linked, Symbol},
    state::{Shape, shape},
};
use crate::RewriteError;

/// The system call that returns the script's cycles.
const CURRENT_CYCLES: i64 = 2042;

/// The compilers' trap instruction, where its short form is unknown.
const UNIMP: u32 = 0xc000_1073;

/// Maximum bytes that ckb-vm's decoder inspects for one instruction: it fuses up to five.
pub(crate) const FUSED_BYTES_MAX: u64 = 20;

/// Instructions with their addresses.
pub(crate) type Row = Vec<(u64, Instruction)>;

/// How control leaves a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Continues after the piece. A pinned piece must not change.
    Straight { is_pinned: bool },
    /// Branches to `to`, or continues after the piece.
    Branch { to: u64 },
    /// Jumps to `to`.
    Jump { to: u64 },
    /// Passes control to unknown code, which may read all state, and may return.
    Away { comes_back: bool },
}

/// Straight-line code, or a single control transfer.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) row: Row,
    pub(crate) end: u64,
    pub(crate) exit: Exit,
}

impl Piece {
    pub(crate) fn start(&self) -> u64 {
        self.row.first().map_or(self.end, |first| first.0)
    }

    pub(crate) fn may_change(&self) -> bool {
        self.exit == Exit::Straight { is_pinned: false }
    }
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Reachable code, by address of the piece.
    pub(crate) pieces: BTreeMap<u64, Piece>,
}

/// Why a function must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// Its symbol overlaps another one.
    #[error("another function shares its bytes")]
    Overlap,
    /// It contains bytes that are not instructions.
    #[error("it has data among its instructions")]
    Data,
    /// An address inside of it is taken.
    #[error("the address of a place inside of it is taken, as for a jump table")]
    TakenInside,
    /// It jumps to a computed address.
    #[error("it jumps to a computed address")]
    ComputedJump,
    /// A jump targets the middle of an instruction.
    #[error("something jumps between its instructions")]
    OffBoundary,
}

/// A function that must not change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Untouched {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: Obstacle,
    /// Location of the reason.
    pub at: u64,
}

/// The code of a file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) functions: Vec<Function>,
    pub(crate) untouched: Vec<Untouched>,
}

/// A contiguous part of a section.
struct Part {
    symbol: Option<Symbol>,
    row: Row,
    obstacle: Option<(Obstacle, u64)>,
}

impl Code {
    /// Finds the functions of `linked`, whose loaded image is `image`.
    ///
    /// # Errors
    /// The script forms a code address without a relocation, or reads its cycles.
    pub(crate) fn find(linked: &mut Linked, image: &Image) -> Result<Self, RewriteError> {
        let parts = parts(linked, image);
        for part in &parts {
            let row = &part.row;
            linked.labels.extend(row.iter().filter_map(|(pc, instruction)| direct_target(*pc, instruction)));
            linked.labels.extend((0..row.len()).filter_map(|at| far_target(row, at)));
        }
        for part in &parts {
            let far = (0..part.row.len()).filter(|at| far_target(&part.row, *at).is_some());
            let far = far.map(|at| part.row[at].0).filter(|pc| !linked.labels.contains(&(pc + 4)));
            linked.relocated.extend(far.flat_map(|pc| [pc, pc + 4]));
            refuse_unrelocated(linked, part)?;
        }
        let linked = &*linked;
        let mut code = Self::default();
        for Part { symbol, row, obstacle } in parts {
            let Some(symbol) = symbol else { continue };
            match obstacle.or_else(|| obstacle_in(linked, &symbol, &row)) {
                Some((why, at)) => code.untouched.push(Untouched { name: symbol.name, why, at }),
                None => code.functions.push(Function::new(symbol, &row, &linked.labels)),
            }
        }
        Ok(code)
    }

    /// Locations directly before a function from which execution may run into it.
    pub(crate) fn positions_before(&self) -> Vec<u64> {
        let is_inside = |pc: u64| {
            let last = self.functions.partition_point(|function| function.start <= pc);
            last > 0 && pc < self.functions[last - 1].end
        };
        let before =
            |function: &Function| (function.start.saturating_sub(FUSED_BYTES_MAX)..function.start).step_by(2);
        self.functions.iter().flat_map(before).filter(|pc| !is_inside(*pc)).collect()
    }
}

/// Target of the branch, jump or call `instruction` at `pc`.
fn direct_target(pc: u64, instruction: &Instruction) -> Option<u64> {
    let is_direct = instruction.is_branch() || instruction.op == Op::Jal;
    is_direct.then(|| pc.wrapping_add(instruction.imm.cast_unsigned()))
}

/// Target of the two-instruction jump or call at `at`. Assemblers fold such pairs within a section.
fn far_target(row: &Row, at: usize) -> Option<u64> {
    let (pc, upper) = row[at];
    // Decoded instructions overlap in a gap.
    let (_, next) = row[at + 1..].iter().take(2).find(|(next, _)| *next == pc + 4)?;
    let is_pair = (upper.op, next.op, next.rs1) == (Op::Auipc, Op::Jalr, upper.rd);
    let distance = upper.imm.wrapping_add(next.imm).cast_unsigned();
    is_pair.then(|| pc.wrapping_add(distance) & !1)
}

/// All code, split at function boundaries.
fn parts(linked: &Linked, image: &Image) -> Vec<Part> {
    let decoder = &mut Decoder::new(image);
    let overlapping = overlapping(&linked.functions);
    let mut parts = Vec::new();
    for range in &linked.code {
        let mut at = range.start;
        for (symbol, is_shared) in linked.functions.iter().zip(&overlapping) {
            if !range.contains(&symbol.start) {
                continue;
            }
            if symbol.start > at {
                parts.push(gap(decoder, at, symbol.start));
            }
            let end = symbol.end.min(range.end);
            let (row, swept) = sweep(image, decoder, symbol.start..end);
            let obstacle = match is_shared {
                true => Some((Obstacle::Overlap, symbol.start)),
                false => (swept != symbol.end).then_some((Obstacle::Data, swept)),
            };
            if obstacle.is_some() {
                parts.push(gap(decoder, symbol.start, end));
            }
            parts.push(Part { symbol: Some(symbol.clone()), row, obstacle });
            at = at.max(end);
        }
        if at < range.end {
            parts.push(gap(decoder, at, range.end));
        }
    }
    parts
}

/// Marks each of `functions`, which are sorted, that overlaps another one.
fn overlapping(functions: &[Symbol]) -> Vec<bool> {
    let mut found = vec![false; functions.len()];
    let mut furthest = 0;
    for next in 1..functions.len() {
        if functions[next].start < functions[furthest].end {
            (found[furthest], found[next]) = (true, true);
        }
        if functions[next].end > functions[furthest].end {
            furthest = next;
        }
    }
    found
}

/// The instructions from the start of `range`, and their end. Skips the `unimp` that compilers write after
/// calls that never return.
fn sweep(image: &Image, decoder: &mut Decoder<'_>, range: Range<u64>) -> (Row, u64) {
    let (mut row, mut at) = (Row::new(), range.start);
    while at < range.end {
        at += match decoder.decode(at) {
            Some(instruction) => {
                row.push((at, instruction));
                u64::from(instruction.length)
            }
            None if image.bytes(at) == Some([0; 2]) => 2,
            None if image.bytes(at).map(u32::from_le_bytes) == Some(UNIMP) => 4,
            None => break,
        };
    }
    (row, at)
}

/// Code outside of functions: every decodable instruction counts.
fn gap(decoder: &mut Decoder<'_>, start: u64, end: u64) -> Part {
    let places = (start.next_multiple_of(2)..end).step_by(2);
    let row = places.filter_map(|pc| decoder.decode(pc).map(|instruction| (pc, instruction))).collect();
    Part { symbol: None, row, obstacle: None }
}

fn refuse_unrelocated(linked: &Linked, part: &Part) -> Result<(), RewriteError> {
    let held = held(linked, part);
    for &(pc, ref instruction) in &part.row {
        let Instruction { op, rd, rs1, imm, .. } = *instruction;
        let is_relocated = linked.relocated.contains(&pc);
        if part.symbol.is_some() && op == Op::Auipc && !is_relocated {
            return Err(RewriteError::NoRelocation(pc));
        }
        let is_constant = rs1 == Reg::ZERO && shape(op) == Some(Shape::One);
        if part.symbol.is_some() && is_constant && imm == CURRENT_CYCLES {
            return Err(RewriteError::ReadsCycles(pc));
        }
        let held = held.get(&pc).copied().unwrap_or_default();
        let is_return = rd == Reg::ZERO && [Reg::RA, Reg::T0].contains(&rs1);
        let is_computed = held.behind.has(rs1)
            || held.returns.has(rs1) && imm != 0
            || is_return && (imm != 0 || held.computed.has(rs1));
        if op == Op::Jalr && !is_relocated && is_computed {
            return Err(RewriteError::ComputedReturn(pc));
        }
    }
    Ok(())
}

/// Registers by their possible content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    /// A result of arithmetic.
    computed: RegSet,
    /// A return address.
    returns: RegSet,
    /// A result of arithmetic on a return address.
    behind: RegSet,
}

impl Held {
    fn or(self, other: Self) -> Self {
        Self {
            computed: self.computed.or(other.computed),
            returns: self.returns.or(other.returns),
            behind: self.behind.or(other.behind),
        }
    }

    fn after(self, instruction: &Instruction, is_relocated: bool) -> Self {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        let set = |set: RegSet, is_in: bool| if is_in { set.with(rd) } else { set.without(rd) };
        let moved = match op {
            Op::Addi if imm == 0 => Some(rs1),
            Op::Add if rs1 == Reg::ZERO => Some(rs2),
            Op::Add if rs2 == Reg::ZERO => Some(rs1),
            _ => None,
        };
        let is_link = matches!(op, Op::Jal | Op::Jalr);
        let is_made = !is_link && !is_relocated && shape(op) != Some(Shape::Load);
        let reads = RegSet::of(&[rs1, if shape(op) == Some(Shape::Two) { rs2 } else { rs1 }]);
        let is_behind = !reads.and(self.returns.or(self.behind)).is_empty();
        match moved {
            _ if rd == Reg::ZERO || shape(op) == Some(Shape::Store) => self,
            Some(from) => Self {
                computed: set(self.computed, self.computed.has(from)),
                returns: set(self.returns, self.returns.has(from)),
                behind: set(self.behind, self.behind.has(from)),
            },
            None => Self {
                computed: set(self.computed, is_made),
                returns: set(self.returns, is_link),
                behind: set(self.behind, is_made && is_behind),
            },
        }
    }
}

/// Possible content of registers before each instruction; outside of functions, up to a control transfer.
fn held(linked: &Linked, part: &Part) -> BTreeMap<u64, Held> {
    let start = Held { returns: RegSet::of(&[Reg::RA, Reg::T0]), ..Held::default() };
    let mut before: BTreeMap<u64, Held> = part.row.iter().map(|(pc, _)| (*pc, Held::default())).collect();
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        let mut held = start;
        for &(pc, ref instruction) in &part.row {
            let is_entered = linked.labels.contains(&pc);
            held = match part.symbol {
                Some(_) => held.or(before[&pc]),
                None if is_entered => start,
                None => held,
            };
            is_changed |= before.insert(pc, held) != Some(held);
            held = held.after(instruction, linked.relocated.contains(&pc));
            let target = direct_target(pc, instruction).filter(|_| part.symbol.is_some());
            if let Some(known) = target.and_then(|to| before.get_mut(&to)) {
                is_changed |= *known != known.or(held);
                *known = known.or(held);
            }
            let is_jump = matches!(instruction.op, Op::Jal | Op::Jalr) && instruction.rd == Reg::ZERO;
            if is_jump || part.symbol.is_none() && ends_straight_code(instruction.op) {
                held = if part.symbol.is_some() { Held::default() } else { start };
            }
        }
    }
    before
}

/// The reason why a function must not change, if any.
fn obstacle_in(linked: &Linked, symbol: &Symbol, row: &Row) -> Option<(Obstacle, u64)> {
    let inside = symbol.start + 1..symbol.end;
    if let Some(at) = linked.data.range(symbol.start..symbol.end).next() {
        return Some((Obstacle::Data, *at));
    }
    if let Some((at, _)) = linked.taken.range(inside.clone()).next() {
        return Some((Obstacle::TakenInside, *at));
    }
    let starts: BTreeSet<u64> = row.iter().map(|(pc, _)| *pc).collect();
    if let Some(at) = linked.labels.range(inside).find(|at| !starts.contains(at)) {
        return Some((Obstacle::OffBoundary, *at));
    }
    let is_computed = |(pc, instruction): &&(u64, Instruction)| {
        let Instruction { op, rd, rs1, .. } = *instruction;
        op == Op::Jalr && rd == Reg::ZERO && rs1 != Reg::RA && !linked.relocated.contains(pc)
    };
    row.iter().find(is_computed).map(|(pc, _)| (Obstacle::ComputedJump, *pc))
}

impl Function {
    fn new(symbol: Symbol, row: &Row, entered: &BTreeSet<u64>) -> Self {
        let Symbol { start, end, name } = symbol;
        let mut pieces: BTreeMap<u64, Piece> = BTreeMap::new();
        for &(pc, instruction) in row {
            let exit = exit(start..end, pc, &instruction);
            let next = pc + u64::from(instruction.length);
            match pieces.last_entry().map(OccupiedEntry::into_mut) {
                Some(piece)
                    if piece.may_change()
                        && exit == piece.exit
                        && piece.end == pc
                        && !entered.contains(&pc) =>
                {
                    piece.row.push((pc, instruction));
                    piece.end = next;
                }
                _ => drop(pieces.insert(pc, Piece { row: vec![(pc, instruction)], end: next, exit })),
            }
        }
        let mut function = Self { name, start, end, pieces };
        let reached = function.reached();
        function.pieces.retain(|pc, _| reached.contains(pc));
        function
    }

    /// The pieces reachable from the start.
    fn reached(&self) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        let mut open = vec![self.start];
        while let Some(at) = open.pop() {
            let Some(piece) = self.pieces.get(&at).filter(|_| reached.insert(at)) else { continue };
            open.extend(piece.next());
        }
        reached
    }
}

impl Piece {
    /// The successors of this piece within the function.
    pub(crate) fn next(&self) -> impl Iterator<Item = u64> + use<> {
        let [behind, to] = match self.exit {
            Exit::Straight { .. } | Exit::Away { comes_back: true } => [Some(self.end), None],
            Exit::Branch { to } => [Some(self.end), Some(to)],
            Exit::Jump { to } => [None, Some(to)],
            Exit::Away { comes_back: false } => [None, None],
        };
        behind.into_iter().chain(to)
    }
}

fn exit(function: Range<u64>, pc: u64, instruction: &Instruction) -> Exit {
    let target = direct_target(pc, instruction);
    match (instruction.op, target) {
        (Op::Jal, Some(to)) if instruction.rd == Reg::ZERO && function.contains(&to) => Exit::Jump { to },
        (Op::Jal | Op::Jalr, _) => Exit::Away { comes_back: instruction.rd != Reg::ZERO },
        (_, Some(to)) => Exit::Branch { to },
        (op, None) if shape(op).is_some() => Exit::Straight { is_pinned: op == Op::Auipc },
        _ => Exit::Away { comes_back: true },
    }
}
