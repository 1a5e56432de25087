//! What instructions do, as terms of SMT-LIB over 64-bit vectors.
//!
//! Products, quotients and counts of bits are functions of which nothing is said but that equal operands give
//! equal results. What holds for all such functions holds for ckb-vm's. Operands that may change places are
//! written in one order.

use antares_program::Op;

use crate::encode::Line;

/// Declarations that every question begins with.
pub(crate) const PRELUDE: &str = "\
(set-logic QF_UFBV)
(define-sort W () (_ BitVec 64))
(declare-fun mul (W W) W)
(declare-fun mulh (W W) W)
(declare-fun mulhu (W W) W)
(declare-fun mulhsu (W W) W)
(declare-fun div (W W) W)
(declare-fun divu (W W) W)
(declare-fun rem (W W) W)
(declare-fun remu (W W) W)
(declare-fun divw (W W) W)
(declare-fun divuw (W W) W)
(declare-fun remw (W W) W)
(declare-fun remuw (W W) W)
(declare-fun clz (W) W)
(declare-fun ctz (W) W)
(declare-fun cpop (W) W)
(define-fun sw ((a W)) W ((_ sign_extend 32) ((_ extract 31 0) a)))
(define-fun uw ((a W)) W ((_ zero_extend 32) ((_ extract 31 0) a)))
(define-fun bit ((a Bool)) W (ite a #x0000000000000001 #x0000000000000000))
(define-fun s6 ((a W)) W (bvand a #x000000000000003f))
(define-fun s5 ((a W)) W (bvand a #x000000000000001f))
(define-fun rev8 ((a W)) W (concat ((_ extract 7 0) a) ((_ extract 15 8) a) ((_ extract 23 16) a) \
((_ extract 31 24) a) ((_ extract 39 32) a) ((_ extract 47 40) a) ((_ extract 55 48) a) ((_ extract 63 56) a)))
(define-fun rol ((a W) (n W)) W (bvor (bvshl a (s6 n)) (bvlshr a (s6 (bvneg n)))))
(define-fun rolw ((a W) (n W)) W (sw (bvor (bvshl (uw a) (s5 n)) (bvlshr (uw a) (s5 (bvneg n))))))
";

/// Whether a question says nothing of what `op` does.
pub(crate) fn is_unknown(op: Op) -> bool {
    use Op::{
        Clz, Cpop, Ctz, Div, Divu, Divuw, Divw, Mul, Mulh, Mulhsu, Mulhu, Mulw, Rem, Remu, Remuw, Remw,
    };
    matches!(
        op,
        Mul | Mulw
            | Mulh
            | Mulhu
            | Mulhsu
            | Div
            | Divu
            | Divw
            | Divuw
            | Rem
            | Remu
            | Remw
            | Remuw
            | Clz
            | Ctz
            | Cpop
    )
}

/// A number of 64 bits.
pub(crate) fn number(value: i64) -> String {
    format!("#x{:016x}", value.cast_unsigned())
}

#[allow(clippy::too_many_lines, reason = "a table")]
/// The result of `line` for the operands `a` and `b`; none for what goes to memory, and for what no window
/// has.
pub(crate) fn result(line: &Line, a: &str, b: &str) -> Option<String> {
    let n = number(line.imm);
    // Distances to shift come as they are encoded.
    Some(match line.op {
        Op::Add => format!("(bvadd {a} {b})"),
        Op::Sub => format!("(bvsub {a} {b})"),
        Op::And => format!("(bvand {a} {b})"),
        Op::Or => format!("(bvor {a} {b})"),
        Op::Xor => format!("(bvxor {a} {b})"),
        Op::Andn => format!("(bvand {a} (bvnot {b}))"),
        Op::Orn => format!("(bvor {a} (bvnot {b}))"),
        Op::Xnor => format!("(bvnot (bvxor {a} {b}))"),
        Op::Sll => format!("(bvshl {a} (s6 {b}))"),
        Op::Srl => format!("(bvlshr {a} (s6 {b}))"),
        Op::Sra => format!("(bvashr {a} (s6 {b}))"),
        Op::Slt => format!("(bit (bvslt {a} {b}))"),
        Op::Sltu => format!("(bit (bvult {a} {b}))"),
        Op::Addw => format!("(sw (bvadd {a} {b}))"),
        Op::Subw => format!("(sw (bvsub {a} {b}))"),
        Op::Sllw => format!("(sw (bvshl {a} (s5 {b})))"),
        Op::Srlw => format!("(sw (bvlshr (uw {a}) (s5 {b})))"),
        Op::Sraw => format!("(bvashr (sw {a}) (s5 {b}))"),
        Op::Mulw => format!("(sw (mul {a} {b}))"),
        Op::Mul
        | Op::Mulh
        | Op::Mulhu
        | Op::Mulhsu
        | Op::Div
        | Op::Divu
        | Op::Rem
        | Op::Remu
        | Op::Divw
        | Op::Divuw
        | Op::Remw
        | Op::Remuw => format!("({} {a} {b})", line.op.name()),
        Op::Clz | Op::Ctz | Op::Cpop | Op::Rev8 => format!("({} {a})", line.op.name()),
        Op::Sh1add => format!("(bvadd (bvshl {a} {}) {b})", number(1)),
        Op::Sh2add => format!("(bvadd (bvshl {a} {}) {b})", number(2)),
        Op::Sh3add => format!("(bvadd (bvshl {a} {}) {b})", number(3)),
        Op::Adduw => format!("(bvadd (uw {a}) {b})"),
        Op::Sh1adduw => format!("(bvadd (bvshl (uw {a}) {}) {b})", number(1)),
        Op::Sh2adduw => format!("(bvadd (bvshl (uw {a}) {}) {b})", number(2)),
        Op::Sh3adduw => format!("(bvadd (bvshl (uw {a}) {}) {b})", number(3)),
        Op::Min => format!("(ite (bvslt {a} {b}) {a} {b})"),
        Op::Max => format!("(ite (bvslt {a} {b}) {b} {a})"),
        Op::Minu => format!("(ite (bvult {a} {b}) {a} {b})"),
        Op::Maxu => format!("(ite (bvult {a} {b}) {b} {a})"),
        Op::Rol => format!("(rol {a} {b})"),
        Op::Ror => format!("(rol {a} (bvneg {b}))"),
        Op::Rolw => format!("(rolw {a} {b})"),
        Op::Rorw => format!("(rolw {a} (bvneg {b}))"),
        Op::Bext => format!("(bvand (bvlshr {a} (s6 {b})) {})", number(1)),
        Op::Zexth => format!("(bvand {a} {})", number(0xffff)),
        Op::Sextb => format!("((_ sign_extend 56) ((_ extract 7 0) {a}))"),
        Op::Sexth => format!("((_ sign_extend 48) ((_ extract 15 0) {a}))"),
        Op::Addi => format!("(bvadd {a} {n})"),
        Op::Addiw => format!("(sw (bvadd {a} {n}))"),
        Op::Andi => format!("(bvand {a} {n})"),
        Op::Ori => format!("(bvor {a} {n})"),
        Op::Xori => format!("(bvxor {a} {n})"),
        Op::Slti => format!("(bit (bvslt {a} {n}))"),
        Op::Sltiu => format!("(bit (bvult {a} {n}))"),
        Op::Slli => format!("(bvshl {a} {n})"),
        Op::Srli => format!("(bvlshr {a} {n})"),
        Op::Srai => format!("(bvashr {a} {n})"),
        Op::Slliw => format!("(sw (bvshl {a} {n}))"),
        Op::Srliw => format!("(sw (bvlshr (uw {a}) {n}))"),
        Op::Sraiw => format!("(bvashr (sw {a}) {n})"),
        Op::Rori => format!("(bvor (bvlshr {a} {n}) (bvshl {a} {}))", number(64 - line.imm)),
        Op::Roriw => format!("(bvor (sw (bvlshr (uw {a}) {n})) (sw (bvshl {a} {})))", number(32 - line.imm)),
        Op::Slliuw => format!("(bvshl (uw {a}) {n})"),
        Op::Bexti => format!("(bvand (bvlshr {a} {n}) {})", number(1)),
        Op::Lui => n,
        _ => return None,
    })
}

/// What a load makes of its bytes.
pub(crate) fn loaded(op: Op, bytes: &str) -> Option<String> {
    let (bits, kind) = match op {
        Op::Ld => return Some(bytes.to_owned()),
        Op::Lb => (8, "sign"),
        Op::Lh => (16, "sign"),
        Op::Lw => (32, "sign"),
        Op::Lbu => (8, "zero"),
        Op::Lhu => (16, "zero"),
        Op::Lwu => (32, "zero"),
        _ => return None,
    };
    Some(format!("((_ {kind}_extend {}) {bytes})", 64 - bits))
}

/// The part of `value` that a store writes.
pub(crate) fn stored(op: Op, value: &str) -> Option<String> {
    let bits = match op {
        Op::Sb => 8,
        Op::Sh => 16,
        Op::Sw => 32,
        Op::Sd => 64,
        _ => return None,
    };
    Some(format!("((_ extract {} 0) {value})", bits - 1))
}
