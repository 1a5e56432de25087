//! The assembler: x86-64 instructions as bytes, labels, and the data that instructions reference.
//!
//! It covers only what this crate emits. Methods work on 64 bits unless they say otherwise. Encodings follow
//! the Intel 64 manual, volume 2.

use antares_abi::FrameRow;
use antares_program::GuestAddr;

pub(crate) use crate::operand::{Alu, Cond, Count, Extend, Gpr, Mem, Rm, Shift, Unary};
use crate::{error::BaselineError, fitted::fitted};

/// A position in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

/// Maximum bytes of code or data, so that every distance fits into 31 bits.
const BYTES_MAX: usize = 1 << 29;

const UNBOUND: u32 = u32::MAX;

/// Code and data under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    pub(crate) code: Vec<u8>,
    /// Read-only data. `finish` gets its distance from the code.
    pub(crate) data: Vec<u8>,
    labels: Vec<u32>,
    /// Ends of 4-byte distances to labels.
    jumps: Vec<(usize, Label)>,
    /// Ends of 4-byte distances to data.
    references: Vec<(usize, usize)>,
    /// Data entries: where they are, the label, and the data offset from which they count the distance.
    entries: Vec<(usize, Label, usize)>,
    /// The rows of the frame table.
    pub(crate) rows: Vec<FrameRow>,
}

impl Assembler {
    /// Adds a row to the frame table for the code that follows.
    pub(crate) fn row(&mut self, bytes: u32, chain: &[GuestAddr]) {
        // Code addresses fit into 32 bits; 0 means no address.
        let chain = chain.iter().map(|address| u32::try_from(address.0).unwrap_or(0)).collect();
        self.rows.push(FrameRow { start: fitted(self.code.len()), bytes, chain });
    }

    /// Emits a no-op that carries the numbers of two registers and `number`.
    pub(crate) fn mark(&mut self, mark: [u8; 3], (base, index): (Gpr, Gpr), number: u32) {
        self.byte(0x40 | index.high() << 1 | base.high());
        self.code.extend(mark);
        self.byte(index.low() << 3 | base.low());
        self.code.extend(number.to_le_bytes());
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        Label(fitted(self.labels.len() - 1))
    }

    /// Binds `label` to the current position. Beyond 2^32 bytes it stays unbound, and `finish` fails.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = u32::try_from(self.code.len()).unwrap_or(UNBOUND);
    }

    /// The position of a label in the code.
    pub(crate) fn offset_of(&self, label: Label) -> Result<usize, BaselineError> {
        match self.labels.get(label.0 as usize) {
            Some(&place) if place != UNBOUND => Ok(place as usize),
            _ => Err(BaselineError::Label),
        }
    }

    /// Appends a table of `labels` to the data and returns its offset.
    pub(crate) fn table(&mut self, labels: &[Label]) -> usize {
        let start = self.data.len();
        for label in labels {
            self.entry(self.data.len(), *label, start);
            self.data.extend([0; 4]);
        }
        start
    }

    /// Makes the 4 bytes of data at `at` the distance of `label` from the data at `from`.
    pub(crate) fn entry(&mut self, at: usize, label: Label, from: usize) {
        self.entries.push((at, label, from));
    }

    /// Fills in all distances. The code begins `distance` bytes after the start of the data.
    pub(crate) fn finish(&mut self, distance: usize) -> Result<(), BaselineError> {
        if self.code.len() > BYTES_MAX || self.data.len() > BYTES_MAX {
            return Err(BaselineError::Size { bytes_max: BYTES_MAX });
        }
        for (end, label) in std::mem::take(&mut self.jumps) {
            let place = self.offset_of(label)?;
            put(&mut self.code, end - 4, place, end);
        }
        for (end, data) in std::mem::take(&mut self.references) {
            put(&mut self.code, end - 4, data, end + distance);
        }
        for (at, label, from) in std::mem::take(&mut self.entries) {
            let place = self.offset_of(label)?;
            put(&mut self.data, at, place + distance, from);
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    fn immediate(&mut self, number: i32) {
        self.code.extend(number.to_le_bytes());
    }

    /// Encodes one instruction: prefix (0 for none), REX, opcode, operands. `has_byte` marks byte registers,
    /// which need a REX byte from the fifth on.
    fn encode(&mut self, prefix: u8, is_wide: bool, has_byte: bool, opcode: &[u8], reg: u8, rm: Rm) {
        if prefix != 0 {
            self.byte(prefix);
        }
        let (index, base) = rm.high();
        let rex = 0x40 | u8::from(is_wide) << 3 | (reg >> 3) << 2 | index << 1 | base;
        let is_byte = |register: u8| has_byte && register >= 4;
        if rex != 0x40 || is_byte(reg) || matches!(rm, Rm::Reg(register) if is_byte(register.0)) {
            self.byte(rex);
        }
        self.code.extend(opcode);
        self.operands(reg, rm);
    }

    /// An opcode that encodes its register.
    fn short(&mut self, opcode: u8, register: Gpr) {
        if register.high() != 0 {
            self.byte(0x41);
        }
        self.byte(opcode | register.low());
    }

    /// ModRM, SIB and displacement.
    fn operands(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        let Mem { base, index, displacement } = match rm {
            Rm::Reg(register) => return self.byte(0xc0 | reg | register.low()),
            Rm::Mem(memory) => memory,
        };
        let short = i8::try_from(displacement);
        // Mode 0 with rbp or r13 has another meaning.
        let mode = match (displacement, short) {
            (0, _) if base.low() != 5 => 0,
            (_, Ok(_)) => 0x40,
            _ => 0x80,
        };
        match index {
            None if base.low() != 4 => self.byte(mode | reg | base.low()),
            None => {
                self.byte(mode | reg | 4);
                self.byte(0x20 | base.low());
            }
            Some((index, scale)) => {
                self.byte(mode | reg | 4);
                self.byte(scale << 6 | index.low() << 3 | base.low());
            }
        }
        match (mode, short) {
            (0x40, Ok(short)) => self.byte(short.cast_unsigned()),
            (0, _) => {}
            _ => self.immediate(displacement),
        }
    }

    /// A VEX instruction on 64 bits. `map` is 2 for 0F38 and 3 for 0F3A. `prefix` is 0, 1 (66), 2 (F3) or 3
    /// (F2).
    fn vex(&mut self, map: u8, prefix: u8, opcode: u8, reg: Gpr, other: Gpr, rm: Rm) {
        let (index, base) = rm.high();
        let inverted = (reg.high() ^ 1) << 7 | (index ^ 1) << 6 | (base ^ 1) << 5;
        self.code.extend([0xc4, inverted | map, 0x80 | (other.0 ^ 15) << 3 | prefix, opcode]);
        self.operands(reg.0, rm);
    }

    pub(crate) fn mov(&mut self, to: Gpr, from: impl Into<Rm>) {
        let from = from.into();
        if from != Rm::Reg(to) {
            self.encode(0, true, false, &[0x8b], to.0, from);
        }
    }

    /// Moves the low word, zero extended.
    pub(crate) fn mov_word(&mut self, to: Gpr, from: impl Into<Rm>) {
        self.encode(0, false, false, &[0x8b], to.0, from.into());
    }

    pub(crate) fn mov_number(&mut self, to: Gpr, number: i64) {
        if let Ok(word) = u32::try_from(number) {
            self.short(0xb8, to);
            self.code.extend(word.to_le_bytes());
        } else if let Ok(word) = i32::try_from(number) {
            self.encode(0, true, false, &[0xc7], 0, to.into());
            self.immediate(word);
        } else {
            self.byte(0x48 | to.high());
            self.byte(0xb8 | to.low());
            self.code.extend(number.to_le_bytes());
        }
    }

    /// Stores the low `bytes` (1, 2, 4 or 8) of a register.
    pub(crate) fn store(&mut self, bytes: i64, to: Mem, from: Gpr) {
        let prefix = if bytes == 2 { 0x66 } else { 0 };
        let opcode = if bytes == 1 { 0x88 } else { 0x89 };
        self.encode(prefix, bytes == 8, bytes == 1, &[opcode], from.0, to.into());
    }

    /// Stores the low `bytes` (1, 2, 4 or 8) of a number.
    pub(crate) fn store_number(&mut self, bytes: i64, to: Mem, number: i32) {
        let prefix = if bytes == 2 { 0x66 } else { 0 };
        let opcode = if bytes == 1 { 0xc6 } else { 0xc7 };
        self.encode(prefix, bytes == 8, false, &[opcode], 0, to.into());
        let width: usize = fitted(bytes.min(4));
        self.code.extend(&number.to_le_bytes()[..width]);
    }

    pub(crate) fn extend(&mut self, kind: Extend, to: Gpr, from: impl Into<Rm>) {
        let from = from.into();
        let has_byte = matches!(kind, Extend::ZeroByte | Extend::SignByte) && matches!(from, Rm::Reg(_));
        let is_wide = matches!(kind, Extend::SignByte | Extend::SignHalf);
        self.encode(0, is_wide, has_byte, &[0x0f, kind as u8], to.0, from);
    }

    /// Moves the low word, sign extended.
    pub(crate) fn sign_extend_word(&mut self, to: Gpr, from: impl Into<Rm>) {
        self.encode(0, true, false, &[0x63], to.0, from.into());
    }

    pub(crate) fn lea(&mut self, to: Gpr, address: Mem) {
        self.encode(0, true, false, &[0x8d], to.0, address.into());
    }

    pub(crate) fn lea_label(&mut self, to: Gpr, label: Label) {
        self.code.extend([0x48 | to.high() << 2, 0x8d, 0x05 | to.low() << 3, 0, 0, 0, 0]);
        self.jumps.push((self.code.len(), label));
    }

    pub(crate) fn lea_data(&mut self, to: Gpr, data: usize) {
        self.code.extend([0x48 | to.high() << 2, 0x8d, 0x05 | to.low() << 3, 0, 0, 0, 0]);
        self.references.push((self.code.len(), data));
    }

    pub(crate) fn alu(&mut self, op: Alu, to: Gpr, from: impl Into<Rm>) {
        self.encode(0, true, false, &[(op as u8) << 3 | 3], to.0, from.into());
    }

    pub(crate) fn alu_number(&mut self, op: Alu, to: impl Into<Rm>, number: i32) {
        let to = to.into();
        match i8::try_from(number) {
            Ok(short) => {
                self.encode(0, true, false, &[0x83], op as u8, to);
                self.byte(short.cast_unsigned());
            }
            Err(_) => {
                self.encode(0, true, false, &[0x81], op as u8, to);
                self.immediate(number);
            }
        }
    }

    /// Increments a byte of memory.
    pub(crate) fn count_at(&mut self, place: Mem) {
        self.encode(0, false, false, &[0xfe], 0, place.into());
    }

    /// Copies bit `bit` to the carry flag.
    pub(crate) fn test_bit(&mut self, register: Gpr, bit: u8) {
        self.encode(0, true, false, &[0x0f, 0xba], 4, register.into());
        self.byte(bit);
    }

    pub(crate) fn test(&mut self, a: Gpr, b: Gpr) {
        self.encode(0, true, false, &[0x85], a.0, b.into());
    }

    pub(crate) fn imul(&mut self, to: Gpr, from: impl Into<Rm>) {
        self.encode(0, true, false, &[0x0f, 0xaf], to.0, from.into());
    }

    pub(crate) fn imul_number(&mut self, to: Gpr, from: impl Into<Rm>, number: i32) {
        self.encode(0, true, false, &[0x69], to.0, from.into());
        self.immediate(number);
    }

    /// Multiplies rdx and `from`, unsigned, into both halves. Changes no flags. If `high` and `low` are the
    /// same register, it gets the high half.
    pub(crate) fn mulx(&mut self, high: Gpr, low: Gpr, from: impl Into<Rm>) {
        self.vex(2, 3, 0xf6, high, low, from.into());
    }

    pub(crate) fn unary(&mut self, op: Unary, operand: impl Into<Rm>) {
        self.encode(0, true, false, &[0xf7], op as u8, operand.into());
    }

    /// Divides edx:eax, on 32 bits.
    pub(crate) fn div_word(&mut self, by: Gpr) {
        self.encode(0, false, false, &[0xf7], Unary::Div as u8, by.into());
    }

    /// Fills rdx with the sign of rax.
    pub(crate) fn sign_of_rax(&mut self) {
        self.code.extend([0x48, 0x99]);
    }

    pub(crate) fn zero(&mut self, register: Gpr) {
        self.encode(0, false, false, &[0x33], register.0, register.into());
    }

    pub(crate) fn shift_number(&mut self, op: Shift, register: Gpr, distance: u8) {
        self.encode(0, true, false, &[0xc1], op as u8, register.into());
        self.byte(distance);
    }

    pub(crate) fn shift_by_cl(&mut self, op: Shift, register: Gpr) {
        self.encode(0, true, false, &[0xd3], op as u8, register.into());
    }

    /// Shifts by a register. Changes no flags.
    pub(crate) fn shift(&mut self, op: Shift, to: Gpr, from: impl Into<Rm>, distance: Gpr) {
        let prefix = match op {
            Shift::Shl => 1,
            Shift::Sar => 2,
            _ => 3,
        };
        self.vex(2, prefix, 0xf7, to, distance, from.into());
    }

    pub(crate) fn count(&mut self, op: Count, to: Gpr, from: impl Into<Rm>) {
        self.encode(0xf3, true, false, &[0x0f, op as u8], to.0, from.into());
    }

    pub(crate) fn swap_bytes(&mut self, register: Gpr) {
        self.code.extend([0x48 | register.high(), 0x0f, 0xc8 | register.low()]);
    }

    /// Sets the low byte to 1 or 0.
    pub(crate) fn set(&mut self, cond: Cond, register: Gpr) {
        self.encode(0, false, true, &[0x0f, 0x90 | cond.0], 0, register.into());
    }

    pub(crate) fn mov_if(&mut self, cond: Cond, to: Gpr, from: impl Into<Rm>) {
        self.encode(0, true, false, &[0x0f, 0x40 | cond.0], to.0, from.into());
    }

    pub(crate) fn push(&mut self, register: Gpr) {
        self.short(0x50, register);
    }

    pub(crate) fn pop(&mut self, register: Gpr) {
        self.short(0x58, register);
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// The trap that bails out, with a reason as its number (`antares_abi::BailoutReason`).
    pub(crate) fn trap(&mut self, number: u8) {
        self.code.extend([0x67, 0x0f, 0xb9, 0x40, number]);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        match self.short_distance(to) {
            Some(short) => self.code.extend([0xeb, short]),
            None => self.jump_far(to),
        }
    }

    /// A jump whose encoding always has 5 bytes.
    pub(crate) fn jump_far(&mut self, to: Label) {
        self.byte(0xe9);
        self.distance(to);
    }

    pub(crate) fn jump_if(&mut self, cond: Cond, to: Label) {
        if let Some(short) = self.short_distance(to) {
            self.code.extend([0x70 | cond.0, short]);
            return;
        }
        self.code.extend([0x0f, 0x80 | cond.0]);
        self.distance(to);
    }

    pub(crate) fn jump_to(&mut self, address: Gpr) {
        self.encode(0, false, false, &[0xff], 4, address.into());
    }

    pub(crate) fn call(&mut self, to: Label) {
        self.byte(0xe8);
        self.distance(to);
    }

    pub(crate) fn call_to(&mut self, address: impl Into<Rm>) {
        self.encode(0, false, false, &[0xff], 2, address.into());
    }

    fn distance(&mut self, to: Label) {
        self.code.extend([0; 4]);
        self.jumps.push((self.code.len(), to));
    }

    /// The one-byte distance back to a bound label, after an instruction of two bytes.
    fn short_distance(&self, to: Label) -> Option<u8> {
        let place = i64::from(*self.labels.get(to.0 as usize).filter(|place| **place != UNBOUND)?);
        let end = i64::try_from(self.code.len() + 2).ok()?;
        i8::try_from(place - end).ok().map(i8::cast_unsigned)
    }

    /// Overwrites the last 4 bytes of an instruction that ends at `end`.
    pub(crate) fn patch(&mut self, end: usize, number: i32) {
        self.code[end - 4..end].copy_from_slice(&number.to_le_bytes());
    }
}

/// Writes the 4-byte distance from `from` to `to`. Both are below 2^31.
fn put(bytes: &mut [u8], at: usize, to: usize, from: usize) {
    let distance = to.wrapping_sub(from).to_le_bytes();
    bytes[at..at + 4].copy_from_slice(&distance[..4]);
}
