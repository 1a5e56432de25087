//! Sequences that ckb-vm fuses into one operation, and near misses.

use super::builder::Builder;
use crate::asm::{Item, Register, compressed};

const SEQUENCES: u32 = 14;

impl Builder {
    /// Usually a sequence that some versions fuse; occasionally with a jump into its middle.
    pub(super) fn fused(&mut self) {
        let start = self.text.len();
        self.sequence();
        if self.random.one_in(4) {
            let len = self.text.len() - start;
            let at = start + self.random.below(u32::try_from(len).unwrap_or(1)) as usize;
            let label = self.new_label();
            self.text.insert(at, Item::Label(label));
            let (rs1, rs2) = (self.source(), self.source());
            let funct3 = self.random.pick(&[0, 1, 4, 5, 6, 7]);
            self.text.insert(start, Item::Branch { funct3, rs1, rs2, to: label, plus: 0 });
        }
    }

    fn sequence(&mut self) {
        let r = self.few_registers();
        let spoiled = self.random.one_in(6);
        let pick = |register: Register, builder: &mut Self| {
            if spoiled && builder.random.one_in(4) { builder.target() } else { register }
        };
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|index| pick(r[index], self));
        match self.random.below(SEQUENCES) {
            0 => self.add_with_carry(a, b, c),
            1 => self.subtract_with_borrow(a, b, c, d),
            2 => self.rows(&[("add", r[0], r[1], r[2]), ("sltu", d, a, b)]),
            3 => self.rows(&[("sub", r[0], r[1], r[2]), ("sltu", d, b, c)]),
            4 => self.rows(&[("add", r[0], r[1], r[0]), ("sltu", c, a, b), ("add", d, c, e)]),
            5 => self.rows(&[("add", r[0], r[1], r[2]), ("sltu", b, a, b), ("add", d, b, e)]),
            6 => self.rows(&[("add", r[0], r[1], r[2]), ("sltu", d, a, b), ("add", d, d, e)]),
            7 => self.rows(&[("mulh", r[0], r[1], r[2]), ("mul", d, b, c)]),
            8 => self.rows(&[("mulhu", r[0], r[1], r[2]), ("mul", d, b, c)]),
            9 => self.rows(&[("mulhsu", r[0], r[1], r[2]), ("mul", d, b, c)]),
            10 => self.rows(&[("div", r[0], r[1], r[2]), ("rem", d, b, c)]),
            11 => self.rows(&[("divu", r[0], r[1], r[2]), ("remu", d, b, c)]),
            12 => self.upper_pair("lui", "addiw", a, b),
            _ => self.upper_pair("auipc", "addi", a, b),
        }
    }

    fn add_with_carry(&mut self, a: Register, b: Register, c: Register) {
        let rows =
            [("add", a, a, b), ("sltu", b, a, b), ("add", a, a, c), ("sltu", c, a, c), ("or", b, b, c)];
        self.rows(&rows);
    }

    fn subtract_with_borrow(&mut self, a: Register, b: Register, c: Register, d: Register) {
        // The fusion rule ignores rs2 of the second instruction.
        let any = if self.random.one_in(4) { self.source() } else { b };
        let rows =
            [("sub", b, a, b), ("sltu", d, a, any), ("sub", a, b, c), ("sltu", c, b, a), ("or", b, c, d)];
        self.rows(&rows);
    }

    fn upper_pair(&mut self, upper: &str, lower: &str, a: Register, b: Register) {
        let immediates = [self.random.between(-0x8_0000, 0x7_ffff), self.random.between(-2048, 2047)];
        let upper_immediate = self.random.pick(&[immediates[0], 0x7_ffff, -0x8_0000, 1, -1]);
        let lower_immediate = self.random.pick(&[immediates[1], -2048, 2047, -1]);
        let second = if self.random.one_in(5) { b } else { a };
        self.word(crate::asm::operations::named(upper).encode(a, 0, 0, upper_immediate));
        self.word(crate::asm::operations::named(lower).encode(second, a, 0, lower_immediate));
    }

    /// Five writable registers, usually different ones.
    fn few_registers(&mut self) -> [Register; 5] {
        let mut registers = [0; 5];
        for index in 0..registers.len() {
            registers[index] = self.target();
            if registers[..index].contains(&registers[index]) && !self.random.one_in(8) {
                registers[index] = self.target();
            }
        }
        registers
    }

    /// Register operations in a row, some compressed where possible.
    fn rows(&mut self, rows: &[(&str, Register, Register, Register)]) {
        for &(name, rd, rs1, rs2) in rows {
            let small = |register: Register| (8..16).contains(&register);
            let short = match name {
                "add" if rd == rs1 && rd != 0 && rs2 != 0 => Some(compressed::arithmetic(15, rd, rs2, 0)),
                "add" if rs1 == 0 && rd != 0 && rs2 != 0 => Some(compressed::arithmetic(14, rd, rs2, 0)),
                "sub" if rd == rs1 && small(rd) && small(rs2) => Some(compressed::arithmetic(7, rd, rs2, 0)),
                "or" if rd == rs1 && small(rd) && small(rs2) => Some(compressed::arithmetic(9, rd, rs2, 0)),
                _ => None,
            };
            match short {
                Some(half) if self.random.one_in(2) => self.half(half),
                _ => self.register_op(name, rd, rs1, rs2),
            }
        }
    }
}
