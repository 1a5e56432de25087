//! Places the checks in a block.
//!
//! A block executes as a whole, and a failed check bails out for good, so checks may move ahead of other
//! operations. Reads and constants come first, followed by the checks on them.

use std::collections::HashMap;

use crate::{Block, Op, Value};

impl Block {
    /// Removes all checks, including proved ones. The results refer to the remaining operations.
    pub fn take_checks(&mut self) -> Vec<Op> {
        let ops = std::mem::take(&mut self.ops);
        let mut placed = Placed::new(ops.len());
        let mut checks = Vec::new();
        for (value, op) in (0..).map(Value).zip(&ops) {
            match op {
                Op::Check { .. } | Op::Proved { .. } => checks.push(op.map(|value| placed.value(value))),
                _ => placed.define(value, op),
            }
        }
        placed.become_those_of(self);
        checks
    }

    /// Inserts each of `checks` as soon as its base is known.
    pub fn put_checks(&mut self, checks: &[Op]) {
        let ops = std::mem::take(&mut self.ops);
        let mut placed = Placed::new(ops.len() + checks.len());
        let mut by_base: HashMap<Value, Vec<&Op>> = HashMap::new();
        for check in checks {
            if let Op::Check { base, .. } | Op::Proved { base, .. } = check {
                by_base.entry(*base).or_default().push(check);
            }
        }
        let values = || (0..).map(Value).zip(&ops);
        let is_early = |op: &Op| matches!(op, Op::Read(_) | Op::Const(_));
        for (value, op) in values().filter(|(_, op)| is_early(op)) {
            placed.define(value, op);
        }
        for check in
            values().filter(|(_, op)| is_early(op)).filter_map(|(value, _)| by_base.get(&value)).flatten()
        {
            placed.push(check);
        }
        for (value, op) in values().filter(|(_, op)| !is_early(op)) {
            placed.define(value, op);
            for check in by_base.get(&value).into_iter().flatten() {
                placed.push(check);
            }
        }
        placed.become_those_of(self);
    }
}

/// Operations in a new order, and the new numbers of values.
struct Placed {
    ops: Vec<Op>,
    renumbered: Vec<Value>,
}

impl Placed {
    fn new(count: usize) -> Self {
        Self { ops: Vec::with_capacity(count), renumbered: vec![Value(u32::MAX); count] }
    }

    /// Appends the operation that produced `value`.
    fn define(&mut self, value: Value, op: &Op) {
        self.renumbered[value.0 as usize] = Value::at(self.ops.len());
        self.push(op);
    }

    fn push(&mut self, op: &Op) {
        let op = op.map(|value| self.value(value));
        self.ops.push(op);
    }

    fn value(&self, value: Value) -> Value {
        self.renumbered[value.0 as usize]
    }

    fn become_those_of(self, block: &mut Block) {
        block.writes.iter_mut().for_each(|(_, value)| *value = self.value(*value));
        block.terminator = block.terminator.map(|value| self.value(value));
        block.ops = self.ops;
    }
}
