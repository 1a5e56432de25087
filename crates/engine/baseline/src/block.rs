//! Emits the operations of one block, except arithmetic.

use antares_ir::{Access, BinaryOp, Block, Op, Terminator, Value, Width, span};

use crate::{
    assembler::{Alu, Cond, Extend, Gpr, Mem, Rm},
    fold,
    function::FunctionEmitter,
    registers::{BASE, CYCLES_LEFT},
};

/// Maximum distance between the two halves of a product that share one multiplication.
const PAIR_DISTANCE_MAX: usize = 8;

/// The comparison that computes the condition of the block's branch.
pub(crate) fn branch_comparison(block: &Block) -> Option<(Value, BinaryOp, Value, Value)> {
    let Terminator::Branch { condition, .. } = block.terminator else { return None };
    match block.ops[condition.0 as usize] {
        Op::Binary(op, a, b) if is_comparison(op) => Some((condition, op, a, b)),
        _ => None,
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Ge, GeUnsigned, Lt, LtUnsigned, Ne};
    matches!(op, Eq | Ne | Lt | LtUnsigned | Ge | GeUnsigned)
}

impl FunctionEmitter<'_, '_> {
    pub(crate) fn operation(&mut self, index: u32, op: &Op) {
        let value = Value(index);
        if let Some(place) = self.early.iter().position(|early| *early == value) {
            self.early.swap_remove(place);
            return;
        }
        match *op {
            Op::Const(number) => return self.values.set_number(value, number),
            Op::Read(register) => return self.values.read(value, register),
            Op::Store { width, base, offset, value } => self.store(width, (base, offset), value),
            Op::Check { access, base, low, high } => self.check(access, base, (low, high)),
            Op::Proved { base, .. } => self.values.release(base),
            Op::Charge(cycles) => {
                let charged = self.operand(cycles);
                self.code.asm.alu(Alu::Sub, CYCLES_LEFT, charged);
                self.values.release(cycles);
            }
            _ if self.values.uses(value) == 0 => self.skip(op),
            _ if self.is_folded(value, op) => {}
            Op::Load { width, is_signed, base, offset } => {
                self.load(value, (width, is_signed), (base, offset));
            }
            Op::Unary(op, a) => self.unary(value, op, a),
            Op::Binary(op, a, b) => self.binary(value, op, a, b),
            Op::CyclesLeft => {
                let to = self.result(value, &[], None);
                self.code.asm.mov(to, CYCLES_LEFT);
            }
        }
        if op.has_value() {
            self.values.settle(self.code, value);
        }
        self.values.unlock(self.code);
    }

    /// Skips `op`, whose value is unused and which has no other effect.
    fn skip(&mut self, op: &Op) {
        let _same = op.map(|value| {
            self.values.release(value);
            value
        });
    }

    /// Whether `op` emits no code here, because it folds to a constant or the branch emits it.
    fn is_folded(&mut self, value: Value, op: &Op) -> bool {
        let number = match *op {
            Op::Binary(op, a, b) => {
                let numbers = self.values.number(a).zip(self.values.number(b));
                numbers.and_then(|(a, b)| fold::binary(op, a, b))
            }
            Op::Unary(op, a) => self.values.number(a).and_then(|a| fold::unary(op, a)),
            _ => None,
        };
        if let Some(number) = number {
            self.values.set_number(value, number);
            self.skip(op);
            return true;
        }
        let is_branch_s = branch_comparison(self.block()).is_some_and(|(condition, ..)| condition == value);
        self.values.is_deferred |= is_branch_s && self.values.uses(value) == 1;
        is_branch_s && self.values.is_deferred
    }

    /// The unsigned high half of the same product, or its low half, if it follows soon.
    pub(crate) fn other_half(&mut self, value: Value, wanted: BinaryOp, a: Value, b: Value) -> Option<Value> {
        let start = value.0 as usize + 1;
        let end = (start + PAIR_DISTANCE_MAX).min(self.block().ops.len());
        let is_half = |op: &Op| *op == Op::Binary(wanted, a, b) || *op == Op::Binary(wanted, b, a);
        let place = self.block().ops[start..end].iter().position(is_half)?;
        let other = Value(u32::try_from(start + place).ok()?);
        if self.values.uses(other) == 0 || self.early.contains(&other) {
            return None;
        }
        self.early.push(other);
        Some(other)
    }

    /// The host address of a checked guest address. Locks its registers.
    fn address(&mut self, base: Value, offset: i64) -> Mem {
        if let Some(number) = self.values.number(base) {
            let address = number.wrapping_add(offset);
            if let Some(address) = i32::try_from(address).ok().filter(|address| *address >= 0) {
                return Mem::at(BASE, address);
            }
        }
        let register = self.register(base);
        if let Ok(offset) = i32::try_from(offset) {
            return Mem::indexed(BASE, register, offset);
        }
        let sum = self.scratch();
        self.code.asm.mov_number(sum, offset);
        self.code.asm.alu(Alu::Add, sum, register);
        Mem::indexed(BASE, sum, 0)
    }

    fn load(&mut self, value: Value, (width, is_signed): (Width, bool), (base, offset): (Value, i64)) {
        let address = self.address(base, offset);
        let to = self.result(value, &[base], None);
        let asm = &mut self.code.asm;
        match (width, is_signed) {
            (Width::Byte, true) => asm.extend(Extend::SignByte, to, address),
            (Width::Byte, false) => asm.extend(Extend::ZeroByte, to, address),
            (Width::Half, true) => asm.extend(Extend::SignHalf, to, address),
            (Width::Half, false) => asm.extend(Extend::ZeroHalf, to, address),
            (Width::Word, true) => asm.sign_extend_word(to, address),
            (Width::Word, false) => asm.mov_word(to, address),
            (Width::Double, _) => asm.mov(to, address),
        }
    }

    fn store(&mut self, width: Width, (base, offset): (Value, i64), value: Value) {
        let address = self.address(base, offset);
        let bytes = width.bytes();
        let number = self.values.number(value);
        let low = number.map(|number| if bytes == 8 { number } else { number << 32 >> 32 });
        match low.and_then(|number| i32::try_from(number).ok()) {
            Some(number) => self.code.asm.store_number(bytes, address, number),
            None => {
                let from = self.register(value);
                self.code.asm.store(bytes, address, from);
            }
        }
        self.values.release(base);
        self.values.release(value);
    }

    fn check(&mut self, access: Access, base: Value, (low, high): (i64, i64)) {
        let bounds = self.context.module.bounds(access);
        if let Some(number) = self.values.number(base) {
            let is_good = span(bounds, low, high)
                .is_some_and(|(offset, room)| number.wrapping_add(offset).cast_unsigned() <= room);
            if !is_good {
                self.code.asm.jump_far(self.context.stubs.bad_address);
            }
        } else {
            let register = self.register(base);
            let scratch = self.scratch();
            self.check_between(bounds, register, (low, high), scratch);
        }
        self.values.release(base);
    }

    pub(crate) fn operand(&mut self, value: Value) -> Rm {
        self.values.operand(self.code, value)
    }

    pub(crate) fn register(&mut self, value: Value) -> Gpr {
        self.values.register(self.code, value)
    }

    pub(crate) fn scratch(&mut self) -> Gpr {
        self.values.scratch(self.code)
    }

    pub(crate) fn claim(&mut self, register: Gpr) {
        self.values.claim(self.code, register);
    }

    /// Releases `operands` and returns a register for the result.
    pub(crate) fn result(&mut self, value: Value, operands: &[Value], hint: Option<Gpr>) -> Gpr {
        for operand in operands {
            self.values.release(*operand);
        }
        self.values.result(self.code, value, hint)
    }

    /// Compares two values and releases them. Returns the condition under which `op` gives 1.
    pub(crate) fn compare(&mut self, op: BinaryOp, a: Value, b: Value) -> Cond {
        let is_swapped = self.values.number(a).is_some() && self.values.immediate(b).is_none();
        let (x, y) = if is_swapped { (b, a) } else { (a, b) };
        match self.values.immediate(y) {
            Some(0) => {
                let x = self.register(x);
                self.code.asm.test(x, x);
            }
            Some(number) => {
                let x = self.operand(x);
                self.code.asm.alu_number(Alu::Cmp, x, number);
            }
            None => {
                let x = self.register(x);
                let y = self.operand(y);
                self.code.asm.alu(Alu::Cmp, x, y);
            }
        }
        self.values.release(a);
        self.values.release(b);
        match (op, is_swapped) {
            (BinaryOp::Ne, _) => Cond::NOT_EQUAL,
            (BinaryOp::Lt, false) => Cond::LESS,
            (BinaryOp::Lt, true) => Cond::GREATER,
            (BinaryOp::LtUnsigned, false) => Cond::BELOW,
            (BinaryOp::LtUnsigned, true) => Cond::ABOVE,
            (BinaryOp::Ge, false) => Cond::GREATER_EQUAL,
            (BinaryOp::Ge, true) => Cond::LESS_EQUAL,
            (BinaryOp::GeUnsigned, false) => Cond::ABOVE_EQUAL,
            (BinaryOp::GeUnsigned, true) => Cond::BELOW_EQUAL,
            _ => Cond::EQUAL,
        }
    }
}
