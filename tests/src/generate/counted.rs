//! Counted: loops with a counter, a bound and moving pointers, near values where something wraps, leaves
//! memory or reaches an executable page. They use every condition, on words and doublewords.
//!
//! Some have more blocks: side branches, other exits, and calls of a small function, which may count too.
//! Addresses may be sums, for example with the counter. Others are loops that search for a byte, and small
//! functions with loops.

use super::{
    CONSTANTS, Program, SCRATCH, TEXT,
    builder::{Builder, RA, S10, S11},
};
use crate::asm::{Item, Label, Register, encode, operations};

/// Cycle limits: some end in the middle of a loop.
const CYCLES_MAX: [u64; 5] = [200, 700, 3_000, 20_000, 20_000];

pub(super) const COUNTER: Register = 28;
pub(super) const END: Register = 29;
pub(super) const POINTERS: [Register; 2] = [30, 31];
/// Holds the program's return address.
const LINK: Register = S10;
const ADDRESS: Register = S11;

/// Start values of counters.
const STARTS: [i64; 12] =
    [0, 0, 0, 1, -3, 17, 0x7ffd, (1 << 30) - 4, (1 << 31) - 5, (1 << 32) - 6, i64::MAX - 7, i64::MIN + 3];

/// Builds a program of one or two loops.
pub(super) fn build(mut builder: Builder) -> Program {
    builder.prologue();
    builder.keep(&[RA, COUNTER, END, POINTERS[0], POINTERS[1], LINK, ADDRESS]);
    builder.addi(LINK, RA, 0);
    let (mut leaves, mut numbered) = (Vec::new(), Vec::new());
    for _ in 0..builder.random.between(1, 2) {
        match builder.random.below(6) {
            0 => builder.search_loop(),
            1 => numbered.push(builder.numbered_calls()),
            _ => leaves.extend(builder.edge_loop()),
        }
    }
    builder.addi(RA, LINK, 0);
    builder.epilogue();
    for leaf in leaves {
        builder.leaf(leaf);
    }
    for function in &numbered {
        builder.numbered(function);
    }
    let cycles_max = builder.random.pick(&CYCLES_MAX);
    builder.finish(cycles_max)
}

/// A function called in a loop: its label and its steps.
pub(super) struct Leaf {
    pub(super) label: Label,
    pub(super) step: i32,
    pub(super) moves: Vec<i32>,
}

impl Builder {
    fn edge_loop(&mut self) -> Option<Leaf> {
        let step = self.random.pick(&[1, 1, -1, 2, 4, 4, 8, 8, -4, -8, 3, -7, 16, 0]);
        let passes = self.random.pick(&[0, 0, 1, 2, 3, 5, 9, 30, 100, 600]);
        // The counter hits the bound, misses it slightly, or starts on the wrong side.
        let off = self.random.pick(&[0, 0, 0, 1, -1, 2, -3, step, -step]);
        // A downward bound is often near zero, where an unsigned counter wraps.
        let is_near_zero = step < 0 && self.random.one_in(2);
        let start = if is_near_zero {
            i64::from(self.random.between(0, 9) - passes * step)
        } else {
            self.random.pick(&STARTS)
        };
        self.load_number(COUNTER, start);
        self.load_number(END, start.wrapping_add(i64::from(passes * step + off)));
        // If no pointer moves, only the number of passes matters.
        let is_still = self.random.one_in(4);
        let moves: Vec<i32> = POINTERS
            .iter()
            .map(|_| {
                let moved = self.random.pick(&[0, 1, 4, 8, -1, -8, -2, -4, 16, -24]);
                if is_still { 0 } else { moved }
            })
            .collect();
        let scale = self.random.below(4);
        for (pointer, moved) in POINTERS.iter().zip(&moves) {
            let way = if self.random.one_in(3) { step << scale } else { 0 } + *moved;
            self.place_pointer(*pointer, passes * way, way);
        }
        let (again, out) = (self.new_label(), self.new_label());
        let is_simple = self.random.one_in(3);
        let calls = !is_simple && self.random.one_in(3);
        // The counter changes at the start or end of the loop, or in the called function.
        let counts_inside = calls && self.random.one_in(3);
        let (own_step, own_moves) = if counts_inside { (0, vec![0, 0]) } else { (step, moves.clone()) };
        self.place(again);
        let is_counted_first = self.random.one_in(3);
        if is_counted_first {
            self.count(own_step);
        }
        for _ in 0..self.random.between(1, 3) {
            if is_simple { self.near_access() } else { self.loop_statement(scale, out) }
        }
        let leaf = calls.then(|| {
            let label = self.new_label();
            self.push(Item::Jump { rd: RA, to: label });
            Leaf { label, step: step - own_step, moves: if counts_inside { moves } else { vec![0, 0] } }
        });
        self.move_pointers(&own_moves, is_simple);
        if !is_counted_first {
            // A counter that moves only in some passes.
            let aside = self.new_label();
            if !is_simple && self.random.one_in(6) {
                self.aside(aside);
            }
            self.count(own_step);
            self.place(aside);
        }
        if !is_simple && self.random.one_in(3) {
            self.loop_statement(scale, out);
        }
        if is_near_zero && self.random.one_in(2) {
            // Continue while the counter is above the bound.
            let (funct3, rs1, rs2) = self.random.pick(&[(6, END, COUNTER), (7, COUNTER, END)]);
            self.push(Item::Branch { funct3, rs1, rs2, to: again, plus: 0 });
        } else {
            self.again(again);
        }
        self.place(out);
        leaf
    }

    pub(super) fn move_pointers(&mut self, moves: &[i32], is_simple: bool) {
        for (pointer, moved) in POINTERS.iter().zip(moves) {
            // A pointer that moves only in some passes.
            let aside = self.new_label();
            if !is_simple && self.random.one_in(6) {
                self.aside(aside);
            }
            self.addi(*pointer, *pointer, *moved);
            self.place(aside);
        }
    }

    /// A function with the statements of a loop, but without a loop.
    fn leaf(&mut self, leaf: Leaf) {
        self.place(leaf.label);
        let aside = self.new_label();
        if self.random.one_in(3) {
            self.aside(aside);
        }
        for _ in 0..self.random.between(0, 2) {
            self.near_access();
        }
        if self.random.one_in(2) {
            self.place(aside);
            self.move_pointers(&leaf.moves, true);
        } else {
            self.move_pointers(&leaf.moves, true);
            self.place(aside);
        }
        self.count(leaf.step);
        self.half(0x8082);
    }

    /// A branch with a random condition.
    fn aside(&mut self, to: Label) {
        let funct3 = self.random.pick(&[0, 1, 4, 5, 6, 7]);
        let sources = [self.source(), self.source(), COUNTER, END, POINTERS[0]];
        let (rs1, rs2) = (self.random.pick(&sources), self.random.pick(&sources));
        self.push(Item::Branch { funct3, rs1, rs2, to, plus: 0 });
    }

    /// A statement of a loop with several blocks.
    fn loop_statement(&mut self, scale: u32, out: Label) {
        match self.random.below(8) {
            0 => self.near_access(),
            1 => {
                let aside = self.new_label();
                self.aside(aside);
                self.near_access();
                self.place(aside);
            }
            2 => self.aside(out),
            3 => {
                let next = self.new_label();
                self.push(Item::Jump { rd: 0, to: next });
                self.place(next);
                self.near_access();
            }
            _ => self.access_of_sum(scale),
        }
    }

    /// An access at the sum of a pointer and another value.
    fn access_of_sum(&mut self, scale: u32) {
        let pointer = self.random.pick(&POINTERS);
        let shift = |funct3, rd, rs1, distance: u32, high: u32| {
            encode::i(0x13, funct3, rd, rs1, (distance | high << 10) as i32)
        };
        match self.random.below(8) {
            0 => self.addi(ADDRESS, COUNTER, 0),
            1 => self.word(shift(1, ADDRESS, COUNTER, scale, 0)),
            // The low word, sign-extended and scaled.
            2 => {
                let offset = self.random.pick(&[0, 0, 1, -1, 8]);
                self.word(encode::i(0x1b, 0, ADDRESS, COUNTER, offset));
                self.word(shift(1, ADDRESS, ADDRESS, scale, 0));
            }
            // The low word, zero-extended and scaled.
            3 => {
                let offset = self.random.pick(&[0, 0, 1, -1, 8]);
                self.addi(ADDRESS, COUNTER, offset);
                self.word(shift(1, ADDRESS, ADDRESS, 32, 0));
                self.word(shift(5, ADDRESS, ADDRESS, 32 - scale, 0));
            }
            4 => {
                let mask = self.random.pick(&[-8, -4, -2, -16, -3]);
                self.word(encode::i(0x13, 7, ADDRESS, COUNTER, mask));
            }
            5 => {
                let source = self.source();
                let mask = self.random.pick(&[7, 255, 31, 2047, 56]);
                self.word(encode::i(0x13, 7, ADDRESS, source, mask));
            }
            6 => {
                let (base, width) = (self.random.pick(&POINTERS), self.random.pick(&[4, 5]));
                self.word(operations::load(width, ADDRESS, base, 0));
            }
            _ => {
                let source = self.source();
                let distance = self.random.pick(&[63, 60, 52, 48, 44]);
                self.word(shift(5, ADDRESS, source, distance, 0));
            }
        }
        if self.random.one_in(4) {
            self.register_op("sub", ADDRESS, pointer, ADDRESS);
        } else {
            self.register_op("add", ADDRESS, ADDRESS, pointer);
        }
        self.access_near(ADDRESS);
    }

    /// Moves the counter, sometimes as a word.
    pub(super) fn count(&mut self, step: i32) {
        let opcode = if self.random.one_in(3) { 0x1b } else { 0x13 };
        self.word(encode::i(opcode, 0, COUNTER, COUNTER, step));
    }

    pub(super) fn again(&mut self, to: Label) {
        let funct3 = self.random.pick(&[1, 1, 1, 4, 5, 6, 7, 0]);
        let (mut rs1, mut rs2) = (COUNTER, END);
        if self.random.one_in(2) {
            (rs1, rs2) = (rs2, rs1);
        }
        self.push(Item::Branch { funct3, rs1, rs2, to, plus: 0 });
    }

    pub(super) fn load_number(&mut self, rd: Register, number: i64) {
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

    /// Sets a pointer so that it reaches a boundary midway, at the end or just after the end of its range, or
    /// not at all.
    pub(super) fn place_pointer(&mut self, pointer: Register, travel: i32, moved: i32) {
        let next = travel + moved;
        let near = [0, travel, travel, next, next, next + moved, travel - moved, travel + 8, travel / 2];
        let back = self.random.pick(&near).clamp(-2047, 2047);
        match self.random.below(12) {
            0..4 => self.address(pointer, SCRATCH, 2048),
            4 | 5 => self.word(encode::u(0x37, pointer, 0x40_0000)),
            // Usually the page after the code: below it is executable.
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

    pub(super) fn near_access(&mut self) {
        let base = self.random.pick(&POINTERS);
        self.access_near(base);
    }

    fn access_near(&mut self, base: Register) {
        let offset = self.random.pick(&[0, 0, 0, 8, -8, 1, 16, -1]);
        self.access(base, offset, 2);
    }
}
