//! Links: small functions, each with a link register of its own, that call, return and jump in unusual ways.
//!
//! What compilers never do must still end as in the interpreter: functions that change the link register of others,
//! return through a copy of theirs or through another's, recursion, calls of computed addresses.

use super::{
    Program, SCRATCH,
    builder::{Builder, GP, RA, S0, SP, T0, T1, T2},
};
use crate::asm::{Item, Label, Register, encode};

/// Cycle limit.
const CYCLES_MAX: u64 = 100_000;

/// Registers that link: the two of the calling convention, and seldom one that is none.
const LINKS: [Register; 12] = [RA, T0, RA, T0, RA, T0, RA, T0, RA, T0, T0, 28];

/// Where the programs keep their links while they call, below the strings of other pieces.
const LINK_SLOT: i32 = 1024;

#[derive(Clone, Copy)]
struct Function {
    label: Label,
    link: Register,
}

/// Builds a program of two to four functions.
pub(super) fn build(mut builder: Builder) -> Program {
    let count = builder.random.between(1, 3);
    let functions: Vec<Function> = (0..count)
        .map(|_| Function { label: builder.new_label(), link: builder.random.pick(&LINKS) })
        .collect();
    builder.prologue();
    // Deep recursion uses up the native stack.
    let deep = builder.random.one_in(64);
    let fuel = if deep { builder.random.between(2000, 2047) } else { builder.random.between(1, 40) };
    builder.addi(GP, 0, fuel);
    if deep && builder.random.one_in(2) {
        builder.word(encode::i(0x13, 1, GP, GP, 4));
    }
    let kept = builder.kept;
    builder.keep(RA);
    builder.store64(S0, RA, LINK_SLOT);
    for _ in 0..builder.random.between(1, 2) {
        let callee = builder.random.pick(&functions);
        builder.call_link(callee);
        builder.statements(1);
    }
    builder.load64(RA, S0, LINK_SLOT);
    builder.epilogue();
    for function in &functions {
        builder.kept = kept;
        builder.link_function(*function, &functions);
    }
    builder.finish(CYCLES_MAX)
}

impl Builder {
    /// A function with or without a frame. Fuel in gp ends recursion.
    fn link_function(&mut self, function: Function, all: &[Function]) {
        let inside = self.new_label();
        self.keep(function.link);
        self.place(function.label);
        self.addi(GP, GP, -1);
        self.push(Item::Branch { funct3: 4, rs1: 0, rs2: GP, to: inside, plus: 0 });
        self.return_by(function.link);
        self.place(inside);
        if self.random.one_in(2) {
            let count = self.random.between(0, 2).cast_unsigned();
            self.statements(count);
            self.tamper(function.link);
            return self.return_by(function.link);
        }
        let size = self.random.pick(&[16, 16, 32, 48]);
        self.addi(SP, SP, -size);
        self.store64(SP, function.link, size - 8);
        self.stack_room = 0;
        for _ in 0..self.random.between(1, 2) {
            let callee = self.random.pick(all);
            self.call_link(callee);
        }
        let count = self.random.between(0, 2).cast_unsigned();
        self.statements(count);
        self.load64(function.link, SP, size - 8);
        self.addi(SP, SP, size);
        self.tamper(function.link);
        self.return_by(function.link);
    }

    /// A call: direct, far, through a register, through memory, or of an address that only arithmetic gives.
    fn call_link(&mut self, callee: Function) {
        let Function { label: to, link: rd } = callee;
        match self.random.below(32) {
            0 => self.push(Item::FarJump { rd, through: rd, to }),
            1 => self.push(Item::FarJump { rd, through: T1, to }),
            2 => self.push(Item::FarJumpAbsolute { rd, through: T2, to }),
            3 | 4 => {
                self.address(T1, to, 0);
                self.word(encode::i(0x67, 0, rd, T1, 0));
            }
            5 => {
                // Through a table that is made at run time.
                self.address(T1, to, 0);
                self.store64(S0, T1, LINK_SLOT + 16);
                self.load64(T2, S0, LINK_SLOT + 16);
                self.word(encode::i(0x67, 0, rd, T2, 0));
            }
            6 => {
                // The address stands nowhere as it is.
                let shift = self.random.between(4, 60);
                self.push(Item::Address { rd: T1, of: to, plus: shift });
                self.addi(T1, T1, -shift);
                self.word(encode::i(0x67, 0, rd, T1, 0));
            }
            7 if self.settings.wild => {
                // Into the function, past its first instruction.
                self.address(T1, to, 0);
                let plus = self.random.pick(&[1, 2, 4]);
                self.word(encode::i(0x67, 0, rd, T1, plus));
            }
            _ => self.push(Item::Jump { rd, to }),
        }
    }

    /// Changes a link register that is not this function's own, now and then.
    fn tamper(&mut self, own: Register) {
        let others: Vec<Register> = [RA, T0, 28].into_iter().filter(|link| *link != own).collect();
        let other = self.random.pick(&others);
        match self.random.below(12) {
            0 => self.addi(other, other, 2),
            1 => self.address(other, SCRATCH, 0),
            2 => self.addi(other, own, 0),
            3 => self.word(encode::u(0x17, other, 0)),
            4 if self.settings.wild => {
                // Its own, by two or four bytes: returns behind the next instruction.
                let plus = self.random.pick(&[2, 4]);
                self.addi(own, own, plus);
            }
            5 if self.settings.wild => self.addi(own, other, 0),
            _ => {}
        }
    }

    /// Returns through the link register, a copy of it, or with a new link.
    fn return_by(&mut self, link: Register) {
        match self.random.below(48) {
            0 => {
                self.addi(T2, link, 0);
                self.word(encode::i(0x67, 0, 0, T2, 0));
            }
            1 => self.word(encode::i(0x67, 0, link, link, 0)),
            2 => self.word(encode::i(0x67, 0, 28, link, 0)),
            3..24 => self.half(0x8002 | u16::from(link) << 7),
            _ => self.word(encode::i(0x67, 0, 0, link, 0)),
        }
    }
}
