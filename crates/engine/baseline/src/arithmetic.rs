//! Arithmetic: the host instructions for each operation of the IR.
//!
//! The order in each method matters: claim fixed registers, load operands into registers, release the
//! operands, then allocate the result's register. The result may reuse an operand's register.

use antares_ir::{BinaryOp, UnaryOp, Value};

use crate::{
    assembler::{Alu, Assembler, Cond, Count, Extend, Gpr, Label, Mem, Rm, Shift, Unary},
    fitted::fitted,
    function::FunctionEmitter,
};

impl FunctionEmitter<'_, '_> {
    pub(crate) fn binary(&mut self, value: Value, op: BinaryOp, a: Value, b: Value) {
        match op {
            BinaryOp::Add => self.add(value, a, b),
            BinaryOp::Sub => self.subtract(value, a, b),
            BinaryOp::And => self.logic(value, Alu::And, a, b),
            BinaryOp::Or => self.logic(value, Alu::Or, a, b),
            BinaryOp::Xor => self.logic(value, Alu::Xor, a, b),
            BinaryOp::Shl => self.shift(value, Shift::Shl, a, b),
            BinaryOp::Lshr => self.shift(value, Shift::Shr, a, b),
            BinaryOp::Ashr => self.shift(value, Shift::Sar, a, b),
            BinaryOp::Rotl => self.rotate(value, Shift::Rol, a, b),
            BinaryOp::Rotr => self.rotate(value, Shift::Ror, a, b),
            BinaryOp::Mul => self.multiply(value, a, b),
            BinaryOp::MulHigh => self.multiply_high(value, a, b),
            BinaryOp::MulHighSignedUnsigned => self.multiply_high_mixed(value, a, b),
            BinaryOp::MulHighUnsigned => self.multiply_high_unsigned(value, a, b),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivUnsigned | BinaryOp::RemUnsigned => {
                self.divide(value, op, a, b);
            }
            BinaryOp::Min => self.choose(value, Cond::GREATER, a, b),
            BinaryOp::MinUnsigned => self.choose(value, Cond::ABOVE, a, b),
            BinaryOp::Max => self.choose(value, Cond::LESS, a, b),
            BinaryOp::MaxUnsigned => self.choose(value, Cond::BELOW, a, b),
            BinaryOp::Clmul | BinaryOp::ClmulHigh | BinaryOp::ClmulReversed => {
                self.carryless(value, op, a, b);
            }
            _ => {
                let cond = self.compare(op, a, b);
                let to = self.result(value, &[], None);
                let asm = &mut self.code.asm;
                asm.set(cond, to);
                asm.extend(Extend::ZeroByte, to, to);
            }
        }
    }

    pub(crate) fn unary(&mut self, value: Value, op: UnaryOp, a: Value) {
        if op == UnaryOp::OrCombine {
            return self.or_combine(value, a);
        }
        let (to, from) = self.moved(value, a, &[a]);
        let asm = &mut self.code.asm;
        match op {
            UnaryOp::SextB => asm.extend(Extend::SignByte, to, from),
            UnaryOp::SextH => asm.extend(Extend::SignHalf, to, from),
            UnaryOp::SextW => asm.sign_extend_word(to, from),
            UnaryOp::ZextH => asm.extend(Extend::ZeroHalf, to, from),
            UnaryOp::ZextW => asm.mov_word(to, from),
            UnaryOp::Clz => asm.count(Count::Lzcnt, to, from),
            UnaryOp::Ctz => asm.count(Count::Tzcnt, to, from),
            UnaryOp::Popcount => asm.count(Count::Popcnt, to, from),
            UnaryOp::Not | UnaryOp::OrCombine => {
                asm.mov(to, from);
                asm.unary(Unary::Not, to);
            }
            UnaryOp::ByteSwap => {
                asm.mov(to, from);
                asm.swap_bytes(to);
            }
        }
    }

    /// A register for the result of an operation, if possible that of `a`, and the location of `a`.
    fn moved(&mut self, value: Value, a: Value, operands: &[Value]) -> (Gpr, Rm) {
        let from = self.operand(a);
        let hint = match from {
            Rm::Reg(register) => Some(register),
            Rm::Mem(_) => None,
        };
        (self.result(value, operands, hint), from)
    }

    fn add(&mut self, value: Value, a: Value, b: Value) {
        let (a, b) = if self.values.number(a).is_some() { (b, a) } else { (a, b) };
        match self.values.immediate(b) {
            Some(number) => self.add_number(value, (a, b), number),
            None => self.commutative(value, a, b, |asm, to, x, y| match y {
                Rm::Reg(y) if to != x && to != y => {
                    asm.lea(to, Mem::indexed(x, y, 0));
                }
                _ => two_address(asm, Alu::Add, to, x, y),
            }),
        }
    }

    fn add_number(&mut self, value: Value, (a, b): (Value, Value), number: i32) {
        let x = self.register(a);
        let to = self.result(value, &[a, b], Some(x));
        let asm = &mut self.code.asm;
        match number {
            0 => asm.mov(to, x),
            _ if to == x => asm.alu_number(Alu::Add, to, number),
            _ => asm.lea(to, Mem::at(x, number)),
        }
    }

    fn subtract(&mut self, value: Value, a: Value, b: Value) {
        if let Some(number) = self.values.immediate(b).and_then(i32::checked_neg) {
            return self.add_number(value, (a, b), number);
        }
        let x = self.register(a);
        let y = self.operand(b);
        let to = self.result(value, &[a, b], Some(x));
        let asm = &mut self.code.asm;
        if to != x && y == Rm::Reg(to) {
            asm.unary(Unary::Neg, to);
            asm.alu(Alu::Add, to, x);
        } else {
            asm.mov(to, x);
            asm.alu(Alu::Sub, to, y);
        }
    }

    fn logic(&mut self, value: Value, op: Alu, a: Value, b: Value) {
        let (a, b) = if self.values.number(a).is_some() { (b, a) } else { (a, b) };
        let word = Some(i64::from(u32::MAX));
        if op == Alu::And && self.values.number(b) == word {
            let (to, from) = self.moved(value, a, &[a, b]);
            return self.code.asm.mov_word(to, from);
        }
        let Some(number) = self.values.immediate(b) else {
            return self.commutative(value, a, b, move |asm, to, x, y| two_address(asm, op, to, x, y));
        };
        let (to, from) = self.moved(value, a, &[a, b]);
        let asm = &mut self.code.asm;
        asm.mov(to, from);
        asm.alu_number(op, to, number);
    }

    /// Emits an operation whose operands may be exchanged.
    fn commutative(&mut self, value: Value, a: Value, b: Value, emit: impl Fn(&mut Assembler, Gpr, Gpr, Rm)) {
        let x = self.register(a);
        let y = self.operand(b);
        let to = self.result(value, &[a, b], Some(x));
        match y {
            Rm::Reg(y) if y == to => emit(&mut self.code.asm, to, y, Rm::Reg(x)),
            _ => emit(&mut self.code.asm, to, x, y),
        }
    }

    fn shift(&mut self, value: Value, op: Shift, a: Value, b: Value) {
        if let Some(number) = self.values.number(b) {
            return self.shift_number(value, op, (a, b), number);
        }
        let distance = self.register(b);
        let (to, from) = self.moved(value, a, &[a, b]);
        self.code.asm.shift(op, to, from, distance);
    }

    fn shift_number(&mut self, value: Value, op: Shift, (a, b): (Value, Value), number: i64) {
        let (to, from) = self.moved(value, a, &[a, b]);
        let asm = &mut self.code.asm;
        asm.mov(to, from);
        let distance: u8 = fitted(number & 63);
        if distance != 0 {
            asm.shift_number(op, to, distance);
        }
    }

    fn rotate(&mut self, value: Value, op: Shift, a: Value, b: Value) {
        if let Some(number) = self.values.number(b) {
            return self.shift_number(value, op, (a, b), number);
        }
        self.claim(Gpr::RCX);
        self.copy(b, Gpr::RCX);
        let (to, from) = self.moved(value, a, &[a, b]);
        let asm = &mut self.code.asm;
        asm.mov(to, from);
        asm.shift_by_cl(op, to);
    }

    /// Copies a value to a claimed register.
    pub(crate) fn copy(&mut self, value: Value, to: Gpr) {
        self.values.load(self.code, value, to);
    }

    fn multiply(&mut self, value: Value, a: Value, b: Value) {
        let (a, b) = if self.values.number(a).is_some() { (b, a) } else { (a, b) };
        if let Some(number) = self.values.immediate(b) {
            let (to, from) = self.moved(value, a, &[a, b]);
            return self.code.asm.imul_number(to, from, number);
        }
        if let Some(high) = self.other_half(value, BinaryOp::MulHighUnsigned, a, b) {
            return self.multiply_wide(high, value, a, b);
        }
        self.commutative(value, a, b, |asm, to, x, y| {
            asm.mov(to, x);
            asm.imul(to, y);
        });
    }

    fn multiply_high_unsigned(&mut self, value: Value, a: Value, b: Value) {
        if let Some(low) = self.other_half(value, BinaryOp::Mul, a, b) {
            return self.multiply_wide(value, low, a, b);
        }
        self.claim(Gpr::RDX);
        self.copy(a, Gpr::RDX);
        let y = self.operand(b);
        let to = self.result(value, &[a, b], None);
        self.code.asm.mulx(to, to, y);
    }

    /// Computes both halves of an unsigned product, one of them ahead of its own operation.
    fn multiply_wide(&mut self, high: Value, low: Value, a: Value, b: Value) {
        self.claim(Gpr::RDX);
        self.copy(a, Gpr::RDX);
        let y = self.register(b);
        let high_to = self.result(high, &[a, b, a, b], None);
        let low_to = self.result(low, &[], None);
        self.code.asm.mulx(high_to, low_to, y);
        // The half of the current operation settles in `operation`.
        for half in [high, low] {
            self.values.settle(self.code, half);
        }
    }

    fn multiply_high(&mut self, value: Value, a: Value, b: Value) {
        self.claim(Gpr::RAX);
        self.claim(Gpr::RDX);
        self.copy(a, Gpr::RAX);
        let y = self.register(b);
        self.code.asm.unary(Unary::Imul, y);
        let to = self.result(value, &[a, b], None);
        self.code.asm.mov(to, Gpr::RDX);
    }

    /// The unsigned high half, minus the second operand if the first is negative.
    fn multiply_high_mixed(&mut self, value: Value, a: Value, b: Value) {
        self.claim(Gpr::RDX);
        self.copy(a, Gpr::RDX);
        let y = self.register(b);
        let high = self.scratch();
        let asm = &mut self.code.asm;
        asm.mulx(high, high, y);
        asm.shift_number(Shift::Sar, Gpr::RDX, 63);
        asm.alu(Alu::And, Gpr::RDX, y);
        asm.alu(Alu::Sub, high, Gpr::RDX);
        let to = self.result(value, &[a, b], None);
        self.code.asm.mov(to, high);
    }

    fn divide(&mut self, value: Value, op: BinaryOp, a: Value, b: Value) {
        let stubs = self.context.stubs;
        let (stub, from) = match op {
            BinaryOp::Div => (stubs.divide, Gpr::RAX),
            BinaryOp::Rem => (stubs.divide, Gpr::RDX),
            BinaryOp::DivUnsigned => (stubs.divide_unsigned, Gpr::RAX),
            _ => (stubs.divide_unsigned, Gpr::RDX),
        };
        self.claim(Gpr::RDX);
        self.call_with(stub, (a, Gpr::RAX), (b, Gpr::RCX));
        self.take_from(value, &[a, b], from);
    }

    /// Calls a stub with two values in its argument registers.
    fn call_with(&mut self, stub: Label, (a, x): (Value, Gpr), (b, y): (Value, Gpr)) {
        self.claim(x);
        self.claim(y);
        self.copy(a, x);
        self.copy(b, y);
        self.code.asm.call(stub);
    }

    /// Moves the result out of a claimed register.
    fn take_from(&mut self, value: Value, operands: &[Value], from: Gpr) {
        for operand in operands {
            self.values.release(*operand);
        }
        self.values.unlock(self.code);
        let to = self.result(value, &[], Some(from));
        self.code.asm.mov(to, from);
    }

    /// Selects `b` if `cond` holds for the comparison of `a` with `b`, else `a`.
    fn choose(&mut self, value: Value, cond: Cond, a: Value, b: Value) {
        self.commutative(value, a, b, move |asm, to, x, y| {
            asm.mov(to, x);
            asm.alu(Alu::Cmp, to, y);
            asm.mov_if(cond, to, y);
        });
    }

    fn carryless(&mut self, value: Value, op: BinaryOp, a: Value, b: Value) {
        self.call_with(self.context.stubs.carryless, (a, Gpr::RAX), (b, Gpr::RDX));
        let (low, high) = (Gpr::RAX, Gpr::RDX);
        if op == BinaryOp::ClmulReversed {
            let asm = &mut self.code.asm;
            asm.shift_number(Shift::Shl, high, 1);
            asm.shift_number(Shift::Shr, low, 63);
            asm.alu(Alu::Or, high, low);
        }
        self.take_from(value, &[a, b], if op == BinaryOp::Clmul { low } else { high });
    }

    /// The top bit of `(byte & 127) + 127 | byte` is set if `byte` is not 0.
    fn or_combine(&mut self, value: Value, a: Value) {
        let from = self.register(a);
        let (low_bits, sum) = (self.scratch(), self.scratch());
        let asm = &mut self.code.asm;
        asm.mov_number(low_bits, 0x7f7f_7f7f_7f7f_7f7f);
        asm.mov(sum, from);
        asm.alu(Alu::And, sum, low_bits);
        asm.alu(Alu::Add, sum, low_bits);
        asm.alu(Alu::Or, sum, from);
        asm.unary(Unary::Not, low_bits);
        asm.alu(Alu::And, sum, low_bits);
        asm.shift_number(Shift::Shr, sum, 7);
        let to = self.result(value, &[a], None);
        self.code.asm.imul_number(to, sum, 255);
    }
}

/// Emits an instruction that overwrites its first operand. `to` is `x`, or neither `x` nor `y`.
fn two_address(asm: &mut Assembler, op: Alu, to: Gpr, x: Gpr, y: Rm) {
    asm.mov(to, x);
    asm.alu(op, to, y);
}
