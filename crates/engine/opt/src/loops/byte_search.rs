//! Loops that search a register for a nonzero byte, from the top down. libgcc counts leading and trailing
//! zeros this way without a special instruction (`__clzdi2`, `__ctzdi2`, and floating point that uses them).
//!
//! The iterations only move the counter and extract a byte. So one block replaces the loop: it counts the
//! zeros, charges all iterations and continues after the loop.

use antares_ir::{BinaryOp, Block, Function, Op, Terminator, UnaryOp, Value};
use antares_program::{BlockId, GuestAddr, Reg};

use crate::loops::guard::GuardBuilder;

/// Bits that the search compares at once.
const STEP: i64 = 8;
/// The last counter from which the search compares bits of a register.
const COUNTER_MAX: i64 = 56;

/// A loop of two blocks. One subtracts [`STEP`] from the counter and ends the loop at zero. The other ends
/// the loop if the byte of the word at the counter is not zero.
struct ByteSearch {
    counter: Reg,
    word: Reg,
    byte: Reg,
    /// The exit with the counter at zero.
    at_zero: BlockId,
    /// The exit with a nonzero byte.
    found: BlockId,
}

/// Guards the loop of the blocks `body`, header first, if it is a byte search. Returns whether it is.
pub(super) fn shorten(function: &mut Function, body: &[usize]) -> bool {
    let Some(search) = ByteSearch::of(function, body) else { return false };
    let [plain, ahead] = [0, 1].map(|place| BlockId::at(function.blocks.len() + place));
    let pc = function.blocks[body[0]].pc;
    let [count, look] = [0, 1].map(|place| function.blocks[body[place]].cycles);
    let guard = search.guard(pc, ahead, plain);
    super::insert_guard(function, body, guard);
    function.blocks.push(search.ahead(pc, count, look));
    true
}

impl ByteSearch {
    fn of(function: &Function, body: &[usize]) -> Option<Self> {
        let [header, test] = *body else { return None };
        let (count, look) = (&function.blocks[header], &function.blocks[test]);
        let (header, test) = (BlockId::at(header), BlockId::at(test));
        let (counter, left) = only_write(count)?;
        let (byte, found) = only_write(look)?;
        let moves = binary(count, left, BinaryOp::Add)?;
        let is_counted = count.read_of(moves.0) == Some(counter) && count.number(moves.1) == Some(-STEP);
        let (at_zero, next) = if_zero(count, left)?;
        let (again, end) = if_zero(look, found)?;
        let masked = binary(look, found, BinaryOp::And)?;
        let shifted = binary(look, masked.0, BinaryOp::Lshr)?;
        let word = look.read_of(shifted.0)?;
        let is_compared = look.number(masked.1) == Some(0xff) && look.read_of(shifted.1) == Some(counter);
        let search = Self { counter, word, byte, at_zero, found: end };
        let is_left = [at_zero, end].iter().all(|end| ![header, test].contains(end));
        let is_search = is_counted && is_compared && next == test && again == header && is_left;
        let is_apart = word != counter && byte != counter && byte != word;
        // The code after the exit at zero does not read the byte, so the byte may differ from the loop's.
        let behind = function.blocks.get(at_zero.0 as usize)?;
        (is_search && is_apart && forgets(behind, byte)).then_some(search)
    }

    /// Creates the guard, which checks that the counter starts at a byte.
    fn guard(&self, pc: GuestAddr, ahead: BlockId, plain: BlockId) -> Block {
        let mut guard = GuardBuilder::default();
        let counter = guard.push(Op::Read(self.counter));
        let first = guard.binary_const(BinaryOp::Add, counter, -STEP);
        let rest = guard.binary_const(BinaryOp::And, first, !COUNTER_MAX);
        let is_place = guard.binary_const(BinaryOp::Eq, rest, 0);
        guard.require(is_place);
        guard.finish(pc, ahead, plain)
    }

    /// Creates the replacement of the loop. It charges each iteration `count` cycles, and `look` cycles if
    /// the iteration compares a byte.
    fn ahead(&self, pc: GuestAddr, count: u64, look: u64) -> Block {
        let mut ahead = GuardBuilder::default();
        let counter = ahead.push(Op::Read(self.counter));
        let word = ahead.push(Op::Read(self.word));
        // The bits up to the first compared byte, and the lowest bit, so that one bit is set.
        let above = ahead.push(Op::Const(COUNTER_MAX + STEP));
        let above = ahead.binary(BinaryOp::Sub, above, counter);
        let all = ahead.push(Op::Const(-1));
        let bits = ahead.binary(BinaryOp::Lshr, all, above);
        let bits = ahead.binary(BinaryOp::And, word, bits);
        let bits = ahead.binary_const(BinaryOp::Or, bits, 1);
        let zeros = ahead.push(Op::Unary(UnaryOp::Clz, bits));
        let zeros = ahead.binary_const(BinaryOp::And, zeros, COUNTER_MAX);
        let highest = ahead.push(Op::Const(COUNTER_MAX));
        let place = ahead.binary(BinaryOp::Sub, highest, zeros);
        let distance = ahead.binary(BinaryOp::Sub, counter, place);
        let iterations = ahead.binary_const(BinaryOp::Lshr, distance, i64::from(STEP.ilog2()));
        let charged = ahead.binary_const(BinaryOp::Mul, iterations, (count + look).cast_signed());
        // The iteration with the counter at zero compares no byte.
        let is_zero = ahead.binary_const(BinaryOp::Eq, place, 0);
        let saved = ahead.binary_const(BinaryOp::Mul, is_zero, look.cast_signed());
        let charged = ahead.binary(BinaryOp::Sub, charged, saved);
        ahead.push(Op::Charge(charged));
        let shifted = ahead.binary(BinaryOp::Lshr, word, place);
        let byte = ahead.binary_const(BinaryOp::And, shifted, 0xff);
        let writes = vec![(self.counter, place), (self.byte, byte)];
        let end = match self.at_zero == self.found {
            true => Terminator::Jump(self.found),
            false => Terminator::Branch { condition: is_zero, taken: self.at_zero, otherwise: self.found },
        };
        Block { writes, ..Block::between(pc, ahead.ops, end) }
    }
}

/// The register that a block writes, and its value, if the block does nothing else.
fn only_write(block: &Block) -> Option<(Reg, Value)> {
    let is_pure =
        block.ops.iter().all(|op| matches!(op, Op::Const(_) | Op::Read(_) | Op::Binary(..) | Op::Unary(..)));
    match block.writes[..] {
        [write] if is_pure => Some(write),
        _ => None,
    }
}

/// The targets of a block's branch if `value` is zero, and if it is not.
fn if_zero(block: &Block, value: Value) -> Option<(BlockId, BlockId)> {
    let Terminator::Branch { condition, taken, otherwise } = block.terminator else { return None };
    match block.op(condition) {
        Op::Binary(op, x, y) if x == value && block.number(y) == Some(0) => match op {
            BinaryOp::Eq => Some((taken, otherwise)),
            BinaryOp::Ne => Some((otherwise, taken)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a block writes a register without reading it first.
fn forgets(block: &Block, register: Reg) -> bool {
    block.written(register).is_some() && !block.ops.contains(&Op::Read(register))
}

fn binary(block: &Block, value: Value, wanted: BinaryOp) -> Option<(Value, Value)> {
    match block.op(value) {
        Op::Binary(op, x, y) if op == wanted => Some((x, y)),
        _ => None,
    }
}
