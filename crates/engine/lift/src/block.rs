//! Builds one block: guest instructions in, operations out. The instruction lifters use these methods.

use std::collections::HashMap;

use antares_ir::{Access, BinaryOp, Block, Linear, Op, Terminator, UnaryOp, Value, Width};
use antares_program::{GuestAddr, Reg};

use crate::memory::Accesses;

#[derive(Default)]
pub(crate) struct BlockBuilder {
    ops: Vec<Op>,
    registers: [Option<Value>; 32],
    written: [bool; 32],
    constants: HashMap<i64, Value>,
    accesses: Accesses,
}

impl BlockBuilder {
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

    /// The number that `value` always holds, if it is constant.
    fn number(&self, value: Value) -> Option<i64> {
        self.ops[value.0 as usize].number()
    }

    /// Whether a register always holds `address` here.
    pub(crate) fn holds(&mut self, register: Reg, address: GuestAddr) -> bool {
        let value = self.get(register);
        self.number(value) == Some(address.0.cast_signed())
    }

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

    /// Sets a register to the sign-extended low word of `value`.
    pub(crate) fn set_word(&mut self, rd: Reg, value: Value) {
        let value = self.unary(UnaryOp::SextW, value);
        self.set(rd, value);
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        // `lui` and `addi` together load a constant, such as a syscall's number.
        if let (BinaryOp::Add, Some(x), Some(y)) = (op, self.number(a), self.number(b)) {
            return self.constant(x.wrapping_add(y));
        }
        self.push(Op::Binary(op, a, b))
    }

    pub(crate) fn binary_const(&mut self, op: BinaryOp, a: Value, number: i64) -> Value {
        let b = self.constant(number);
        self.binary(op, a, b)
    }

    /// Sets a register to the result of `op` on two values, and returns the result.
    pub(crate) fn set_binary(&mut self, register: Reg, op: BinaryOp, a: Value, b: Value) -> Value {
        let value = self.binary(op, a, b);
        self.set(register, value);
        value
    }

    /// Like [`Self::set_binary`], on two registers.
    pub(crate) fn set_of(&mut self, register: Reg, op: BinaryOp, a: Reg, b: Reg) -> Value {
        let (a, b) = (self.get(a), self.get(b));
        self.set_binary(register, op, a, b)
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        if let (UnaryOp::SextW, Some(number)) = (op, self.number(a)) {
            return self.constant(number << 32 >> 32);
        }
        self.push(Op::Unary(op, a))
    }

    /// `base + offset` relative to the root of `base`, so that accesses with the same root share a check.
    fn address(&self, base: Value, offset: i64) -> Linear {
        let address = Linear::of(&self.ops, base, i64::MAX);
        Linear { offset: address.offset.wrapping_add(offset), ..address }
    }

    pub(crate) fn load(&mut self, width: Width, is_signed: bool, base: Value, offset: i64) -> Value {
        let address = self.address(base, offset);
        self.accesses.add(Access::Read, address, width);
        self.push(Op::Load { width, is_signed, base: address.root, offset: address.offset })
    }

    pub(crate) fn store(&mut self, width: Width, base: Value, offset: i64, value: Value) {
        let address = self.address(base, offset);
        self.accesses.add(Access::Write, address, width);
        self.push(Op::Store { width, base: address.root, offset: address.offset, value });
    }

    /// The registers that the block wrote, with their final values.
    fn writes(&self) -> Vec<(Reg, Value)> {
        (1..32)
            .map(Reg)
            .filter(|register| self.written[register.index()])
            .filter_map(|register| Some((register, self.registers[register.index()]?)))
            .collect()
    }

    /// Returns the block, with its checks in place.
    pub(crate) fn finish(self, pc: GuestAddr, cycles: u64, terminator: Terminator) -> Block {
        let (checks, writes) = (self.accesses.checks(), self.writes());
        let mut block = Block { cycles, writes, ..Block::between(pc, self.ops, terminator) };
        block.put_checks(&checks);
        block
    }
}
