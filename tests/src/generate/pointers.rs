//! Pointers: a few functions called through a table of addresses, which a compiler may compare with their
//! likely targets. Some addresses are wrong, and some functions move sp.

use super::{
    Program,
    builder::{Builder, RA, S0, SP},
};
use crate::asm::{Item, Label, Register, encode};

const CYCLES_MAX: u64 = 20_000;

/// Offset of the saved link, below the strings of other pieces.
const LINK_SLOT: i32 = 1024;

const POINTER: Register = 28;
const COPY: Register = 29;
const ENTRIES: u32 = 4;

/// Builds a program of two to four functions and many calls.
pub(super) fn build(mut builder: Builder) -> Program {
    let count = builder.random.between(2, 4);
    let functions: Vec<Label> = (0..count).map(|_| builder.new_label()).collect();
    let table = builder.new_label();
    builder.constants.extend([Item::Align(8), Item::Label(table)]);
    for _ in 0..ENTRIES {
        let function = builder.random.pick(&functions);
        builder.constants.push(Item::Entry64(function));
    }
    builder.prologue();
    let kept = builder.kept;
    builder.keep(&[RA, POINTER, COPY]);
    builder.store64(S0, RA, LINK_SLOT);
    for _ in 0..builder.random.between(3, 10) {
        if builder.random.one_in(3) {
            builder.statements(1);
        }
        builder.call_by_pointer(table);
    }
    builder.load64(RA, S0, LINK_SLOT);
    builder.epilogue();
    let leaks = builder.random.one_in(5);
    for function in functions {
        builder.kept = kept;
        builder.pointed_at(function, leaks);
    }
    builder.finish(CYCLES_MAX)
}

impl Builder {
    /// A function; occasionally it moves sp.
    fn pointed_at(&mut self, function: Label, leaks: bool) {
        self.keep(&[RA]);
        self.place(function);
        let statements = self.random.below(3);
        self.statements(statements);
        if leaks && self.random.one_in(2) {
            let moved = self.random.pick(&[-16, 16, -48]);
            self.addi(SP, SP, moved);
        }
        self.half(0x8082);
    }

    fn call_by_pointer(&mut self, table: Label) {
        let index = self.source();
        self.word(encode::i(0x13, 7, POINTER, index, 3));
        self.word(encode::i(0x13, 1, POINTER, POINTER, 3));
        self.address(COPY, table, 0);
        self.register_op("add", POINTER, POINTER, COPY);
        self.load64(POINTER, POINTER, 0);
        if self.settings.wild && self.random.one_in(60) {
            let off = self.random.pick(&[4, 8, -2, 64, 2]);
            self.addi(POINTER, POINTER, off);
        }
        let next = self.new_label();
        match self.random.below(10) {
            // The target ignores bit 0 of the address.
            0 => {
                self.addi(POINTER, POINTER, 1);
                self.jalr(POINTER, 0);
            }
            1 | 2 => {
                let offset = self.random.pick(&[2, -2, 16, 2047, -2048]);
                self.addi(POINTER, POINTER, -offset);
                self.jalr(POINTER, offset);
            }
            // Through the link register itself: version 0 continues after the call.
            3 => {
                self.addi(RA, POINTER, 0);
                self.push(Item::Branch { funct3: 0, rs1: POINTER, rs2: 0, to: next, plus: 0 });
                self.jalr(RA, 0);
            }
            4 => {
                self.addi(COPY, POINTER, 0);
                self.addi(POINTER, 0, 0);
                self.jalr(COPY, 0);
            }
            5 => {
                self.push(Item::Branch { funct3: 0, rs1: POINTER, rs2: 0, to: next, plus: 0 });
                self.jalr(POINTER, 0);
            }
            _ if self.random.one_in(2) => self.half(0x9002 | u16::from(POINTER) << 7),
            _ => self.jalr(POINTER, 0),
        }
        self.place(next);
    }

    fn jalr(&mut self, through: Register, offset: i32) {
        self.word(encode::i(0x67, 0, RA, through, offset));
    }
}
