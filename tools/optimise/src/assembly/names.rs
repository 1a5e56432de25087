//! Words of assembly: registers, operations, numbers.

use antares_program::{Op, Reg};

use crate::encode::{Form, Line, form};

/// The register that `name` is, by number or by what it is for.
pub(super) fn register(name: &str) -> Option<u8> {
    if name == "fp" {
        return Some(8);
    }
    let number = name.strip_prefix('x').and_then(|number| number.parse::<u8>().ok());
    let by_number = number.filter(|number| *number < 32 && name == format!("x{number}"));
    by_number.or_else(|| (0..32).find(|number| Reg(*number).to_string() == name))
}

/// A number, decimal or hexadecimal, with a sign perhaps.
pub(super) fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok()?,
        // What begins with a zero is octal to an assembler.
        None if digits.len() > 1 && digits.starts_with('0') => return None,
        None => digits.parse::<i128>().ok()?,
    };
    i64::try_from(sign * value).ok()
}

/// Operations that windows know, by name.
pub(super) fn operation(name: &str) -> Option<Op> {
    Op::ALL.iter().copied().find(|op| op.name() == name && form(*op).is_some())
}

/// The same operation with a number for its second register, which assemblers take under one name.
pub(super) fn with_number(op: Op) -> Option<Op> {
    Some(match op {
        Op::Add => Op::Addi,
        Op::Addw => Op::Addiw,
        Op::And => Op::Andi,
        Op::Or => Op::Ori,
        Op::Xor => Op::Xori,
        Op::Sll => Op::Slli,
        Op::Srl => Op::Srli,
        Op::Sra => Op::Srai,
        Op::Sllw => Op::Slliw,
        Op::Srlw => Op::Srliw,
        Op::Sraw => Op::Sraiw,
        Op::Slt => Op::Slti,
        Op::Sltu => Op::Sltiu,
        Op::Ror => Op::Rori,
        Op::Rorw => Op::Roriw,
        _ => return None,
    })
}

/// Whether `op` is one of the B extension.
pub(super) fn is_of_b(op: Op) -> bool {
    use Op::{
        Adduw, Andn, Bext, Bexti, Clz, Cpop, Ctz, Max, Maxu, Min, Minu, Orn, Rev8, Rol, Rolw, Ror, Rori,
        Roriw, Rorw, Sextb, Sexth, Sh1add, Sh1adduw, Sh2add, Sh2adduw, Sh3add, Sh3adduw, Slliuw, Xnor, Zexth,
    };
    matches!(
        op,
        Adduw
            | Andn
            | Bext
            | Bexti
            | Clz
            | Cpop
            | Ctz
            | Max
            | Maxu
            | Min
            | Minu
            | Orn
            | Rev8
            | Rol
            | Rolw
            | Ror
            | Rori
            | Roriw
            | Rorw
            | Sextb
            | Sexth
            | Sh1add
            | Sh1adduw
            | Sh2add
            | Sh2adduw
            | Sh3add
            | Sh3adduw
            | Slliuw
            | Xnor
            | Zexth
    )
}

/// An instruction as an assembler reads it.
pub(super) fn printed(line: &Line) -> Option<String> {
    let Line { op, rd, rs1, rs2, imm } = *line;
    let [rd, rs1, rs2] = [rd, rs1, rs2].map(Reg);
    let name = op.name();
    Some(match form(op)? {
        Form::Two(..) => format!("{name}\t{rd}, {rs1}, {rs2}"),
        Form::One(..) => format!("{name}\t{rd}, {rs1}"),
        Form::Number(..) | Form::Shift(..) => format!("{name}\t{rd}, {rs1}, {imm}"),
        Form::Upper(_) => format!("{name}\t{rd}, {:#x}", imm >> 12 & 0xf_ffff),
        Form::Load(_) => format!("{name}\t{rd}, {imm}({rs1})"),
        Form::Store(_) => format!("{name}\t{rs2}, {imm}({rs1})"),
    })
}
