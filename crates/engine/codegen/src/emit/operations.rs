//! Arithmetic: one LLVM form for each IR operation, with a definition for everything that LLVM leaves
//! undefined.

use antares_ir::{BinaryOp, UnaryOp};
use inkwell::{
    IntPredicate,
    types::IntType,
    values::{BasicMetadataValueEnum, IntValue},
};

use crate::{CodegenError, Result, emit::Emitter};

pub(crate) fn predicate(op: BinaryOp) -> Option<IntPredicate> {
    Some(match op {
        BinaryOp::Eq => IntPredicate::EQ,
        BinaryOp::Ne => IntPredicate::NE,
        BinaryOp::Lt => IntPredicate::SLT,
        BinaryOp::LtUnsigned => IntPredicate::ULT,
        BinaryOp::Ge => IntPredicate::SGE,
        BinaryOp::GeUnsigned => IntPredicate::UGE,
        _ => return None,
    })
}

type Emitted<'c> = Result<IntValue<'c>>;

impl<'c> Emitter<'c, '_> {
    pub(crate) fn binary(&self, op: BinaryOp, x: IntValue<'c>, y: IntValue<'c>) -> Emitted<'c> {
        let b = &self.builder;
        if let Some(predicate) = predicate(op) {
            let bit = b.build_int_compare(predicate, x, y, "")?;
            return Ok(b.build_int_z_extend(bit, self.i64, "")?);
        }
        Ok(match op {
            BinaryOp::Shl | BinaryOp::Lshr | BinaryOp::Ashr => self.plain(op, x, self.distance(y)?)?,
            BinaryOp::Rotl => self.call("llvm.fshl", &[x.into(), x.into(), y.into()])?,
            BinaryOp::Rotr => self.call("llvm.fshr", &[x.into(), x.into(), y.into()])?,
            BinaryOp::MulHigh => self.high_product(x, y, true, true)?,
            BinaryOp::MulHighSignedUnsigned => self.high_product(x, y, true, false)?,
            BinaryOp::MulHighUnsigned => self.high_product(x, y, false, false)?,
            BinaryOp::Div | BinaryOp::Rem => self.signed_division(op, x, y)?,
            BinaryOp::DivUnsigned | BinaryOp::RemUnsigned => self.unsigned_division(op, x, y)?,
            BinaryOp::Min => self.call("llvm.smin", &[x.into(), y.into()])?,
            BinaryOp::MinUnsigned => self.call("llvm.umin", &[x.into(), y.into()])?,
            BinaryOp::Max => self.call("llvm.smax", &[x.into(), y.into()])?,
            BinaryOp::MaxUnsigned => self.call("llvm.umax", &[x.into(), y.into()])?,
            BinaryOp::Clmul => self.carryless_product(x, y)?.0,
            BinaryOp::ClmulHigh => self.carryless_product(x, y)?.1,
            BinaryOp::ClmulReversed => {
                let (low, high) = self.carryless_product(x, y)?;
                self.call("llvm.fshl", &[high.into(), low.into(), self.number(1).into()])?
            }
            // Comparisons are handled above.
            _ => self.plain(op, x, y)?,
        })
    }

    /// Operations that LLVM defines for all operands of one width; shifts need a smaller distance.
    pub(crate) fn plain(&self, op: BinaryOp, x: IntValue<'c>, y: IntValue<'c>) -> Emitted<'c> {
        let b = &self.builder;
        Ok(match op {
            BinaryOp::Add => b.build_int_add(x, y, "")?,
            BinaryOp::Sub => b.build_int_sub(x, y, "")?,
            BinaryOp::Mul => b.build_int_mul(x, y, "")?,
            BinaryOp::And => b.build_and(x, y, "")?,
            BinaryOp::Or => b.build_or(x, y, "")?,
            BinaryOp::Xor => b.build_xor(x, y, "")?,
            BinaryOp::Shl => b.build_left_shift(x, y, "")?,
            BinaryOp::Lshr => b.build_right_shift(x, y, false, "")?,
            BinaryOp::Ashr => b.build_right_shift(x, y, true, "")?,
            _ => return Err(CodegenError::Intrinsic { name: "arithmetic" }),
        })
    }

    pub(crate) fn unary(&self, op: UnaryOp, x: IntValue<'c>) -> Emitted<'c> {
        let context = self.context;
        Ok(match op {
            UnaryOp::SextB => self.extend(x, context.i8_type(), true)?,
            UnaryOp::SextH => self.extend(x, context.i16_type(), true)?,
            UnaryOp::SextW => self.extend(x, context.i32_type(), true)?,
            UnaryOp::ZextH => self.extend(x, context.i16_type(), false)?,
            UnaryOp::ZextW => self.extend(x, context.i32_type(), false)?,
            UnaryOp::Not => self.builder.build_not(x, "")?,
            UnaryOp::Clz => self.count_zeros("llvm.ctlz", x)?,
            UnaryOp::Ctz => self.count_zeros("llvm.cttz", x)?,
            UnaryOp::Popcount => self.call("llvm.ctpop", &[x.into()])?,
            UnaryOp::ByteSwap => self.call("llvm.bswap", &[x.into()])?,
            UnaryOp::OrCombine => self.or_combine(x)?,
        })
    }

    /// A shift's distance modulo 64; LLVM leaves larger ones undefined.
    fn distance(&self, y: IntValue<'c>) -> Emitted<'c> {
        Ok(self.builder.build_and(y, self.number(63), "")?)
    }

    fn extend(&self, x: IntValue<'c>, narrow: IntType<'c>, is_signed: bool) -> Emitted<'c> {
        self.widen(self.builder.build_int_truncate(x, narrow, "")?, self.i64, is_signed)
    }

    pub(crate) fn widen(&self, x: IntValue<'c>, wide: IntType<'c>, is_signed: bool) -> Emitted<'c> {
        Ok(match is_signed {
            true => self.builder.build_int_s_extend(x, wide, "")?,
            false => self.builder.build_int_z_extend(x, wide, "")?,
        })
    }

    /// The low half of the 128-bit product.
    pub(crate) fn low_product(&self, x: IntValue<'c>, y: IntValue<'c>) -> Emitted<'c> {
        let i128 = self.context.i128_type();
        let x = self.builder.build_int_z_extend(x, i128, "")?;
        let y = self.builder.build_int_z_extend(y, i128, "")?;
        let product = self.builder.build_int_mul(x, y, "product")?;
        Ok(self.builder.build_int_truncate(product, self.i64, "")?)
    }

    fn high_product(&self, x: IntValue<'c>, y: IntValue<'c>, x_signed: bool, y_signed: bool) -> Emitted<'c> {
        let i128 = self.context.i128_type();
        let (x, y) = (self.widen(x, i128, x_signed)?, self.widen(y, i128, y_signed)?);
        let product = self.builder.build_int_mul(x, y, "")?;
        let high = self.builder.build_right_shift(product, i128.const_int(64, false), false, "")?;
        Ok(self.builder.build_int_truncate(high, self.i64, "")?)
    }

    /// Division by zero and -2^63 / -1 are undefined in LLVM and trap on x86. Both divide by 1 instead, which
    /// already gives the right result for the overflow.
    fn signed_division(&self, op: BinaryOp, x: IntValue<'c>, y: IntValue<'c>) -> Emitted<'c> {
        let b = &self.builder;
        let is_zero = b.build_int_compare(IntPredicate::EQ, y, self.number(0), "")?;
        let is_lowest = b.build_int_compare(IntPredicate::EQ, x, self.number(i64::MIN), "")?;
        let is_minus_one = b.build_int_compare(IntPredicate::EQ, y, self.number(-1), "")?;
        let overflows = b.build_and(is_lowest, is_minus_one, "")?;
        let is_odd = b.build_or(is_zero, overflows, "")?;
        let divisor = b.build_select(is_odd, self.number(1), y, "")?.into_int_value();
        let (value, by_zero) = match op {
            BinaryOp::Div => (b.build_int_signed_div(x, divisor, "")?, self.number(-1)),
            _ => (b.build_int_signed_rem(x, divisor, "")?, x),
        };
        Ok(b.build_select(is_zero, by_zero, value, "")?.into_int_value())
    }

    fn unsigned_division(&self, op: BinaryOp, x: IntValue<'c>, y: IntValue<'c>) -> Emitted<'c> {
        let b = &self.builder;
        let is_zero = b.build_int_compare(IntPredicate::EQ, y, self.number(0), "")?;
        let divisor = b.build_select(is_zero, self.number(1), y, "")?.into_int_value();
        let (value, by_zero) = match op {
            BinaryOp::DivUnsigned => (b.build_int_unsigned_div(x, divisor, "")?, self.number(-1)),
            _ => (b.build_int_unsigned_rem(x, divisor, "")?, x),
        };
        Ok(b.build_select(is_zero, by_zero, value, "")?.into_int_value())
    }

    /// Each byte 0 or 255: bit 7 of `(byte & 127) + 127 | byte` says whether the byte is not 0.
    fn or_combine(&self, x: IntValue<'c>) -> Emitted<'c> {
        let b = &self.builder;
        let low_bits = self.i64.const_int(0x7f7f_7f7f_7f7f_7f7f, false);
        let top_bits = self.i64.const_int(0x8080_8080_8080_8080, false);
        let low = b.build_and(x, low_bits, "")?;
        let sum = b.build_int_add(low, low_bits, "")?;
        let any = b.build_or(sum, x, "")?;
        let top = b.build_and(any, top_bits, "")?;
        let ones = b.build_right_shift(top, self.number(7), false, "")?;
        Ok(b.build_int_mul(ones, self.number(255), "")?)
    }

    fn carryless_product(&self, x: IntValue<'c>, y: IntValue<'c>) -> Result<(IntValue<'c>, IntValue<'c>)> {
        let call = self.builder.build_call(self.carryless, &[x.into(), y.into()], "")?;
        self.set_up_call(call, 2);
        match self.fields(call, "")?[..] {
            [low, high] => Ok((low, high)),
            _ => Err(CodegenError::Intrinsic { name: "carryless" }),
        }
    }

    fn count_zeros(&self, name: &'static str, x: IntValue<'c>) -> Emitted<'c> {
        let defined_at_zero = self.context.bool_type().const_zero();
        self.call(name, &[x.into(), defined_at_zero.into()])
    }

    fn call(&self, name: &'static str, arguments: &[BasicMetadataValueEnum<'c>]) -> Emitted<'c> {
        let call = self.builder.build_call(self.intrinsic(name)?, arguments, "")?;
        let value = call.try_as_basic_value().basic().ok_or(CodegenError::Intrinsic { name })?;
        Ok(value.into_int_value())
    }
}
