//! Proves the charges of omitted loops: each block that replaces a loop ([`Op::Charge`]) charges the loop's
//! cycles and continues where the loop ends.
//!
//! A guard before such a block passes few values of one register. For each of them, this module executes the
//! block and the loop on known bits of registers. The loop's effect depends on only one other register: on
//! its highest bit below the value of the first. The proof tries every position of that bit, and none, so it
//! covers every word. An undecided branch or charge fails the proof. Each such block takes at most 2^8 values
//! times 65 positions times [`STEPS_MAX`] blocks.

use antares_ir::{BinaryOp, Block, Cfg, Function, Op, Terminator, UnaryOp, Value};
use antares_program::{BlockId, Reg};

use crate::bits::Bits;

/// Maximum blocks of a loop to execute.
const STEPS_MAX: usize = 64;

/// Maximum bits in which the values that pass a guard may differ.
const COUNTER_BITS_MAX: u32 = 8;

/// The first block with an unproved charge.
pub(super) fn unproved(function: &Function, cfg: &Cfg) -> Option<BlockId> {
    let charges = |block: &Block| block.ops.iter().any(|op| matches!(op, Op::Charge(_)));
    let mut ids = (0..).map(BlockId).zip(&function.blocks).filter(|(_, block)| charges(block));
    ids.find(|(id, _)| is_proved(function, cfg, *id).is_none()).map(|(id, _)| id)
}

/// Proves the charge of a block.
fn is_proved(function: &Function, cfg: &Cfg, id: BlockId) -> Option<()> {
    let block = &function.blocks[id.0 as usize];
    let (guard, instead) = guard(function, cfg, id)?;
    let (counter, counters) = passing(guard)?;
    let mut others = block.reads().filter(|register| *register != counter);
    let word = others.next().filter(|word| others.all(|other| other == *word))?;
    counters.into_iter().try_for_each(|value| {
        let end = u32::try_from(value).map_or(64, |end| end.min(64));
        std::iter::once(None).chain((0..end).map(Some)).try_for_each(|highest| {
            let mut start = Run { registers: [Bits::UNKNOWN; 32], cycles: 0 };
            start.registers[word.index()] = Bits::highest_below(end, highest);
            start.registers[counter.index()] = Bits::of(value);
            comes_to_the_same(function, block, instead, start)
        })
    })
}

/// The guard, whose taken branch is the only edge to block `id`, and the guard's other target.
fn guard<'f>(function: &'f Function, cfg: &Cfg, id: BlockId) -> Option<(&'f Block, BlockId)> {
    let &[before] = cfg.predecessors(id.0 as usize) else { return None };
    let guard = function.blocks.get(before).filter(|_| id != BlockId(0))?;
    match guard.terminator {
        Terminator::Branch { taken, otherwise, .. } if taken == id && otherwise != id => {
            guard.writes.is_empty().then_some((guard, otherwise))
        }
        _ => None,
    }
}

/// The register that `guard` compares, and its values that pass: after the addition of a number, they have no
/// bit of a mask set.
fn passing(guard: &Block) -> Option<(Reg, Vec<u64>)> {
    let Terminator::Branch { condition, .. } = guard.terminator else { return None };
    let binary = |value: Value, wanted: BinaryOp| match guard.op(value) {
        Op::Binary(op, x, y) if op == wanted => Some((x, guard.number(y)?.cast_unsigned())),
        _ => None,
    };
    let (masked, _) = binary(condition, BinaryOp::Eq).filter(|(_, number)| *number == 0)?;
    let (sum, mask) = binary(masked, BinaryOp::And)?;
    let (counter, more) = binary(sum, BinaryOp::Add)?;
    let free = !mask;
    let mut values = Vec::new();
    // All numbers made of free bits only, from the highest down.
    let mut number = free;
    while free.count_ones() <= COUNTER_BITS_MAX {
        values.push(number.wrapping_sub(more));
        if number == 0 {
            return Some((guard.read_of(counter)?, values));
        }
        number = (number - 1) & free;
    }
    None
}

/// Proves that `block` and the loop that begins at `instead` reach the same block with the same number of
/// cycles.
fn comes_to_the_same(function: &Function, block: &Block, instead: BlockId, start: Run) -> Option<()> {
    let (mut with, mut without) = (start, start);
    let end = with.execute(block)?;
    let mut at = instead;
    for _ in 0..STEPS_MAX {
        if at == end {
            return (with.cycles == without.cycles).then_some(());
        }
        at = without.execute(&function.blocks[at.0 as usize])?;
    }
    None
}

/// The known state of an execution.
#[derive(Clone, Copy)]
struct Run {
    registers: [Bits; 32],
    cycles: i128,
}

impl Run {
    /// Executes a block that accesses only registers, and returns the next block, if known.
    fn execute(&mut self, block: &Block) -> Option<BlockId> {
        let mut values: Vec<Bits> = Vec::with_capacity(block.ops.len());
        self.cycles += i128::from(block.cycles);
        for op in &block.ops {
            let get = |value: Value| values[value.0 as usize];
            values.push(match *op {
                Op::Const(number) => Bits::of(number.cast_unsigned()),
                Op::Read(register) => self.registers[register.index()],
                Op::Binary(op, x, y) => Bits::binary(op, get(x), get(y)),
                Op::Unary(UnaryOp::Clz, x) => get(x).leading_zeros(),
                Op::Unary(..) => Bits::UNKNOWN,
                Op::Charge(cycles) => {
                    self.cycles += i128::from(get(cycles).number()?.cast_signed());
                    Bits::UNKNOWN
                }
                // Everything else is more than arithmetic.
                _ => return None,
            });
        }
        for (register, value) in &block.writes {
            self.registers[register.index()] = values[value.0 as usize];
        }
        match block.terminator {
            Terminator::Jump(to) => Some(to),
            Terminator::Branch { condition, taken, otherwise } => {
                let is_taken = values[condition.0 as usize].number()? != 0;
                Some(if is_taken { taken } else { otherwise })
            }
            _ => None,
        }
    }
}
