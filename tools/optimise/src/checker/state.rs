//! Two pieces of straight code, executed on symbols side by side: which registers differ behind them.
//!
//! Nothing is known of an operation but what it reads and what it writes. Values are equal if the same
//! operation made them of equal values; what is known beyond that stands in [`Terms::operation`].

use std::collections::HashMap;

use antares_program::{Instruction, Op, Reg, RegSet};

/// What an operation reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Two registers, to one.
    Two,
    /// A register and a number, to one.
    One,
    /// A number, to one.
    Number,
    /// Memory at a register and a number, to one.
    Load,
    /// A register to memory.
    Store,
}

/// The shape of `op`. None if straight code has none such.
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

/// Whether the operands may change places.
fn is_commutative(op: Op) -> bool {
    use Op::*;
    matches!(op, Add | Addw | And | Or | Xor | Xnor | Mul | Mulw | Mulh | Mulhu | Max | Maxu | Min | Minu)
}

/// Number of a value: equal values of both sides have one number.
type Value = usize;

/// What made a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Term {
    /// What a register held before. With a side, the two held different values.
    Start {
        register: usize,
        side: Option<Side>,
    },
    Operation {
        op: Op,
        sources: [Value; 2],
        number: i64,
    },
    /// Memory after so many stores.
    Load {
        op: Op,
        base: Value,
        offset: i64,
        stores: usize,
    },
}

/// One of the two.
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
        // A move gives what it moves.
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

/// An access to memory: the operation, base and offset, after how many stores; of a store also the value.
type Access = (usize, &'static str, Value, i64, Option<Value>);

/// What one side has come to.
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

    /// Executes `instruction`, which is at `pc`. False if it is none of straight code.
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

/// Where two pieces of code differ, so that no more can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// One of them is more than straight code.
    Instruction,
    /// Loads between two stores: which ones, and of what. One that fails ends the script.
    Loads,
    /// Stores: which ones, in which order, where, and of what.
    Stores,
}

/// The registers that differ after `old` on one side and `new` on the other, if `differing` differed before
/// and all else was equal. Memory is equal afterwards, and one side fails if the other does.
///
/// # Errors
/// It is not, or not in the same way.
pub(crate) fn differing_after(
    old: &[(u64, Instruction)],
    new: &[(u64, Instruction)],
    differing: RegSet,
) -> Result<RegSet, Mismatch> {
    let mut terms = Terms::default();
    let mut run = |side: Side, code: &[(u64, Instruction)]| {
        let mut state = State::new(&mut terms, side, differing);
        let is_straight = code.iter().all(|(pc, instruction)| state.execute(&mut terms, *pc, instruction));
        state.loads.sort_unstable();
        is_straight.then_some(state).ok_or(Mismatch::Instruction)
    };
    let (old, new) = (run(Side::Old, old)?, run(Side::New, new)?);
    if old.stores != new.stores {
        return Err(Mismatch::Stores);
    }
    if old.loads != new.loads {
        return Err(Mismatch::Loads);
    }
    // Where accesses depend on a register that differs, both sides have names of their own for it.
    let differ = (1..32)
        .map(Reg)
        .filter(|register| old.registers[register.index()] != new.registers[register.index()]);
    Ok(differ.fold(RegSet::EMPTY, RegSet::with))
}
