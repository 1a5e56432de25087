//! One block: guest instructions in, operations out. The methods here are what the instruction lifters build with.

use std::collections::HashMap;

use antares_ir::{BinaryOp, Block, Op, Terminator, UnaryOp, Value, Width};
use antares_program::{GuestAddr, Reg};

use crate::memory::{Accesses, BaseOffset};

/// Builds the operations of one block.
pub(crate) struct BlockBuilder {
    ops: Vec<Op>,
    registers: [Option<Value>; 32],
    written: [bool; 32],
    constants: HashMap<i64, Value>,
    addresses: HashMap<Value, BaseOffset>,
    accesses: Accesses,
}

impl BlockBuilder {
    pub(crate) fn new() -> Self {
        Self {
            ops: Vec::new(),
            registers: [None; 32],
            written: [false; 32],
            constants: HashMap::new(),
            addresses: HashMap::new(),
            accesses: Accesses::default(),
        }
    }

    pub(crate) fn push(&mut self, op: Op) -> Value {
        let value = Value::at(self.ops.len());
        self.ops.push(op);
        value
    }

    pub(crate) fn constant(&mut self, number: i64) -> Value {
        if let Some(value) = self.constants.get(&number) {
            return *value;
        }
        let value = self.push(Op::Const(number));
        self.constants.insert(number, value);
        value
    }

    pub(crate) fn address_constant(&mut self, address: GuestAddr) -> Value {
        self.constant(address.0.cast_signed())
    }

    /// The number that `value` always is, if it is one.
    fn number(&self, value: Value) -> Option<i64> {
        match self.ops[value.0 as usize] {
            Op::Const(number) => Some(number),
            _ => None,
        }
    }

    /// Current value of a register.
    pub(crate) fn get(&mut self, register: Reg) -> Value {
        if register == Reg::ZERO {
            return self.constant(0);
        }
        if let Some(value) = self.registers[register.index()] {
            return value;
        }
        let value = self.push(Op::Read(register));
        self.registers[register.index()] = Some(value);
        value
    }

    /// Sets a register; `x0` stays 0.
    pub(crate) fn set(&mut self, register: Reg, value: Value) {
        if register != Reg::ZERO {
            self.registers[register.index()] = Some(value);
            self.written[register.index()] = true;
        }
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        // `lui` and `addi` together load a constant, a syscall's number for one.
        if let (BinaryOp::Add, Some(x), Some(y)) = (op, self.number(a), self.number(b)) {
            return self.constant(x.wrapping_add(y));
        }
        let value = self.push(Op::Binary(op, a, b));
        if op == BinaryOp::Add {
            self.note_address(value, a, b);
        }
        value
    }

    pub(crate) fn binary_const(&mut self, op: BinaryOp, a: Value, number: i64) -> Value {
        let b = self.constant(number);
        self.binary(op, a, b)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        if let (UnaryOp::SextW, Some(number)) = (op, self.number(a)) {
            return self.constant(number << 32 >> 32);
        }
        self.push(Op::Unary(op, a))
    }

    /// Remembers that `value` is a known distance from another value, so that checks of both can be one.
    fn note_address(&mut self, value: Value, a: Value, b: Value) {
        if let Op::Const(offset) = self.ops[b.0 as usize] {
            let address = self.address(a).plus(offset);
            self.addresses.insert(value, address);
        }
    }

    /// `value` as a base and a distance.
    fn address(&self, value: Value) -> BaseOffset {
        self.addresses.get(&value).copied().unwrap_or(BaseOffset { base: value, offset: 0 })
    }

    pub(crate) fn load(&mut self, width: Width, is_signed: bool, base: Value, offset: i64) -> Value {
        let address = self.address(base).plus(offset);
        self.accesses.read(address, width);
        self.push(Op::Load { width, is_signed, base: address.base, offset: address.offset })
    }

    pub(crate) fn store(&mut self, width: Width, base: Value, offset: i64, value: Value) {
        let address = self.address(base).plus(offset);
        self.accesses.write(address, width);
        self.push(Op::Store { width, base: address.base, offset: address.offset, value });
    }

    /// Registers that were written, with their final values.
    fn writes(&self) -> Vec<(Reg, Value)> {
        (1..32)
            .map(Reg)
            .filter(|register| self.written[register.index()])
            .filter_map(|register| Some((register, self.registers[register.index()]?)))
            .collect()
    }

    /// The block that was built, with its checks in place.
    pub(crate) fn finish(self, pc: GuestAddr, cycles: u64, terminator: Terminator) -> Block {
        let (checks, writes) = (self.accesses.checks(), self.writes());
        let mut block = Block { cycles, writes, ..Block::between(pc, self.ops, terminator) };
        block.put_checks(&checks);
        block
    }
}
