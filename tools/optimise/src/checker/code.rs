//! The functions of a linked file that may be changed, in pieces that control enters at their start alone.

use std::collections::{BTreeMap, BTreeSet};

use antares_program::{Decoder, Instruction, Op, Reg};

use super::{
    cycles::ends_straight_code,
    linked::{Linked, Symbol},
    state::{Shape, shape},
};
use crate::RewriteError;

/// The system call that tells a script how many cycles it has used.
const CURRENT_CYCLES: i64 = 2042;

/// Bytes that ckb-vm's decoder may look at for one instruction: five are fused.
pub(crate) const FUSED_BYTES_MAX: u64 = 20;

/// Instructions with their addresses.
pub(crate) type Row = Vec<(u64, Instruction)>;

/// How control leaves a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// To what stands behind it. What is pinned stays as it is.
    Straight { is_pinned: bool },
    /// There, or to what stands behind it.
    Branch { to: u64 },
    /// There.
    Jump { to: u64 },
    /// To somebody who may look at everything; and perhaps it comes back.
    Away { comes_back: bool },
}

/// Instructions that are executed one after another, or one that goes elsewhere.
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
    /// What control reaches, by the addresses of the pieces.
    pub(crate) pieces: BTreeMap<u64, Piece>,
}

/// Why a function is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// Its symbol shares bytes with another one.
    #[error("another function shares its bytes")]
    Overlap,
    /// Its bytes are not a row of instructions.
    #[error("it has data among its instructions")]
    Data,
    /// The address of a place inside of it is formed.
    #[error("the address of a place inside of it is taken, as for a jump table")]
    TakenInside,
    /// It jumps to an address that it computes.
    #[error("it jumps to a computed address")]
    ComputedJump,
    /// Something goes to the middle of an instruction.
    #[error("something jumps between its instructions")]
    OffBoundary,
}

/// A function that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Untouched {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: Obstacle,
    /// Where that is seen.
    pub at: u64,
}

/// The code of a file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) functions: Vec<Function>,
    pub(crate) untouched: Vec<Untouched>,
}

/// Bytes of a section in the order of their addresses.
struct Part {
    symbol: Option<Symbol>,
    row: Row,
    obstacle: Option<(Obstacle, u64)>,
}

impl Code {
    /// Finds the functions of `linked`, as `decoder` reads them.
    ///
    /// # Errors
    /// Somewhere an address of code is formed that no relocation tells, or the script reads its cycles.
    pub(crate) fn find(linked: &Linked, decoder: &mut Decoder<'_>) -> Result<Self, RewriteError> {
        let parts = parts(linked, decoder);
        for part in &parts {
            refuse_unrelocated(linked, part)?;
        }
        let mut targets: BTreeSet<u64> = BTreeSet::new();
        for part in &parts {
            targets.extend(part.row.iter().filter_map(|(pc, instruction)| direct_target(*pc, instruction)));
        }
        let entered = &targets | &linked.labels;
        let mut code = Self::default();
        for Part { symbol, row, obstacle } in parts {
            let Some(symbol) = symbol else { continue };
            match obstacle.or_else(|| obstacle_in(linked, &symbol, &row, &entered)) {
                Some((why, at)) => code.untouched.push(Untouched { name: symbol.name, why, at }),
                None => code.functions.push(Function::new(symbol, &row, &entered)),
            }
        }
        Ok(code)
    }

    /// Places from which control may run into the start of a function that stands behind them.
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

/// Where `instruction` at `pc` branches, jumps or calls.
fn direct_target(pc: u64, instruction: &Instruction) -> Option<u64> {
    let is_direct = instruction.is_branch() || instruction.op == Op::Jal;
    is_direct.then(|| pc.wrapping_add(instruction.imm.cast_unsigned()))
}

/// All code, cut at the borders of functions.
fn parts(linked: &Linked, decoder: &mut Decoder<'_>) -> Vec<Part> {
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
            let (row, swept) = sweep(decoder, symbol.start, end);
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

/// Which of `functions`, which are in order, share bytes with another one.
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

/// The row of instructions from `start` on, and where it ends.
fn sweep(decoder: &mut Decoder<'_>, start: u64, end: u64) -> (Row, u64) {
    let (mut row, mut at) = (Row::new(), start);
    while at < end {
        let Some(instruction) = decoder.decode(at) else { break };
        row.push((at, instruction));
        at += u64::from(instruction.length);
    }
    (row, at)
}

/// Bytes that no function has: whatever may be decoded there is taken for an instruction.
fn gap(decoder: &mut Decoder<'_>, start: u64, end: u64) -> Part {
    let places = (start.next_multiple_of(2)..end).step_by(2);
    let row = places.filter_map(|pc| decoder.decode(pc).map(|instruction| (pc, instruction))).collect();
    Part { symbol: None, row, obstacle: None }
}

fn refuse_unrelocated(linked: &Linked, part: &Part) -> Result<(), RewriteError> {
    let mut computed = [false; 32];
    for &(pc, ref instruction) in &part.row {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        let is_relocated = linked.relocated.contains(&pc);
        if linked.labels.contains(&pc) {
            computed = [false; 32];
        }
        if part.symbol.is_some() && op == Op::Auipc && !is_relocated {
            return Err(RewriteError::NoRelocation(pc));
        }
        let is_constant = rs1 == Reg::ZERO && shape(op) == Some(Shape::One);
        if part.symbol.is_some() && is_constant && imm == CURRENT_CYCLES {
            return Err(RewriteError::ReadsCycles(pc));
        }
        let is_return = op == Op::Jalr && rd == Reg::ZERO && [Reg::RA, Reg::T0].contains(&rs1);
        if is_return && !is_relocated && (imm != 0 || computed[rs1.index()]) {
            return Err(RewriteError::ComputedReturn(pc));
        }
        if ends_straight_code(op) {
            computed = [false; 32];
        } else if rd != Reg::ZERO {
            let moved = match op {
                Op::Addi if imm == 0 => Some(rs1),
                Op::Add if rs1 == Reg::ZERO => Some(rs2),
                _ => None,
            };
            let is_made = shape(op) != Some(Shape::Load) && !is_relocated;
            computed[rd.index()] = moved.map_or(is_made, |from| computed[from.index()]);
        }
    }
    Ok(())
}

/// What keeps a function from being changed.
fn obstacle_in(
    linked: &Linked,
    symbol: &Symbol,
    row: &Row,
    entered: &BTreeSet<u64>,
) -> Option<(Obstacle, u64)> {
    let inside = symbol.start + 1..symbol.end;
    if let Some(at) = linked.data.range(symbol.start..symbol.end).next() {
        return Some((Obstacle::Data, *at));
    }
    if let Some((at, _)) = linked.taken.range(inside.clone()).next() {
        return Some((Obstacle::TakenInside, *at));
    }
    let starts: BTreeSet<u64> = row.iter().map(|(pc, _)| *pc).collect();
    if let Some(at) = entered.range(inside).find(|at| !starts.contains(at)) {
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
        let mut last: Option<Piece> = None;
        for &(pc, instruction) in row {
            let exit = exit(start..end, pc, &instruction);
            let next = pc + u64::from(instruction.length);
            match &mut last {
                Some(piece) if piece.may_change() && exit == piece.exit && !entered.contains(&pc) => {
                    piece.row.push((pc, instruction));
                    piece.end = next;
                }
                _ => {
                    pieces.extend(last.take().map(|piece| (piece.start(), piece)));
                    last = Some(Piece { row: vec![(pc, instruction)], end: next, exit });
                }
            }
        }
        pieces.extend(last.take().map(|piece| (piece.start(), piece)));
        let mut function = Self { name, start, end, pieces };
        let reached = function.reached();
        function.pieces.retain(|pc, _| reached.contains(pc));
        function
    }

    /// What control reaches from the start.
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
    /// Where control goes from here inside of the function.
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

fn exit(function: std::ops::Range<u64>, pc: u64, instruction: &Instruction) -> Exit {
    let target = direct_target(pc, instruction);
    match (instruction.op, target) {
        (Op::Jal, Some(to)) if instruction.rd == Reg::ZERO && function.contains(&to) => Exit::Jump { to },
        (Op::Jal | Op::Jalr, _) => Exit::Away { comes_back: instruction.rd != Reg::ZERO },
        (_, Some(to)) => Exit::Branch { to },
        (op, None) if shape(op).is_some() => Exit::Straight { is_pinned: op == Op::Auipc },
        _ => Exit::Away { comes_back: true },
    }
}
