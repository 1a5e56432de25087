//! Counted: loops of one block with a counter, an end and pointers that move, all near the values where something wraps,
//! leaves memory or meets an executable page; with every condition, on words and doublewords.

use super::{
    CONSTANTS, Program, SCRATCH, TEXT,
    builder::{Builder, RA},
};
use crate::asm::{
    Item, Label, Register, encode,
    operations::{self, LOADS, STORES},
};

/// Cycle limits: some end in the middle of a loop.
const CYCLES_MAX: [u64; 5] = [200, 700, 3_000, 20_000, 20_000];

const COUNTER: Register = 28;
const END: Register = 29;
const POINTERS: [Register; 2] = [30, 31];

/// Where counters start.
const STARTS: [i64; 12] =
    [0, 0, 0, 1, -3, 17, 0x7ffd, (1 << 30) - 4, (1 << 31) - 5, (1 << 32) - 6, i64::MAX - 7, i64::MIN + 3];

/// Builds a program of one or two loops.
pub(super) fn build(mut builder: Builder) -> Program {
    builder.prologue();
    for register in [RA, COUNTER, END, POINTERS[0], POINTERS[1]] {
        builder.keep(register);
    }
    for _ in 0..builder.random.between(1, 2) {
        builder.edge_loop();
    }
    builder.epilogue();
    let cycles_max = builder.random.pick(&CYCLES_MAX);
    builder.finish(cycles_max)
}

impl Builder {
    fn edge_loop(&mut self) {
        let step = self.random.pick(&[1, 1, -1, 2, 4, 4, 8, 8, -4, -8, 3, -7, 16, 0]);
        let passes = self.random.pick(&[0, 1, 2, 3, 5, 9, 30, 100, 600]);
        // The end is met, missed by a little, or on the wrong side.
        let off = self.random.pick(&[0, 0, 0, 1, -1, 2, -3, step, -step]);
        let start = self.random.pick(&STARTS);
        self.load_number(COUNTER, start);
        self.load_number(END, start.wrapping_add(i64::from(passes * step + off)));
        let moves: Vec<i32> =
            POINTERS.iter().map(|_| self.random.pick(&[0, 1, 4, 8, -1, -8, -2, -4, 16, -24])).collect();
        for (pointer, moved) in POINTERS.iter().zip(&moves) {
            let travel = passes * moved;
            self.place_pointer(*pointer, travel, *moved);
        }
        let again = self.new_label();
        self.place(again);
        let is_counted_first = self.random.one_in(3);
        if is_counted_first {
            self.count(step);
        }
        for _ in 0..self.random.between(1, 3) {
            self.near_access();
        }
        for (pointer, moved) in POINTERS.iter().zip(&moves) {
            self.addi(*pointer, *pointer, *moved);
        }
        if !is_counted_first {
            self.count(step);
        }
        self.again(again);
    }

    /// Moves the counter, on a word now and then.
    fn count(&mut self, step: i32) {
        let opcode = if self.random.one_in(3) { 0x1b } else { 0x13 };
        self.word(encode::i(opcode, 0, COUNTER, COUNTER, step));
    }

    fn again(&mut self, to: Label) {
        let funct3 = self.random.pick(&[1, 1, 1, 4, 5, 6, 7, 0]);
        let (mut rs1, mut rs2) = (COUNTER, END);
        if self.random.one_in(2) {
            (rs1, rs2) = (rs2, rs1);
        }
        self.push(Item::Branch { funct3, rs1, rs2, to, plus: 0 });
    }

    /// Loads a number.
    fn load_number(&mut self, rd: Register, number: i64) {
        let low = number << 52 >> 52;
        let high = number.wrapping_sub(low) >> 12;
        if high != 0 {
            self.load_number(rd, high);
            self.word(encode::i(0x13, 1, rd, rd, 12));
            self.addi(rd, rd, low as i32);
        } else {
            self.addi(rd, 0, low as i32);
        }
    }

    /// A pointer that reaches a boundary in the middle, at the end or right after the end of its way, or none.
    fn place_pointer(&mut self, pointer: Register, travel: i32, moved: i32) {
        let near = [0, travel, travel + moved, travel + 2 * moved, travel - moved, travel + 8, travel / 2];
        let back = self.random.pick(&near).clamp(-2047, 2047);
        match self.random.below(12) {
            0..4 => self.address(pointer, SCRATCH, 2048),
            4 | 5 => self.word(encode::u(0x37, pointer, 0x40_0000)),
            // The page after the code, mostly: down from there is executable.
            6..10 => {
                self.address(pointer, CONSTANTS, 0);
                self.word(encode::i(0x13, 5, pointer, pointer, 12));
                self.word(encode::i(0x13, 1, pointer, pointer, 12));
            }
            10 => self.address(pointer, TEXT, 0),
            _ => self.addi(pointer, 0, 0),
        }
        self.addi(pointer, pointer, -back);
    }

    fn near_access(&mut self) {
        let base = self.random.pick(&POINTERS);
        let offset = self.random.pick(&[0, 0, 0, 8, -8, 1, 16, -1]);
        if self.random.one_in(2) {
            let (funct3, _) = self.random.pick(&LOADS);
            let rd = self.target();
            self.word(operations::load(funct3, rd, base, offset));
        } else {
            let (funct3, _) = self.random.pick(&STORES);
            let value = self.source();
            self.word(encode::s(funct3, base, value, offset));
        }
    }
}
