//! Builder for the generators: sections under construction, labels, choice of registers.

use antares_abi::Isa;

use super::{CONSTANTS, ENTRY, FIRST_OWN, Form, Program, REGISTERS, Random, SCRATCH, Settings};
use crate::asm::{Item, Label, Register, encode, operations};

pub(super) const RA: Register = 1;
pub(super) const SP: Register = 2;
pub(super) const GP: Register = 3;
pub(super) const T0: Register = 5;
pub(super) const T1: Register = 6;
pub(super) const T2: Register = 7;
pub(super) const S0: Register = 8;
pub(super) const S1: Register = 9;
pub(super) const A0: Register = 10;
pub(super) const A5: Register = 15;
pub(super) const A7: Register = 17;
pub(super) const S10: Register = 26;
pub(super) const S11: Register = 27;
pub(super) const T6: Register = 31;

pub(super) struct Builder {
    pub(super) random: Random,
    pub(super) settings: Settings,
    pub(super) text: Vec<Item>,
    pub(super) constants: Vec<Item>,
    next_label: Label,
    /// Bit mask of registers that ordinary instructions must not write.
    pub(super) kept: u32,
    /// Bytes above sp that statements may use.
    pub(super) stack_room: i32,
    /// The most frequently used registers.
    hot: [Register; 6],
    registers: Vec<u64>,
}

impl Builder {
    pub(super) fn new(mut random: Random, settings: Settings) -> Self {
        let hot = [(); 6].map(|()| random.between(5, 31) as Register);
        let text = vec![Item::Label(ENTRY)];
        let constants = vec![Item::Align(8), Item::Label(CONSTANTS)];
        let (next_label, registers) = (FIRST_OWN, Vec::new());
        let mut builder =
            Self { random, settings, text, constants, next_label, kept: 0, stack_room: 504, hot, registers };
        builder.keep(&[0, SP, GP, S0, A5]);
        builder
    }

    pub(super) fn finish(self, cycles_max: u64) -> Program {
        Program { text: self.text, constants: self.constants, registers: self.registers, cycles_max }
    }

    pub(super) fn has(&self, isa: Isa) -> bool {
        self.settings.options.isa.has(isa)
    }

    pub(super) fn push(&mut self, item: Item) {
        self.text.push(item);
    }

    pub(super) fn word(&mut self, word: u32) {
        self.text.push(Item::Word(word));
    }

    pub(super) fn half(&mut self, half: u16) {
        self.text.push(Item::Half(half));
    }

    pub(super) fn new_label(&mut self) -> Label {
        self.next_label += 1;
        self.next_label - 1
    }

    pub(super) fn place(&mut self, label: Label) {
        self.text.push(Item::Label(label));
    }

    /// Protects registers from writes.
    pub(super) fn keep(&mut self, registers: &[Register]) {
        self.kept |= registers.iter().fold(0, |mask, register| mask | 1 << register);
    }

    pub(super) fn source(&mut self) -> Register {
        if self.random.below(10) < 6 {
            self.random.pick(&self.hot.clone())
        } else {
            self.random.below(32) as Register
        }
    }

    /// Draws until the register is not protected.
    pub(super) fn unkept(&mut self, draw: impl Fn(&mut Self) -> Register) -> Register {
        loop {
            let register = draw(self);
            if self.kept & 1 << register == 0 {
                return register;
            }
        }
    }

    /// A register to write: not a protected one, occasionally x0.
    pub(super) fn target(&mut self) -> Register {
        if self.random.one_in(24) {
            return 0;
        }
        self.unkept(Self::source)
    }

    /// A register to write among x8 to x15.
    pub(super) fn small_target(&mut self) -> Register {
        self.unkept(|builder| builder.random.between(8, 15) as Register)
    }

    pub(super) fn addi(&mut self, rd: Register, rs1: Register, immediate: i32) {
        self.word(encode::i(0x13, 0, rd, rs1, immediate));
    }

    pub(super) fn register_op(&mut self, name: &str, rd: Register, rs1: Register, rs2: Register) {
        self.word(operations::named(name).encode(rd, rs1, rs2, 0));
    }

    pub(super) fn load64(&mut self, rd: Register, base: Register, offset: i32) {
        self.word(operations::load(3, rd, base, offset));
    }

    pub(super) fn store64(&mut self, base: Register, value: Register, offset: i32) {
        self.word(encode::s(3, base, value, offset));
    }

    pub(super) fn ecall(&mut self, number: i32) {
        let low = number.clamp(-2048, 2047);
        self.addi(A7, 0, low);
        if number != low {
            self.addi(A7, A7, number - low);
        }
        self.word(0x73);
    }

    /// Loads the address of a label, in one of two ways.
    pub(super) fn address(&mut self, rd: Register, of: Label, plus: i32) {
        let is_absolute = !self.random.one_in(2);
        self.push(Item::Address { is_absolute, rd, of, plus });
    }

    /// Sets all registers except sp and gp to edge-case numbers, then the two base registers to the scratch
    /// area.
    pub(super) fn prologue(&mut self) {
        if self.settings.kind.form() == Form::Called {
            self.registers = (0..32).map(|_| self.random.number()).collect();
            return;
        }
        self.address(T6, CONSTANTS, 0);
        let mut offset = 0;
        for register in (1..=31).filter(|register| ![SP, GP, T6].contains(register)) {
            let number = self.random.number();
            if self.random.one_in(3) {
                let small = self.random.between(-2048, 2047);
                self.addi(register, 0, small);
            } else {
                self.constants.push(Item::Data(number));
                self.load64(register, T6, offset);
                offset += 8;
            }
        }
        self.address(S0, SCRATCH, 2048);
        self.address(A5, SCRATCH, 4096);
        let room = 512 + 16 * self.random.between(0, 4);
        self.addi(SP, SP, -room);
    }

    /// Stores all registers for the comparison of memory, and exits. The lowest addresses need no base
    /// register, but native code may bail out at stores below the code.
    pub(super) fn epilogue(&mut self) {
        if self.settings.kind.form() == Form::Called && !self.random.one_in(12) {
            if self.random.one_in(2) {
                return self.half(0x8082);
            }
            return self.word(encode::i(0x67, 0, 0, RA, 0));
        }
        let base = if self.random.one_in(16) { 0 } else { SP };
        if base == SP {
            self.addi(SP, SP, -256);
        }
        for register in 1..32 {
            self.store64(base, register, 8 * i32::from(register));
        }
        self.ecall(93);
    }
}

/// Bytes that the batch's start reserves above sp for called programs.
const CALLED_ROOM: i32 = 544;

/// Code of the batch's start before it calls the program with the number in `index`. Loads all registers
/// except those for the selection from the program's row of numbers, and the bases as [`Builder::prologue`]
/// does.
pub(super) fn shared_prologue(index: Register) -> Vec<Item> {
    let kept = [0, RA, SP, index, T2, S0, A5, T6];
    let mut items = vec![
        Item::Word(encode::i(0x13, 1, T2, index, 8)),
        Item::Address { is_absolute: true, rd: T6, of: REGISTERS, plus: 0 },
        Item::Word(operations::named("add").encode(T6, T6, T2, 0)),
    ];
    let loaded = (0..32).filter(|register| !kept.contains(register)).chain([T6]);
    items.extend(
        loaded.map(|register| Item::Word(operations::load(3, register, T6, 8 * i32::from(register)))),
    );
    items.push(Item::Address { is_absolute: false, rd: S0, of: SCRATCH, plus: 2048 });
    items.push(Item::Address { is_absolute: false, rd: A5, of: SCRATCH, plus: 4096 });
    items.push(Item::Word(encode::i(0x13, 0, SP, SP, -CALLED_ROOM)));
    items
}

/// Code of the batch's start after a program returned: stores all registers, and exits.
pub(super) fn shared_epilogue() -> Vec<Item> {
    let mut items = vec![Item::Word(encode::i(0x13, 0, SP, SP, -256))];
    items.extend((1..32).map(|register| Item::Word(encode::s(3, SP, register, 8 * i32::from(register)))));
    items.extend([encode::i(0x13, 0, A7, 0, 93), 0x73].map(Item::Word));
    items
}
