//! Numbers: a small function with a loop, called several times, usually with constants. A compiler may
//! specialise the function for each of them.

use super::{
    builder::{Builder, RA},
    counted::{COUNTER, END, Leaf, POINTERS},
};
use crate::asm::{Item, encode};

impl Builder {
    /// Calls of a function that is placed later.
    pub(super) fn numbered_calls(&mut self) -> Leaf {
        let step = self.random.pick(&[1, 1, -1, 2, 4, 8, -4]);
        let moves = POINTERS.iter().map(|_| self.random.pick(&[0, 1, 1, 4, 8, -1, -8, 16])).collect();
        let function = Leaf { label: self.new_label(), step, moves };
        for _ in 0..self.random.between(2, 5) {
            self.numbered_call(&function);
        }
        function
    }

    fn numbered_call(&mut self, function: &Leaf) {
        let passes = self.random.pick(&[0, 1, 2, 3, 5, 9, 16, 40]);
        let start = self.random.pick(&[0, 0, 0, 1, 7, 64, 100, -3, 4090]);
        for (pointer, moved) in POINTERS.iter().zip(&function.moves) {
            self.place_pointer(*pointer, passes * moved, *moved);
        }
        self.load_number(COUNTER, i64::from(start));
        match self.random.below(4) {
            // A number that is known only at run time.
            0 => {
                let source = self.source();
                self.word(encode::i(0x13, 7, END, source, 31));
            }
            1 => {
                let off = self.random.pick(&[1, -1, 2, function.step]);
                self.load_number(END, i64::from(start + passes * function.step + off));
            }
            _ => self.load_number(END, i64::from(start + passes * function.step)),
        }
        self.push(Item::Jump { rd: RA, to: function.label });
    }

    pub(super) fn numbered(&mut self, function: &Leaf) {
        let (again, end) = (self.new_label(), self.new_label());
        self.place(function.label);
        if self.random.one_in(2) {
            self.push(Item::Branch { funct3: 0, rs1: COUNTER, rs2: END, to: end, plus: 0 });
        }
        self.place(again);
        for _ in 0..self.random.between(1, 2) {
            self.near_access();
        }
        self.move_pointers(&function.moves, true);
        self.count(function.step);
        self.again(again);
        self.place(end);
        if self.random.one_in(3) {
            // The argument is used after the loop.
            self.addi(END, COUNTER, 1);
        }
        self.half(0x8082);
    }
}
