//! Single statements: arithmetic, memory accesses, system calls, and errors in wild programs.

use antares_abi::Isa;

use super::{
    CONSTANTS, SCRATCH, TEXT,
    builder::{A0, A5, A7, Builder, RA, S0, SP, T1},
};
use crate::asm::{
    Item, Register, compressed, encode,
    operations::{self, ATOMICS, LOADS, OPERATIONS, STORES},
};

impl Builder {
    /// A random instruction or short sequence that continues with the next one.
    pub(super) fn statement(&mut self) {
        match self.random.below(100) {
            0..42 => self.arithmetic(),
            42..56 => self.short_arithmetic(),
            56..66 => self.load(),
            66..75 => self.store(),
            75..80 => self.short_memory(),
            80..84 => self.indexed(),
            84..93 => self.fused(),
            93..96 => self.atomic(),
            96 => self.no_operation(),
            97 if self.settings.loader => self.machine_call(),
            97 => self.print(),
            _ if self.settings.wild => self.wild(),
            _ => self.arithmetic(),
        }
    }

    pub(super) fn statements(&mut self, count: u32) {
        for _ in 0..count {
            self.statement();
        }
    }

    fn arithmetic(&mut self) {
        let operation = loop {
            let operation = self.random.pick(&OPERATIONS);
            if self.has(operation.isa) || self.settings.wild && self.random.one_in(40) {
                break operation;
            }
        };
        let (rd, rs1, rs2) = (self.target(), self.source(), self.source());
        let immediates = [self.random.bits() as i32, self.random.between(-2048, 2047)];
        let immediate = self.random.pick(&[0, 1, -1, immediates[0], immediates[1], immediates[1]]);
        self.word(operation.encode(rd, rs1, rs2, immediate));
    }

    fn short_arithmetic(&mut self) {
        let kind = self.random.below(compressed::ARITHMETIC);
        let immediate = self.random.below(256);
        // Kinds 4 to 12 and 16 use x8 to x15.
        let rd = if (4..=12).contains(&kind) || kind == 16 { self.small_target() } else { self.target() };
        let rs2 = self.source();
        let hint = rd == 0 || immediate & 63 == 0;
        let takes_hints = self.settings.options.vm_version > 0 && kind != 5 && kind != 4;
        let (rd, immediate) = if hint && !takes_hints && !self.settings.wild {
            (if rd == 0 { self.small_target() } else { rd }, immediate | 1)
        } else {
            (rd, immediate)
        };
        self.half(compressed::arithmetic(kind, rd, rs2, immediate));
    }

    /// A base register, and the range of offsets within the scratch area or the stack.
    fn base(&mut self) -> (Register, i32, i32) {
        let stack = if self.stack_room >= 8 { (SP, 0, self.stack_room - 8) } else { (S0, 0, 8) };
        self.random.pick(&[(S0, -2048, 2040), (A5, -2048, 2040), (A5, -16, 16), stack, (S0, 0, 64)])
    }

    fn offset(&mut self, low: i32, high: i32, width: u8) -> i32 {
        let offset = self.random.between(low, high);
        if self.random.one_in(4) { offset } else { (offset & -i32::from(width)).max(low) }
    }

    fn load(&mut self) {
        let (funct3, width) = self.random.pick(&LOADS);
        let (base, low, high) = self.base();
        let offset = self.offset(low, high, width);
        let rd = self.target();
        self.word(operations::load(funct3, rd, base, offset));
    }

    fn store(&mut self) {
        let (funct3, width) = self.random.pick(&STORES);
        let (base, low, high) = self.base();
        let offset = self.offset(low, high, width);
        let value = self.source();
        self.word(encode::s(funct3, base, value, offset));
    }

    fn short_memory(&mut self) {
        let kind = self.random.below(4);
        let scale: i32 = if kind & 1 == 0 { 4 } else { 8 };
        let slots = (self.stack_room / scale).min(64);
        if slots > 0 && self.random.one_in(2) {
            let register = if kind < 2 { self.target() } else { self.source() };
            if kind < 2 && register == 0 {
                return;
            }
            let offset = (scale * self.random.between(0, slots - 1)).cast_unsigned();
            self.half(compressed::stack(kind, register, offset));
        } else {
            let base = self.random.pick(&[S0, A5]);
            let value = if kind < 2 { self.small_target() } else { self.random.between(8, 15) as Register };
            let offset = (scale * self.random.between(0, 31)).cast_unsigned();
            self.half(compressed::memory(kind, value, base, offset));
        }
    }

    /// An access at a computed index: masked, scaled, added to a base.
    fn indexed(&mut self) {
        let (index, from) = (self.target(), self.source());
        if index == 0 {
            return;
        }
        let base = self.random.pick(&[S0, A5]);
        let mask = self.random.pick(&[0x7f8, 0x3ff, 0x7ff, 0xf]);
        self.word(encode::i(0x13, 7, index, from, mask));
        self.register_op("add", index, index, base);
        let offset = self.random.between(-8, 8);
        self.access(index, offset, 0);
    }

    fn atomic(&mut self) {
        let invalid = self.settings.wild && self.random.one_in(10);
        if !self.has(Isa::A) && !invalid {
            return self.arithmetic();
        }
        let (rd, rs2, base) = (self.target(), self.source(), self.random.pick(&[S0, A5]));
        let (operation, wide) = (self.random.pick(&ATOMICS), self.random.one_in(2));
        self.word(operations::atomic(operation, wide, rd, base, rs2));
    }

    fn no_operation(&mut self) {
        let word = self.random.pick(&[0x0ff0_000f, 0x0000_100f, 0x0010_0073, 0x13]);
        self.word(word);
    }

    /// The debug system call, with a string that is first written to scratch memory.
    pub(super) fn print(&mut self) {
        if self.kept & (1 << A0 | 1 << A7 | 1 << T1) != 0 {
            return;
        }
        let letter = self.random.between(0x21, 0x7e);
        self.addi(T1, 0, letter);
        self.word(encode::s(1, S0, T1, 100));
        self.addi(A0, S0, 100);
        self.ecall(2177);
    }

    /// A system call for the VM's version, a pause or a line of debug output.
    fn machine_call(&mut self) {
        if self.kept & (1 << A0 | 1 << A7) != 0 {
            return;
        }
        match self.random.below(12) {
            0 => self.ecall(2178),
            1..5 => self.ecall(2041),
            5..9 => self.ecall(2179),
            _ => self.print(),
        }
    }

    /// A statement that ends in an error, or almost.
    fn wild(&mut self) {
        match self.random.below(12) {
            0 => {
                let word = self.random.bits() as u32;
                self.word(word | 3);
            }
            1 => {
                let half = self.random.bits() as u16;
                self.half(if half & 3 == 3 { half ^ 1 } else { half });
            }
            2 => {
                let (base, offset) = (self.source(), self.random.between(-2048, 2047));
                self.access(base, offset, 3);
            }
            3 => self.edge_access(),
            4 => self.code_access(),
            5 => self.wild_jump(),
            6 => {
                // Move a base register.
                let (register, from) = (self.random.pick(&[S0, A5, SP]), self.source());
                self.register_op("add", register, register, from);
            }
            7 => {
                let number = self.random.between(-8, 2200);
                self.ecall(number);
            }
            8 => {
                // A system call number that is not a constant.
                let from = self.source();
                self.addi(A7, from, 93);
                self.word(0x73);
            }
            9 => {
                let from = self.source();
                self.addi(A0, from, 0);
                self.ecall(2177);
            }
            _ => self.edge_access(),
        }
    }

    /// A load or store. The result of one in `unused` loads is unused, of none for 0: it must still fail.
    pub(super) fn access(&mut self, base: Register, offset: i32, unused: u32) {
        if self.random.one_in(2) {
            let (funct3, _) = self.random.pick(&LOADS);
            let rd = if unused > 0 && self.random.one_in(unused) { 0 } else { self.target() };
            self.word(operations::load(funct3, rd, base, offset));
        } else {
            let (funct3, _) = self.random.pick(&STORES);
            let value = self.source();
            self.word(encode::s(funct3, base, value, offset));
        }
    }

    /// Accesses near the ends of memory: their legality depends on width, offset and version.
    fn edge_access(&mut self) {
        let base = self.random.pick(&[T1, 28, 29]);
        if self.kept & 1 << base != 0 {
            return;
        }
        let distance = self.random.between(-24, 24);
        let edge = self.random.below(6);
        match edge {
            0 => self.word(encode::u(0x37, base, 0x40_0000)),
            1 => self.addi(base, 0, 0),
            2..4 => {
                self.addi(base, 0, 1);
                let shift = self.random.pick(&[22, 31, 32, 33, 40, 47, 62, 63]);
                self.word(encode::i(0x13, 1, base, base, shift));
            }
            4 => self.word(encode::u(0x37, base, 0x41_0000)),
            _ => {
                let upper = self.random.bits() as u32;
                self.word(encode::u(0x37, base, upper));
            }
        }
        self.addi(base, base, distance);
        let against = if self.random.one_in(2) { -distance } else { 0 };
        let offset = against + self.random.between(-12, 12);
        self.access(base, offset, 3);
    }

    /// Reads and writes code, or the boundary of its pages.
    fn code_access(&mut self) {
        if self.kept & 1 << T1 != 0 {
            return;
        }
        let plus = self.random.pick(&[0, -4, -7, -8, 16, 4096, 4092]);
        let of = self.random.pick(&[TEXT, TEXT, SCRATCH, CONSTANTS]);
        self.address(T1, of, plus);
        let offset = self.random.between(-4, 4);
        self.access(T1, offset, 3);
    }

    fn wild_jump(&mut self) {
        let (rd, rs1) = (self.random.pick(&[0, RA, T1, 5]), self.source());
        match self.random.below(4) {
            0 => {
                let offset = self.random.between(-16, 16);
                self.word(encode::i(0x67, 0, rd, rs1, offset));
            }
            1 => {
                let label = self.new_label();
                self.place(label);
                let plus = self.random.pick(&[2, 4, 6, 8]);
                self.push(Item::Address { is_absolute: false, rd: T1, of: label, plus });
                let offset = self.random.pick(&[0, 1, 8, 12, 14]);
                self.word(encode::i(0x67, 0, rd, T1, offset));
            }
            2 => {
                self.address(T1, SCRATCH, 0);
                self.word(encode::i(0x67, 0, rd, T1, 0));
            }
            _ => {
                // A target with correct low 32 bits only.
                let label = self.new_label();
                self.push(Item::Address { is_absolute: false, rd: T1, of: label, plus: 0 });
                self.addi(29, 0, 1);
                self.word(encode::i(0x13, 1, 29, 29, 32));
                self.register_op("add", T1, T1, 29);
                self.word(encode::i(0x67, 0, rd, T1, 0));
                self.place(label);
            }
        }
    }
}
