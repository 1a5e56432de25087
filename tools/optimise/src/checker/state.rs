//! Executes two pieces of straight-line code symbolically, and finds the registers that differ afterwards.
//!
//! Operations are opaque except for what they read and write. Values are equal if the same operation computed
//! them from equal values; [`Terms::operation`] has the few additional equalities.

use std::collections::HashMap;

use antares_program::{Instruction, Op, Reg, RegSet};

use super::difference::Why;

/// Operands and result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// From two registers to one.
    Two,
    /// From a register and an immediate to a register.
    One,
    /// From an immediate to a register.
    Number,
    /// From memory at a register plus an immediate to a register.
    Load,
    /// From a register to memory.
    Store,
}

/// The shape of `op`. `None` if it is not straight-line code.
pub(crate) fn shape(op: Op) -> Option<Shape> {
    use Op::*;
    Some(match op {
        Add | Addw | Sub | Subw | And | Or | Xor | Sll | Sllw | Srl | Srlw | Sra | Sraw | Slt | Sltu
        | Mul | Mulw | Mulh | Mulhsu | Mulhu | Div | Divu | Divw | Divuw | Rem | Remu | Remw | Remuw
        | Adduw | Andn | Orn | Xnor | Bclr | Bext | Binv | Bset | Clmul | Clmulh | Clmulr | Max | Maxu
        | Min | Minu | Rol | Rolw | Ror | Rorw | Sh1add | Sh2add | Sh3add | Sh1adduw | Sh2adduw
        | Sh3adduw => Shape::Two,
        Addi | Addiw | Andi | Ori | Xori | Slli | Slliw | Srli | Srliw | Srai | Sraiw | Slti | Sltiu
        | Bclri | Bexti | Binvi | Bseti | Rori | Roriw | Slliuw | Clz | Clzw | Ctz | Ctzw | Cpop | Cpopw
        | Orcb | Rev8 | Sextb | Sexth | Zexth => Shape::One,
        Lui | Auipc => Shape::Number,
        Lb | Lbu | Lh | Lhu | Lw | Lwu | Ld => Shape::Load,
        Sb | Sh | Sw | Sd => Shape::Store,
        _ => return None,
    })
}

/// Whether the operands commute.
pub(crate) fn is_commutative(op: Op) -> bool {
    use Op::*;
    matches!(op, Add | Addw | And | Or | Xor | Xnor | Mul | Mulw | Mulh | Mulhu | Max | Maxu | Min | Minu)
}

/// Number of a value: equal values of both sides have the same number.
type Value = usize;

/// Origin of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Term {
    /// Initial content of a register. With a side, if the two sides differed.
    Start {
        register: usize,
        side: Option<Side>,
    },
    Operation {
        op: Op,
        sources: [Value; 2],
        number: i64,
    },
    /// Memory after a number of stores.
    Load {
        op: Op,
        base: Value,
        offset: i64,
        stores: usize,
    },
}

/// One of the two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Old,
    New,
}

/// All values of both sides.
#[derive(Default)]
struct Terms(HashMap<Term, Value>);

impl Terms {
    fn of(&mut self, term: Term) -> Value {
        let next = self.0.len();
        *self.0.entry(term).or_insert(next)
    }

    fn start(&mut self, register: usize, side: Option<Side>) -> Value {
        self.of(Term::Start { register, side })
    }

    fn operation(&mut self, op: Op, mut sources: [Value; 2], number: i64) -> Value {
        let zero = self.start(0, None);
        // A move yields its operand.
        match (op, sources) {
            (Op::Addi, [moved, _]) if number == 0 => return moved,
            (Op::Add, [moved, other] | [other, moved]) if other == zero => return moved,
            _ => {}
        }
        if is_commutative(op) {
            sources.sort_unstable();
        }
        self.of(Term::Operation { op, sources, number })
    }
}

/// A memory access: the operation, base, offset, number of earlier stores, and for a store the value.
type Access = (usize, &'static str, Value, i64, Option<Value>);

/// State of one side.
struct State {
    registers: [Value; 32],
    loads: Vec<Access>,
    stores: Vec<Access>,
}

impl State {
    fn new(terms: &mut Terms, side: Side, differing: RegSet) -> Self {
        let start = |index: u8| {
            let side = differing.has(Reg(index)).then_some(side);
            terms.start(usize::from(index), side)
        };
        Self {
            registers: (0..32).map(start).collect::<Vec<_>>().try_into().unwrap_or([0; 32]),
            loads: Vec::new(),
            stores: Vec::new(),
        }
    }

    /// Executes `instruction` at `pc`. Returns false if it is not straight-line code.
    fn execute(&mut self, terms: &mut Terms, pc: u64, instruction: &Instruction) -> bool {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        let Some(shape) = shape(op) else { return false };
        let zero = terms.start(0, None);
        let [first, second] = [rs1, rs2].map(|register| self.registers[register.index()]);
        let value = match shape {
            Shape::Two => terms.operation(op, [first, second], 0),
            Shape::One => terms.operation(op, [first, zero], imm),
            Shape::Number => {
                let from = if op == Op::Auipc { pc.cast_signed() } else { 0 };
                terms.operation(op, [zero, zero], imm.wrapping_add(from))
            }
            Shape::Load => {
                self.loads.push((self.stores.len(), op.name(), first, imm, None));
                terms.of(Term::Load { op, base: first, offset: imm, stores: self.stores.len() })
            }
            Shape::Store => {
                self.stores.push((self.stores.len(), op.name(), first, imm, Some(second)));
                return true;
            }
        };
        if rd != Reg::ZERO {
            self.registers[rd.index()] = value;
        }
        true
    }
}

/// The registers that differ after `old` and `new` if `differing` differed before, and everything else was
/// equal. Afterwards, memory is equal, and one side fails if the other does.
///
/// # Errors
/// The pieces differ in memory accesses or in failures.
pub(crate) fn differing_after(
    old: &[(u64, Instruction)],
    new: &[(u64, Instruction)],
    differing: RegSet,
) -> Result<RegSet, Why> {
    let mut terms = Terms::default();
    let mut run = |side: Side, code: &[(u64, Instruction)]| {
        let mut state = State::new(&mut terms, side, differing);
        let is_straight = code.iter().all(|(pc, instruction)| state.execute(&mut terms, *pc, instruction));
        state.loads.sort_unstable();
        is_straight.then_some(state).ok_or(Why::Instruction)
    };
    let (old, new) = (run(Side::Old, old)?, run(Side::New, new)?);
    if old.stores != new.stores {
        return Err(Why::Stores);
    }
    if old.loads != new.loads {
        return Err(Why::Loads);
    }
    // Accesses that depend on a differing register use a separate name on each side.
    let differ = (1..32)
        .map(Reg)
        .filter(|register| old.registers[register.index()] != new.registers[register.index()]);
    Ok(differ.fold(RegSet::EMPTY, RegSet::with))
}
