//! Finds jumps through constant tables in executable pages, which nothing can write. The table index then
//! determines the target, and the jump need not load the entry.

use std::collections::HashMap;

use antares_ir::{BinaryOp, Block, Function, JumpTable, Module, Op, Terminator, Value, Width};
use antares_program::{GuestAddr, Program};

use crate::Context;

const ENTRIES_MAX: u64 = 4096;

/// Maximum entries of all tables of a program: each is an edge, and tables may overlap.
const ALL_ENTRIES_MAX: usize = 1 << 16;

/// Maximum constants to record per register of a function, one of which may be a table.
const DEFINITIONS_MAX: usize = 16;

/// Records the tables of all jumps that have one, unless many jumps of a function share it: each needs an
/// edge to each target.
pub(crate) fn name(module: &mut Module, Context { program, target }: Context) {
    let mut entries_left = ALL_ENTRIES_MAX;
    for function in &mut module.functions {
        let numbers = numbers(function);
        let found: Vec<_> = function.blocks.iter().map(|block| find(block, &numbers, program)).collect();
        let mut jumps: HashMap<u64, usize> = HashMap::new();
        for table in found.iter().flatten() {
            *jumps.entry(table.start).or_default() += 1;
        }
        for (block, found) in function.blocks.iter_mut().zip(found) {
            if let Terminator::JumpIndirect { table, .. } = &mut block.terminator {
                *table = found.filter(|table| {
                    jumps[&table.start] <= target.own_switches_max && table.entries.len() <= entries_left
                });
                entries_left -= table.as_ref().map_or(0, |table| table.entries.len());
            }
        }
    }
}

fn find(block: &Block, numbers: &[Vec<u64>; 32], program: &Program) -> Option<JumpTable> {
    let Terminator::JumpIndirect { target, candidates, .. } = &block.terminator else { return None };
    let Op::Binary(BinaryOp::And, target, mask) = block.op(*target) else { return None };
    if block.number(mask) != Some(!1) {
        return None;
    }
    let target = Sum::of(block, target);
    let is_load = |value: &Value| matches!(block.op(*value), Op::Load { .. });
    let entry = *target.values.iter().find(|value| is_load(value))?;
    let Op::Load { width, is_signed, base, offset } = block.op(entry) else { return None };
    let is_address = width == Width::Double || (width == Width::Word && is_signed);
    if !is_address {
        return None;
    }
    let others: Vec<Value> = target.values.iter().copied().filter(|value| *value != entry).collect();
    let candidates = candidates.iter().zip(0..).map(|((pc, _), index)| (*pc, index)).collect();
    let place = Sum::of(block, base);
    let try_table = |base, register: Option<(Value, u64)>| {
        let origin = register.map_or(0, |(_, at)| at);
        let is_counted = |value: &Value| register.is_some_and(|(register, _)| register == *value);
        let origins = match others.as_slice() {
            [] => 0,
            [other] if is_counted(other) => origin,
            _ => return None,
        };
        let plus = target.number.cast_unsigned().wrapping_add(origins);
        let start = place.number.wrapping_add(offset).cast_unsigned().wrapping_add(origin);
        let entries = entries(&candidates, program, (start, width), plus);
        (!entries.is_empty()).then_some(JumpTable { register, base, start, width, entries })
    };
    match place.values[..] {
        [base] => try_table(base, None),
        [a, b] => [(a, b), (b, a)].into_iter().find_map(|(register, base)| {
            numbers[block.read_of(register)?.index()]
                .iter()
                .find_map(|number| try_table(base, Some((register, *number))))
        }),
        _ => None,
    }
}

/// The targets in the table at `start`, up to the first that is no candidate. Adds `plus` to each entry.
fn entries(
    candidates: &HashMap<GuestAddr, usize>,
    program: &Program,
    (start, width): (u64, Width),
    plus: u64,
) -> Vec<usize> {
    let goes_to = |index: u64| {
        let address = start.checked_add(index * width.bytes().cast_unsigned())?;
        let entry = match width {
            Width::Word => i64::from(program.code_bytes(address).map(i32::from_le_bytes)?),
            _ => program.code_bytes(address).map(i64::from_le_bytes)?,
        };
        let target = GuestAddr(entry.cast_unsigned().wrapping_add(plus) & !1);
        candidates.get(&target).copied()
    };
    (0..ENTRIES_MAX).map_while(goes_to).collect()
}

/// By register: constants that blocks of `function` set it to. Empty without indirect jumps.
fn numbers(function: &Function) -> [Vec<u64>; 32] {
    let mut numbers = [const { Vec::new() }; 32];
    let has_jumps = |block: &Block| matches!(block.terminator, Terminator::JumpIndirect { .. });
    if !function.blocks.iter().any(has_jumps) {
        return numbers;
    }
    for block in &function.blocks {
        for (register, value) in &block.writes {
            let known = &mut numbers[register.index()];
            if let Some(number) = block.number(*value)
                && known.len() < DEFINITIONS_MAX
                && !known.contains(&number.cast_unsigned())
            {
                known.push(number.cast_unsigned());
            }
        }
    }
    numbers
}

/// The sum of values and a constant.
struct Sum {
    values: Vec<Value>,
    number: i64,
}

impl Sum {
    /// Splits a sum into up to three values; further sums stay one value.
    fn of(block: &Block, value: Value) -> Self {
        let (mut values, mut number) = (Vec::new(), 0_i64);
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match block.op(value) {
                Op::Const(plus) => number = number.wrapping_add(plus),
                Op::Binary(BinaryOp::Add, a, b) if open.len() + values.len() < 3 => open.extend([a, b]),
                _ => values.push(value),
            }
        }
        Self { values, number }
    }
}
