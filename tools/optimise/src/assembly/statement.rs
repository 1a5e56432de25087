//! A line of assembly: what it says, as far as the rewriter has to know.

use antares_program::{Op, Reg, RegSet};

use crate::{
    assembly::names::{number, operation, register, with_number},
    encode::{Form, Line, form, wide},
};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing that code would notice: a comment, a line of the source, a label for the debugger alone.
    Nothing,
    /// A place with a name.
    Label(String),
    /// Instructions that windows may have.
    Instructions(Vec<Line>),
    /// An instruction that computes, whose number only the linker knows.
    Linked { reads: RegSet, writes: Reg },
    /// A branch to a label.
    Branch { reads: RegSet, to: String },
    /// A jump to a label of this file or to a function elsewhere.
    Jump(String),
    /// A call, by the calling convention, of what a register or a name says.
    Call(RegSet),
    /// A return.
    Return,
    /// A system call.
    Ecall,
    /// Words for the assembler that neither run nor separate code from what follows it.
    Aside,
    /// What nobody knows.
    Unknown,
}

/// What `text` says. `has_b` tells whether the assembler knows the B extension.
pub(super) fn read(text: &str, has_b: bool) -> Said {
    let text = without_comment(text);
    if text.is_empty() {
        return Said::Nothing;
    }
    // Several statements in a line, strings and comments within: nothing that a compiler writes.
    if text.contains([';', '"', '\'']) || text.contains("/*") {
        return if is_aside(text) { Said::Aside } else { Said::Unknown };
    }
    if let Some(label) = text.strip_suffix(':')
        && is_name(label)
    {
        return Said::Label(label.to_owned());
    }
    if text.starts_with('.') {
        return directive(text);
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operands: Vec<&str> =
        if rest.trim().is_empty() { Vec::new() } else { rest.split(',').map(str::trim).collect() };
    flow(name, &operands)
        .or_else(|| instructions(name, &operands, has_b).map(Said::Instructions))
        .or_else(|| linked(name, &operands))
        .unwrap_or(Said::Unknown)
}

/// Whether `text` jumps to a place by its distance from here or from a label.
pub(super) fn goes_between_names(text: &str) -> bool {
    let text = without_comment(text);
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let jumps = name.starts_with(['b', 'j']) || matches!(name, "call" | "tail" | "c.j" | "c.beqz" | "c.bnez");
    // `8(a0)` is an address in a register.
    let by_distance = |operand: &str| operand.contains(['+', '-']) && !operand.contains('(');
    jumps && !text.ends_with(':') && rest.split(',').any(by_distance)
}

fn without_comment(text: &str) -> &str {
    let is_free = !text.contains('"');
    let end = if is_free { text.find('#').unwrap_or(text.len()) } else { text.len() };
    text[..end].trim()
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$'))
}

/// Whether `text` is a directive that code does not notice.
fn is_aside(text: &str) -> bool {
    const ASIDES: [&str; 14] = [
        ".align",
        ".p2align",
        ".balign",
        ".globl",
        ".global",
        ".type",
        ".size",
        ".file",
        ".local",
        ".weak",
        ".hidden",
        ".ident",
        ".attribute",
        ".option",
    ];
    let name = text.split_whitespace().next().unwrap_or("");
    ASIDES.contains(&name) && !text.contains(';')
}

fn directive(text: &str) -> Said {
    let is_line = text.split_whitespace().next() == Some(".loc");
    // The assembler checks that the numbers of views fit: such lines stay where they are.
    if is_line && !text.contains("view") {
        return Said::Nothing;
    }
    if is_line || is_aside(text) || text.starts_with(".cfi_") { Said::Aside } else { Said::Unknown }
}

fn set(registers: &[u8]) -> RegSet {
    registers.iter().fold(RegSet::EMPTY, |set, register| set.with(Reg(*register)))
}

/// What goes somewhere else.
fn flow(name: &str, operands: &[&str]) -> Option<Said> {
    let reads = |names: &[&str]| {
        let registers: Option<Vec<u8>> = names.iter().map(|name| register(name)).collect();
        registers.map(|registers| set(&registers))
    };
    let named = |text: &&str| is_name(text) && register(text).is_none();
    Some(match (name, operands) {
        ("beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "bgt" | "ble" | "bgtu" | "bleu", [a, b, to])
            if named(to) =>
        {
            Said::Branch { reads: reads(&[a, b])?, to: (*to).to_owned() }
        }
        ("beqz" | "bnez" | "blez" | "bgez" | "bltz" | "bgtz", [a, to]) if named(to) => {
            Said::Branch { reads: reads(&[a])?, to: (*to).to_owned() }
        }
        ("j" | "tail", [to]) | ("jal", ["zero" | "x0", to]) if named(to) => Said::Jump((*to).to_owned()),
        ("call" | "jal", [to]) | ("jal", ["ra" | "x1", to]) if is_name(to.trim_end_matches("@plt")) => {
            Said::Call(RegSet::EMPTY)
        }
        ("jalr", [to]) | ("jalr", ["ra" | "x1", to]) | ("jalr", ["ra" | "x1", to, "0"]) => {
            let to = to.strip_prefix("0(").and_then(|to| to.strip_suffix(')')).unwrap_or(to);
            Said::Call(reads(&[to])?)
        }
        ("ret", []) | ("jr", ["ra" | "x1"]) => Said::Return,
        ("ecall", []) => Said::Ecall,
        _ => return None,
    })
}

/// The instructions that a line stands for, if windows may have all of them.
fn instructions(name: &str, operands: &[&str], has_b: bool) -> Option<Vec<Line>> {
    let one = |op: Op, rd: u8, rs1: u8, imm: i64| vec![Line { op, rd, rs1, rs2: 0, imm }];
    let two = |op: Op, rd: u8, rs1: u8, rs2: u8| vec![Line { op, rd, rs1, rs2, imm: 0 }];
    let lines = match (name, operands) {
        ("nop", []) => vec![Line::NOP],
        ("li", [rd, value]) => constant(register(rd)?, number(value)?)?,
        // Without the B extension assemblers write two shifts for some of these.
        ("sext.b" | "sext.h" | "zext.h" | "zext.w", _) if !has_b => return None,
        ("zext.w", [rd, rs]) => two(Op::Adduw, register(rd)?, register(rs)?, 0),
        ("mv", [rd, rs]) => one(Op::Addi, register(rd)?, register(rs)?, 0),
        ("not", [rd, rs]) => one(Op::Xori, register(rd)?, register(rs)?, -1),
        ("neg", [rd, rs]) => two(Op::Sub, register(rd)?, 0, register(rs)?),
        ("negw", [rd, rs]) => two(Op::Subw, register(rd)?, 0, register(rs)?),
        ("sext.w", [rd, rs]) => one(Op::Addiw, register(rd)?, register(rs)?, 0),
        ("zext.b", [rd, rs]) => one(Op::Andi, register(rd)?, register(rs)?, 255),
        ("seqz", [rd, rs]) => one(Op::Sltiu, register(rd)?, register(rs)?, 1),
        ("snez", [rd, rs]) => two(Op::Sltu, register(rd)?, 0, register(rs)?),
        ("sltz", [rd, rs]) => two(Op::Slt, register(rd)?, register(rs)?, 0),
        ("sgtz", [rd, rs]) => two(Op::Slt, register(rd)?, 0, register(rs)?),
        ("sgt", [rd, a, b]) => two(Op::Slt, register(rd)?, register(b)?, register(a)?),
        ("sgtu", [rd, a, b]) => two(Op::Sltu, register(rd)?, register(b)?, register(a)?),
        _ => vec![plain(operation(name)?, operands)?],
    };
    // What has no encoding would be refused by the assembler.
    lines.iter().all(|line| wide(*line).is_some()).then_some(lines)
}

/// `li`, as far as two instructions say it.
fn constant(rd: u8, value: i64) -> Option<Vec<Line>> {
    if (-2048..2048).contains(&value) {
        return Some(vec![Line { op: Op::Addi, rd, rs1: 0, rs2: 0, imm: value }]);
    }
    let value = i32::try_from(value).ok()?;
    let low = value << 20 >> 20;
    let upper = i64::from(value.wrapping_sub(low));
    let mut lines = vec![Line { op: Op::Lui, rd, rs1: 0, rs2: 0, imm: upper }];
    if low != 0 {
        lines.push(Line { op: Op::Addiw, rd, rs1: rd, rs2: 0, imm: i64::from(low) });
    }
    Some(lines)
}

fn plain(op: Op, operands: &[&str]) -> Option<Line> {
    let line = |rd: u8, rs1: u8, rs2: u8, imm: i64| Line { op, rd, rs1, rs2, imm };
    Some(match (form(op)?, operands) {
        (Form::Two(..), [rd, a, b]) => match register(b) {
            Some(b) => line(register(rd)?, register(a)?, b, 0),
            None => plain(with_number(op)?, operands)?,
        },
        (Form::One(..), [rd, a]) => line(register(rd)?, register(a)?, 0, 0),
        (Form::Number(..), [rd, a, value]) => line(register(rd)?, register(a)?, 0, number(value)?),
        (Form::Shift(..), [rd, a, value]) => {
            let is_narrow = matches!(op, Op::Slliw | Op::Srliw | Op::Sraiw | Op::Roriw);
            let bits = if is_narrow { 32 } else { 64 };
            let value = number(value).filter(|value| (0..bits).contains(value))?;
            line(register(rd)?, register(a)?, 0, value)
        }
        (Form::Upper(_), [rd, value]) => {
            let value = number(value).filter(|value| (0..1 << 20).contains(value))?;
            line(register(rd)?, 0, 0, value << 44 >> 32)
        }
        (Form::Load(_), [rd, place]) => {
            let (base, offset) = memory(place)?;
            line(register(rd)?, base, 0, offset)
        }
        (Form::Store(_), [data, place]) => {
            let (base, offset) = memory(place)?;
            line(0, base, register(data)?, offset)
        }
        _ => return None,
    })
}

/// Base and offset of `8(sp)` or `(sp)`.
fn memory(place: &str) -> Option<(u8, i64)> {
    let (offset, base) = place.strip_suffix(')')?.split_once('(')?;
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    Some((register(base)?, offset))
}

/// Instructions whose number is a name: what they read and write is known all the same.
fn linked(name: &str, operands: &[&str]) -> Option<Said> {
    let writes = |name: &str| register(name).map(Reg);
    Some(match (name, operands) {
        ("la" | "lla" | "li" | "lui" | "auipc", [rd, _]) => {
            Said::Linked { reads: RegSet::EMPTY, writes: writes(rd)? }
        }
        ("addi" | "addiw", [rd, rs, value]) if value.starts_with('%') => {
            Said::Linked { reads: set(&[register(rs)?]), writes: writes(rd)? }
        }
        ("sext.b" | "sext.h" | "zext.h" | "zext.w", [rd, rs]) => {
            Said::Linked { reads: set(&[register(rs)?]), writes: writes(rd)? }
        }
        ("lb" | "lh" | "lw" | "ld" | "lbu" | "lhu" | "lwu", [rd, place]) if place.starts_with('%') => {
            let (_, base) = place.strip_suffix(')')?.rsplit_once('(')?;
            Said::Linked { reads: set(&[register(base)?]), writes: writes(rd)? }
        }
        ("sb" | "sh" | "sw" | "sd", [data, place]) if place.starts_with('%') => {
            let (_, base) = place.strip_suffix(')')?.rsplit_once('(')?;
            Said::Linked { reads: set(&[register(base)?, register(data)?]), writes: Reg::ZERO }
        }
        _ => return None,
    })
}
