//! Loops that search a register for a byte from the top, as libgcc counts leading zeros. Near misses have other
//! steps and masks, start between two bytes, or read the byte after the loop.

use super::builder::{Builder, S11};
use crate::asm::{Item, Register, encode};

const COUNTER: Register = 28;
const WORD: Register = 29;
const BYTE: Register = S11;

/// Start values of counters.
const STARTS: [i64; 12] = [56, 56, 56, 64, 48, 8, 16, 0, 72, 55, -8, (1 << 32) + 56];

impl Builder {
    pub(super) fn search_loop(&mut self) {
        let start = self.random.pick(&STARTS);
        self.load_number(COUNTER, start);
        self.searched();
        let (again, out, end) = (self.new_label(), self.new_label(), self.new_label());
        let step = if self.random.one_in(12) { self.random.pick(&[-16, -4, 8]) } else { -8 };
        let mask = if self.random.one_in(12) { self.random.pick(&[127, 15, -256]) } else { 255 };
        self.place(again);
        self.addi(COUNTER, COUNTER, step);
        self.push(Item::Branch { funct3: 0, rs1: COUNTER, rs2: 0, to: out, plus: 0 });
        self.register_op("srl", BYTE, WORD, COUNTER);
        self.word(encode::i(0x13, 7, BYTE, BYTE, mask));
        if self.random.one_in(4) {
            self.push(Item::Branch { funct3: 1, rs1: BYTE, rs2: 0, to: out, plus: 0 });
            self.push(Item::Jump { rd: 0, to: again });
        } else {
            self.push(Item::Branch { funct3: 0, rs1: BYTE, rs2: 0, to: again, plus: 0 });
        }
        self.place(out);
        if self.random.one_in(4) {
            // Another use of the byte, or a delayed write.
            let rd = self.target();
            self.register_op("add", rd, BYTE, COUNTER);
            self.push(Item::Branch { funct3: 1, rs1: rd, rs2: 0, to: end, plus: 0 });
        }
        self.register_op("srl", BYTE, WORD, COUNTER);
        self.place(end);
    }

    /// Sets the searched value: a few bits, or random.
    fn searched(&mut self) {
        match self.random.below(4) {
            0 => {
                let source = self.source();
                self.addi(WORD, source, 0);
            }
            1 => self.load_number(WORD, 0),
            _ => {
                let (bits, place) = (self.random.pick(&[1, 1, 0x80, 0xff, 0x101, -1]), self.random.below(64));
                self.load_number(WORD, bits);
                self.word(encode::i(0x13, 1, WORD, WORD, place as i32));
            }
        }
        if self.random.one_in(3) {
            // Isolate the lowest bit, as for trailing zeros.
            self.register_op("sub", BYTE, 0, WORD);
            self.register_op("and", WORD, WORD, BYTE);
        }
    }
}
