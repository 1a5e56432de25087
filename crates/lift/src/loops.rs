//! Counted loops: one block that runs a number of times which is known before the first.
//!
//! Such a loop gets two bodies and a block in front that chooses. It bounds the number of passes from the registers, and
//! takes the *bounded* body if all of it fits into the cycles left, or nearly, and every access of every pass lies in memory: there,
//! nothing is looked at again. Else the loop runs as it was, with every check and the meter; so the choice may be wrong
//! on the safe side only, and nothing leaves native code because of it.
//!
//! The bound holds because of what the block in front asks for: the lower of counter and end is below 2^30 and they are
//! at most 2^24 apart, so no counter wraps on 64 or 32 bits before the loop ends.

use antares_program::{BlockId, GuestAddr, Reg};

use crate::ir::{Access, BinaryOp, Block, Function, Module, Op, Terminator, UnaryOp, Value};

/// A loop with more operations is not doubled: what is saved would not show.
const OPS_MAX: usize = 256;

/// Steps and distances beyond this are not followed.
const STEP_MAX: i64 = 4096;

/// The lower of counter and end is below this.
const START_MAX: i64 = 1 << 30;

/// Counter and end are less than this apart.
const DISTANCE_MAX: i64 = 1 << 24;

/// Cycles that a bounded loop may use beyond those left. A script beyond its limit has no other effect, so that the look
/// after the loop is early enough; a pause waits for a millisecond at the most.
const OVERDRAFT: i64 = 1 << 22;

/// Doubles the counted loops of `module`.
pub(crate) fn double(module: &mut Module) {
    let bounds = Bounds { read: module.bounds(Access::Read), write: module.bounds(Access::Write) };
    for function in &mut module.functions {
        double_in(function, &bounds);
    }
}

/// Where accesses may lie, `[start, end)`.
struct Bounds {
    read: (u64, u64),
    write: (u64, u64),
}

fn double_in(function: &mut Function, bounds: &Bounds) {
    for index in 0..function.blocks.len() {
        let block = &function.blocks[index];
        let id = |index: usize| BlockId(u32::try_from(index).unwrap_or(u32::MAX));
        let (chooser, plain, bounded) = (id(index), id(function.blocks.len()), id(function.blocks.len() + 1));
        if block.ops.len() > OPS_MAX {
            continue;
        }
        let Some(count) = Count::of(block, chooser) else { continue };
        let (front, checks) = count.front(block, bounds, (bounded, plain));
        let mut fast = with_body(block, chooser, bounded);
        fast.is_bounded = true;
        for op in &mut fast.ops {
            if let Op::Check { access, base, low, high } = *op
                && checks.contains(op)
            {
                *op = Op::Proved { access, base, low, high };
            }
        }
        let slow = with_body(block, chooser, plain);
        function.blocks[index] = front;
        function.blocks.extend([slow, fast]);
    }
}

/// The block as a loop of its own at another place.
fn with_body(block: &Block, from: BlockId, to: BlockId) -> Block {
    let mut block = block.clone();
    if let Terminator::Branch { taken, otherwise, .. } = &mut block.terminator {
        for target in [taken, otherwise] {
            if *target == from {
                *target = to;
            }
        }
    }
    block
}

/// `register + offset` at the start of a pass, or a number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Term {
    register: Option<Reg>,
    offset: i64,
}

impl Term {
    fn of(block: &Block, value: Value) -> Option<Self> {
        let constant = |value: Value| match block.ops[value.0 as usize] {
            Op::Const(number) if number.abs() <= STEP_MAX => Some(number),
            _ => None,
        };
        let (mut value, mut offset) = (value, 0_i64);
        for _ in 0..4 {
            match block.ops[value.0 as usize] {
                Op::Read(register) if offset.abs() <= STEP_MAX => {
                    return Some(Self { register: Some(register), offset });
                }
                Op::Const(number) if (0..START_MAX).contains(&number) => {
                    return Some(Self { register: None, offset: number + offset });
                }
                Op::Binary(BinaryOp::Add, x, y) => (value, offset) = (x, offset + constant(y)?),
                Op::Binary(BinaryOp::Sub, x, y) => (value, offset) = (x, offset - constant(y)?),
                _ => return None,
            }
        }
        None
    }
}

/// `value`, or the low word that it extends: the same, where the word does not overflow.
fn without_extension(block: &Block, value: Value) -> (Value, bool) {
    match block.ops[value.0 as usize] {
        Op::Unary(UnaryOp::SextW, inner) => (inner, true),
        _ => (value, false),
    }
}

/// How far a register moves in each pass, and whether on its low word alone; none if that is no constant.
fn step(block: &Block, register: Option<Reg>) -> Option<(i64, bool)> {
    let written = block.writes.iter().find(|(written, _)| Some(*written) == register);
    let Some((register, value)) = written else { return Some((0, false)) };
    let (value, is_word) = without_extension(block, *value);
    let term = Term::of(block, value)?;
    (term.register == Some(*register)).then_some((term.offset, is_word))
}

/// When the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum While {
    /// Counter and end differ.
    Differs,
    /// The counter has not reached the end.
    Before,
    /// The counter is not beyond the end.
    NotBeyond,
}

/// The counter of a loop, what it runs to, and how.
struct Count {
    counter: Term,
    end: Term,
    step: i64,
    goes_on: While,
    is_unsigned: bool,
}

impl Count {
    fn of(block: &Block, own: BlockId) -> Option<Self> {
        let Terminator::Branch { condition, taken, otherwise } = block.terminator else { return None };
        if (taken == own) == (otherwise == own) {
            return None;
        }
        let Op::Binary(op, x, y) = block.ops[condition.0 as usize] else { return None };
        let op = if taken == own { op } else { negated(op)? };
        let term = |value| Term::of(block, without_extension(block, value).0);
        let (x, y) = (term(x)?, term(y)?);
        let ((x_step, x_word), (y_step, y_word)) = (step(block, x.register)?, step(block, y.register)?);
        // As if the counter were on the left.
        let (counter, end, step, is_left) = match ((x_step, x_word), (y_step, y_word)) {
            (_, (0, false)) => (x, y, x_step, true),
            ((0, false), _) => (y, x, y_step, false),
            _ => return None,
        };
        let is_unsigned = matches!(op, BinaryOp::LtUnsigned | BinaryOp::GeUnsigned);
        let is_up = step > 0;
        // `counter < end` ends going up, `counter > end` going down.
        let goes_on = match op {
            BinaryOp::Ne => While::Differs,
            BinaryOp::Lt | BinaryOp::LtUnsigned if is_left == is_up => While::Before,
            BinaryOp::Ge | BinaryOp::GeUnsigned if is_left != is_up => While::NotBeyond,
            _ => return None,
        };
        let is_power = step.unsigned_abs().is_power_of_two();
        let is_sound = step != 0 && step.abs() <= STEP_MAX && (goes_on != While::Differs || is_power);
        is_sound.then_some(Self { counter, end, step, goes_on, is_unsigned })
    }

    /// The block that chooses, and the checks that the bounded body needs no more.
    fn front(
        &self,
        block: &Block,
        bounds: &Bounds,
        (bounded, plain): (BlockId, BlockId),
    ) -> (Block, Vec<Op>) {
        let mut front = Front { ops: Vec::new(), all: None };
        let last = self.last_pass(&mut front);
        let passes = front.binary_const(BinaryOp::Add, last, 1);
        let cycles = front.binary_const(BinaryOp::Mul, passes, block.cycles.cast_signed());
        let left = front.push(Op::CyclesLeft);
        let left = front.binary_const(BinaryOp::Add, left, OVERDRAFT);
        let fits = front.binary(BinaryOp::Ge, left, cycles);
        front.ask(fits);
        let mut checks = Vec::new();
        for op in &block.ops {
            let Op::Check { access, base, low, high } = *op else { continue };
            let Some(Term { register: Some(register), offset }) = Term::of(block, base) else { continue };
            let Some((step, false)) = step(block, Some(register)) else { continue };
            let (start, end) = match access {
                Access::Read => bounds.read,
                Access::Write => bounds.write,
            };
            let bytes = high.wrapping_sub(low).cast_unsigned();
            let room = end.checked_sub(start).and_then(|room| room.checked_sub(bytes));
            let Some(room) = room.and_then(|room| i64::try_from(room).ok()) else { continue };
            let extent = front.binary_const(BinaryOp::Mul, last, step.abs());
            let mut from = front.push(Op::Read(register));
            if step < 0 {
                from = front.binary(BinaryOp::Sub, from, extent);
            }
            let low = low.wrapping_add(offset).wrapping_sub_unsigned(start);
            front.ask_within(from, low, extent, room);
            checks.push(*op);
        }
        let condition = front.all.unwrap_or(fits);
        let terminator = Terminator::Branch { condition, taken: bounded, otherwise: plain };
        (front.block(block.pc, terminator), checks)
    }

    /// The number of the last pass, counted from 0, or more.
    fn last_pass(&self, front: &mut Front) -> Value {
        let (counter, end) = (front.term(self.counter), front.term(self.end));
        let size = self.step.abs();
        let (low, high) = if self.step > 0 { (counter, end) } else { (end, counter) };
        let is_low = front.below(low, START_MAX);
        front.ask(is_low);
        let distance = front.binary(BinaryOp::Sub, high, low);
        let is_near = front.below(distance, DISTANCE_MAX);
        front.ask(is_near);
        if self.step < 0 && self.is_unsigned {
            // Below the end the counter must not wrap.
            let size = front.push(Op::Const(size));
            let is_far_from_zero = front.binary(BinaryOp::GeUnsigned, low, size);
            front.ask(is_far_from_zero);
        }
        if self.goes_on == While::Differs && size > 1 {
            let rest = front.binary_const(BinaryOp::And, distance, size - 1);
            let zero = front.push(Op::Const(0));
            let meets = front.binary(BinaryOp::Eq, rest, zero);
            front.ask(meets);
        }
        let is_power = size.cast_unsigned().is_power_of_two();
        let (add, more) = match self.goes_on {
            While::Differs => (0, 0),
            While::Before if is_power => (size - 1, 0),
            _ => (0, 1),
        };
        let distance = front.binary_const(BinaryOp::Add, distance, add);
        let shifted = front.binary_const(BinaryOp::Lshr, distance, i64::from(size.ilog2()));
        front.binary_const(BinaryOp::Add, shifted, more)
    }
}

/// The comparison that holds when `op` does not.
fn negated(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::LtUnsigned => BinaryOp::GeUnsigned,
        BinaryOp::GeUnsigned => BinaryOp::LtUnsigned,
        _ => return None,
    })
}

/// The block in front of a loop, being built.
struct Front {
    ops: Vec<Op>,
    /// Whether everything asked so far holds.
    all: Option<Value>,
}

impl Front {
    fn push(&mut self, op: Op) -> Value {
        self.ops.push(op);
        Value(u32::try_from(self.ops.len() - 1).unwrap_or(u32::MAX))
    }

    fn binary(&mut self, op: BinaryOp, x: Value, y: Value) -> Value {
        self.push(Op::Binary(op, x, y))
    }

    fn binary_const(&mut self, op: BinaryOp, x: Value, number: i64) -> Value {
        let y = self.push(Op::Const(number));
        self.binary(op, x, y)
    }

    fn below(&mut self, x: Value, end: i64) -> Value {
        self.binary_const(BinaryOp::LtUnsigned, x, end)
    }

    fn term(&mut self, term: Term) -> Value {
        match term.register {
            Some(Reg::ZERO) | None => self.push(Op::Const(term.offset)),
            Some(register) => {
                let value = self.push(Op::Read(register));
                self.binary_const(BinaryOp::Add, value, term.offset)
            }
        }
    }

    fn ask(&mut self, holds: Value) {
        self.all = Some(match self.all {
            Some(all) => self.binary(BinaryOp::And, all, holds),
            None => holds,
        });
    }

    /// Asks whether `from + low` and `extent` together are at most `room`.
    fn ask_within(&mut self, from: Value, low: i64, extent: Value, room: i64) {
        let room = self.push(Op::Const(room));
        let fits = self.binary(BinaryOp::GeUnsigned, room, extent);
        self.ask(fits);
        let room = self.binary(BinaryOp::Sub, room, extent);
        let distance = self.binary_const(BinaryOp::Add, from, low);
        let is_inside = self.binary(BinaryOp::GeUnsigned, room, distance);
        self.ask(is_inside);
    }

    fn block(self, pc: GuestAddr, terminator: Terminator) -> Block {
        Block {
            pc,
            cycles: 0,
            is_metered: false,
            is_bounded: false,
            ops: self.ops,
            writes: Vec::new(),
            terminator,
        }
    }
}
