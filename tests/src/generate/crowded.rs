//! Crowded: long straight-line blocks with most registers live, which a compiler reorders. Accesses of every
//! width overlap in a few bytes through three bases, one of which is known only at run time.

use super::{
    Program,
    builder::{Builder, RA, S0, SP},
};
use crate::asm::{Register, encode, operations};

const CYCLES_MAX: u64 = 20_000;

/// A base a few bytes beyond `s0`, which depends on another register.
const NEAR: Register = 28;
const CARRY: Register = 29;

/// Size of the range in which accesses start.
const ROOM: i32 = 64;

/// Builds a program of one to three rows.
pub(super) fn build(mut builder: Builder) -> Program {
    builder.prologue();
    builder.keep(&[RA, NEAR, CARRY]);
    for _ in 0..builder.random.between(1, 3) {
        builder.near();
        for _ in 0..builder.random.between(60, 200) {
            builder.crowded();
        }
        if builder.random.one_in(2) {
            builder.statements(2);
        }
    }
    builder.epilogue();
    builder.finish(CYCLES_MAX)
}

impl Builder {
    fn near(&mut self) {
        let from = self.any();
        let mask = self.random.pick(&[56, 63, 7, 8]);
        self.word(encode::i(0x13, 7, NEAR, from, mask));
        self.register_op("add", NEAR, NEAR, S0);
    }

    /// A random unprotected register, uniformly distributed.
    fn any(&mut self) -> Register {
        self.unkept(|builder| builder.random.between(4, 31) as Register)
    }

    fn crowded(&mut self) {
        let (rd, rs1, rs2) = (self.any(), self.any(), self.any());
        let base = self.random.pick(&[S0, S0, NEAR, SP]);
        let offset = self.random.between(0, ROOM);
        let (aligned, wide) = (offset & -8, self.random.one_in(2));
        match self.random.below(17) {
            0..=2 if wide => self.store64(base, rs1, aligned),
            0..=2 => {
                let funct3 = self.random.below(4);
                self.word(encode::s(funct3, base, rs1, offset));
            }
            3..=5 if wide => self.load64(rd, base, aligned),
            3..=5 => {
                let funct3 = self.random.below(7);
                self.word(operations::load(funct3, rd, base, offset));
            }
            6 | 7 => self.carry(rd, rs1, rs2),
            16 => self.word_of_bytes(rd, base, offset),
            8 | 9 => {
                let high = self.any();
                self.register_op("mulhu", high, rs1, rs2);
                self.register_op("mul", rd, rs1, rs2);
            }
            _ => {
                let name = self.random.pick(&["add", "sub", "xor", "and", "or", "sltu", "addw", "sll"]);
                self.register_op(name, rd, rs1, rs2);
            }
        }
    }

    /// A word combined from its bytes; occasionally a near miss.
    fn word_of_bytes(&mut self, rd: Register, base: Register, offset: i32) {
        let byte = self.any();
        self.word(operations::load(4, rd, base, offset));
        for index in 1..self.random.pick(&[2, 4, 8]) {
            let (next, funct3, shift) = match self.random.below(40) {
                0 => (offset, 4, 8 * index),
                1 => (offset + index, 0, 8 * index),
                2 => (offset + index, 5, 8 * index),
                3 => (offset + index, 4, 8 * index - 8),
                4 => (offset + index, 4, 8 * index - 1),
                5 => (offset + index + 1, 4, 8 * index),
                _ => (offset + index, 4, 8 * index),
            };
            self.word(operations::load(funct3, byte, base, next));
            self.word(encode::i(0x13, 1, byte, byte, shift));
            if self.random.one_in(20) {
                self.word(encode::s(0, S0, byte, offset));
            }
            let (x, y) = if self.random.one_in(2) { (rd, byte) } else { (byte, rd) };
            self.register_op("or", rd, x, y);
        }
    }

    /// A sum or difference of two words with carry; occasionally a near miss.
    fn carry(&mut self, rd: Register, rs1: Register, rs2: Register) {
        let high = self.any();
        let from = self.random.pick(&[rs1, rs1, rs2, high]);
        if self.random.one_in(3) {
            self.register_op("sltu", CARRY, rs1, rs2);
            self.register_op("sub", rd, rs1, rs2);
            return self.register_op("sub", high, high, CARRY);
        }
        self.register_op("add", rd, rs1, rs2);
        self.register_op("sltu", CARRY, rd, from);
        if self.random.one_in(4) {
            self.crowded_store(rd);
        }
        self.register_op("add", high, high, CARRY);
    }

    fn crowded_store(&mut self, value: Register) {
        let base = self.random.pick(&[S0, NEAR, SP]);
        let offset = self.random.between(0, ROOM);
        self.store64(base, value, offset);
    }
}
