//! Structured programs: functions with frames, all forms of calls, recursion, loops, jump tables, tail calls.
//!
//! gp counts calls down; at zero every function returns immediately, so that programs terminate.

use super::{
    Program,
    builder::{Builder, GP, RA, S10, S11, SP, T0, T1, T2},
};
use crate::asm::{Item, Label, Register, encode, operations};

const CYCLES_MAX: u64 = 1_000_000;

/// Registers that a function restores, in addition to the base pointers.
const SAVED: [Register; 10] = [9, 18, 19, 20, 21, 22, 23, 24, 25, S10];

/// Properties of a function for its callers.
#[derive(Clone, Copy)]
struct Function {
    label: Label,
    /// Register of the return address.
    link: Register,
    /// Whether it has a frame, and so may call.
    framed: bool,
}

/// The function under construction.
struct Frame {
    function: Function,
    /// Bytes below the saved registers.
    locals: i32,
    saved: Vec<Register>,
    /// The common exit.
    exit: Label,
    /// Whether loops may count in s11 and s10.
    loops: bool,
}

pub(super) fn build(mut builder: Builder) -> Program {
    let count = builder.random.between(1, 6);
    let functions: Vec<Function> = (0..count)
        .map(|index| Function {
            label: builder.new_label(),
            link: if builder.random.one_in(5) { T0 } else { RA },
            framed: index == 0 || !builder.random.one_in(3),
        })
        .collect();
    builder.prologue();
    let fuel = builder.random.between(3, 300);
    builder.addi(GP, 0, fuel);
    for _ in 0..builder.random.between(1, 3) {
        builder.statements(2);
        let callee = builder.random.pick(&functions);
        builder.call(callee, &functions);
    }
    builder.epilogue();
    for function in &functions {
        builder.function(*function, &functions);
    }
    let tight = builder.random.one_in(10);
    let cycles_max = if tight { u64::from(builder.random.below(20_000)) } else { CYCLES_MAX };
    builder.finish(cycles_max)
}

impl Builder {
    fn function(&mut self, function: Function, all: &[Function]) {
        let kept = self.kept;
        let exit = self.new_label();
        let mut saved = Vec::new();
        if function.framed {
            saved.push(function.link);
            saved.extend(SAVED.into_iter().filter(|_| self.random.one_in(2)));
        } else {
            self.keep(&[function.link]);
        }
        let loops = function.framed && self.random.one_in(2);
        if loops {
            saved.extend([S11].into_iter().chain((!saved.contains(&S10)).then_some(S10)));
        }
        // A clean function restores every callee-saved register that it writes.
        if !self.random.one_in(4) {
            let unsaved = SAVED.into_iter().filter(|register| !saved.contains(register));
            self.keep(&unsaved.collect::<Vec<_>>());
        }
        self.keep(&[S10, S11]);
        let locals = 8 * self.random.between(0, 12);
        let frame = Frame { function, locals, saved, exit, loops };
        self.stack_room = if function.framed { locals } else { 0 };
        self.place(function.label);
        self.enter(&frame);
        let parts = 1 + self.random.below(5);
        self.parts(parts, 0, &frame, all);
        self.leave(&frame, all);
        self.kept = kept;
    }

    fn enter(&mut self, frame: &Frame) {
        let inside = self.new_label();
        self.addi(GP, GP, -1);
        self.push(Item::Branch { funct3: 4, rs1: 0, rs2: GP, to: inside, plus: 0 });
        self.return_through(frame.function.link);
        self.place(inside);
        if !frame.function.framed {
            return;
        }
        let size = frame_size(frame);
        self.addi(SP, SP, -size);
        for (index, register) in frame.saved.iter().enumerate() {
            self.store64(SP, *register, frame.locals + 8 * index as i32);
        }
    }

    fn return_through(&mut self, link: Register) {
        if self.random.one_in(2) {
            self.half(0x8002 | u16::from(link) << 7);
        } else {
            self.word(encode::i(0x67, 0, 0, link, 0));
        }
    }

    /// The exit: restores, then returns or makes a tail call.
    fn leave(&mut self, frame: &Frame, all: &[Function]) {
        self.place(frame.exit);
        if frame.function.framed {
            let swapped = self.settings.wild && self.random.one_in(12);
            for (index, register) in frame.saved.iter().enumerate() {
                let slot = if swapped { frame.saved.len() - 1 - index } else { index };
                self.load64(*register, SP, frame.locals + 8 * slot as i32);
            }
            let size = frame_size(frame);
            self.addi(SP, SP, size);
        }
        let next = self.random.pick(all);
        if next.link != frame.function.link || !self.random.one_in(4) {
            return self.return_through(frame.function.link);
        }
        match self.random.below(16) {
            0 => self.push(Item::FarJump { is_absolute: false, rd: 0, through: T1, to: next.label }),
            1..4 => {
                self.address(T2, next.label, 0);
                self.word(encode::i(0x67, 0, 0, T2, 0));
            }
            _ => self.push(Item::Jump { rd: 0, to: next.label }),
        }
    }

    fn parts(&mut self, count: u32, depth: u32, frame: &Frame, all: &[Function]) {
        for _ in 0..count {
            match self.random.below(12) {
                0..3 if frame.function.framed => {
                    let callee = self.random.pick(all);
                    self.call(callee, all);
                }
                3 if depth < 2 => self.either(depth, frame, all),
                4 if frame.loops && depth < 2 => self.repeat(depth, frame, all),
                5 if depth < 2 => self.switch(depth, frame, all),
                6 if self.random.one_in(3) => {
                    let exit = frame.exit;
                    self.branch(exit);
                }
                7 if self.random.one_in(20) => self.computed_goto(),
                _ => {
                    let count = 1 + self.random.below(6);
                    self.statements(count);
                }
            }
        }
    }

    fn either(&mut self, depth: u32, frame: &Frame, all: &[Function]) {
        let (otherwise, end) = (self.new_label(), self.new_label());
        self.branch(otherwise);
        self.parts(1, depth + 1, frame, all);
        self.push(Item::Jump { rd: 0, to: end });
        self.place(otherwise);
        self.parts(1, depth + 1, frame, all);
        self.place(end);
    }

    fn repeat(&mut self, depth: u32, frame: &Frame, all: &[Function]) {
        let counter = if depth == 0 { S11 } else { S10 };
        let head = self.new_label();
        let times = self.random.between(1, 5);
        self.addi(counter, 0, times);
        self.place(head);
        self.parts(2, depth + 1, frame, all);
        self.addi(counter, counter, -1);
        self.push(Item::Branch { funct3: 1, rs1: counter, rs2: 0, to: head, plus: 0 });
    }

    /// A call in one of the forms that compilers emit.
    fn call(&mut self, callee: Function, all: &[Function]) {
        let Function { label: to, link: rd, .. } = callee;
        // Compilers link through t0 only in direct calls.
        if rd == T0 && !self.random.one_in(16) {
            return self.push(Item::Jump { rd, to });
        }
        match self.random.below(40) {
            0 => self.push(Item::FarJump { is_absolute: false, rd, through: rd, to }),
            1 => self.push(Item::FarJump { is_absolute: false, rd, through: T1, to }),
            2 => self.push(Item::FarJump { is_absolute: true, rd, through: rd, to }),
            3 | 12..16 => {
                self.address(T2, to, 0);
                if rd == RA && self.random.one_in(2) {
                    self.half(0x9002 | u16::from(T2) << 7);
                } else {
                    self.word(encode::i(0x67, 0, rd, T2, 0));
                }
            }
            4 => {
                // Through the link register itself: version 0 jumps to the link.
                self.address(rd, to, 0);
                if self.settings.options.vm_version > 0 || self.settings.wild {
                    self.word(encode::i(0x67, 0, rd, rd, 0));
                } else {
                    self.push(Item::Jump { rd, to });
                }
            }
            5..12 => self.call_through_table(rd, all),
            _ => self.push(Item::Jump { rd, to }),
        }
    }

    /// A call through a table of pointers to functions with the same link register.
    fn call_through_table(&mut self, link: Register, all: &[Function]) {
        let table = self.new_label();
        let same: Vec<Function> = all.iter().copied().filter(|function| function.link == link).collect();
        self.constants.extend([Item::Align(8), Item::Label(table)]);
        for _ in 0..4 {
            let entry = self.random.pick(&same).label;
            self.constants.push(Item::Entry64(entry));
        }
        let index = self.source();
        self.word(encode::i(0x13, 7, T1, index, 3));
        self.word(encode::i(0x13, 1, T1, T1, 3));
        self.address(T2, table, 0);
        self.register_op("add", T1, T1, T2);
        self.load64(T1, T1, 0);
        self.word(encode::i(0x67, 0, link, T1, 0));
    }

    /// A jump table of two to nine cases in one of four forms.
    fn switch(&mut self, depth: u32, frame: &Frame, all: &[Function]) {
        let count = self.random.between(2, 9);
        let (end, table) = (self.new_label(), self.new_label());
        let cases: Vec<Label> = (0..count).map(|_| self.new_label()).collect();
        let index = self.source();
        self.word(encode::i(0x13, 7, T1, index, 15));
        self.addi(T2, 0, count);
        self.push(Item::Branch { funct3: 7, rs1: T1, rs2: T2, to: end, plus: 0 });
        self.dispatch(table, &cases);
        for case in cases {
            self.place(case);
            self.parts(1, depth + 1, frame, all);
            if !self.random.one_in(4) {
                self.push(Item::Jump { rd: 0, to: end });
            }
        }
        self.place(end);
    }

    /// Jumps to `cases[t1]`, which is in range.
    fn dispatch(&mut self, table: Label, cases: &[Label]) {
        let form = if self.random.one_in(16) { 3 } else { self.random.below(3) };
        if form == 3 {
            // A row of jumps instead of a table.
            self.word(encode::i(0x13, 1, T1, T1, 2));
            self.address(T2, table, 0);
            self.register_op("add", T1, T1, T2);
            self.word(encode::i(0x67, 0, 0, T1, 0));
            self.place(table);
            return cases.iter().for_each(|case| self.push(Item::Jump { rd: 0, to: *case }));
        }
        self.constants.extend([Item::Align(8), Item::Label(table)]);
        self.constants.extend(cases.iter().map(|case| match form {
            0 => Item::Entry32(*case),
            1 => Item::EntryRelative { to: *case, base: table },
            _ => Item::Entry64(*case),
        }));
        self.word(encode::i(0x13, 1, T1, T1, if form == 2 { 3 } else { 2 }));
        self.address(T2, table, 0);
        self.register_op("add", T1, T1, T2);
        if self.settings.wild && self.random.one_in(10) {
            // Tables are writable at run time.
            let value = self.source();
            self.word(encode::s(2, T1, value, 0));
        }
        let funct3 = [self.random.pick(&[2, 6]), 2, 3][form as usize];
        self.word(operations::load(funct3, T1, T1, 0));
        if form == 1 {
            self.register_op("add", T1, T1, T2);
        }
        if self.settings.wild && self.random.one_in(4) {
            // Correct in its low word only.
            self.addi(T2, 0, 1);
            let shift = self.random.between(32, 63);
            self.word(encode::i(0x13, 1, T2, T2, shift));
            self.register_op("add", T1, T1, T2);
        }
        self.word(encode::i(0x67, 0, 0, T1, 0));
    }

    /// A jump to a computed address in the function's own body.
    fn computed_goto(&mut self) {
        let end = self.new_label();
        let index = self.source();
        self.word(encode::i(0x13, 7, T1, index, 12));
        self.push(Item::Address { is_absolute: false, rd: T2, of: end, plus: -16 });
        self.register_op("add", T1, T1, T2);
        self.word(encode::i(0x67, 0, 0, T1, 0));
        for _ in 0..4 {
            let (rd, rs1) = (self.target(), self.source());
            self.addi(rd, rs1, 1);
        }
        self.place(end);
    }
}

fn frame_size(frame: &Frame) -> i32 {
    let bytes = frame.locals + 8 * frame.saved.len() as i32;
    (bytes + 15) & !15
}
