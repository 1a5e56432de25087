//! Links: small functions, each with its own link register, that call, return and jump in unusual ways.
//!
//! Behaviour that compilers never generate must still end as in the interpreter: functions that modify
//! another function's link register, return through a copy of theirs or through another one, recursion, calls
//! of computed addresses.

use super::{
    Program, SCRATCH,
    builder::{Builder, GP, RA, S0, SP, T0, T1, T2},
};
use crate::asm::{Item, Label, Register, encode};

const CYCLES_MAX: u64 = 100_000;

/// Link registers: the two of the calling convention, and rarely another one.
const LINKS: [Register; 12] = [RA, T0, RA, T0, RA, T0, RA, T0, RA, T0, T0, 28];

/// Offset of the saved links during calls, below the strings of other pieces.
const LINK_SLOT: i32 = 1024;

#[derive(Clone, Copy)]
struct Function {
    label: Label,
    link: Register,
    /// How far it moves sp; its callers move it back.
    leak: i32,
    /// Whether it moves sp on only one of two paths.
    is_uneven: bool,
    /// It always ends with a tail call of another function, which may move sp; how far it moves sp before.
    front: Option<i32>,
    /// It has a frame of variable size and restores sp from s0; it calls this function, which may change s0.
    changer: Option<Label>,
}

/// Builds a program of two to four functions.
pub(super) fn build(mut builder: Builder) -> Program {
    let count = builder.random.between(1, 3);
    let leaks = builder.random.one_in(4);
    let mut functions: Vec<Function> = (0..count)
        .map(|_| Function {
            label: builder.new_label(),
            link: builder.random.pick(&LINKS),
            leak: if leaks { builder.random.pick(&[0, 16, 16, -16, -48]) } else { 0 },
            is_uneven: leaks && builder.random.one_in(4),
            front: None,
            changer: None,
        })
        .collect();
    let changer = builder.new_label();
    if builder.random.one_in(4) {
        let (label, first) = (builder.new_label(), functions[0]);
        functions.push(Function {
            label,
            link: RA,
            leak: 0,
            is_uneven: false,
            changer: Some(changer),
            ..first
        });
    }
    if leaks && builder.random.one_in(2) {
        let (label, behind) = (builder.new_label(), functions[0]);
        let moved = builder.random.pick(&[0, 0, -16]);
        functions.push(Function { label, leak: behind.leak + moved, front: Some(moved), ..behind });
    }
    builder.prologue();
    // Deep recursion exhausts the native stack.
    let deep = builder.random.one_in(64);
    let fuel = if deep { builder.random.between(2000, 2047) } else { builder.random.between(1, 40) };
    builder.addi(GP, 0, fuel);
    if deep && builder.random.one_in(2) {
        builder.word(encode::i(0x13, 1, GP, GP, 4));
    }
    let kept = builder.kept;
    builder.keep(&[RA]);
    builder.store64(S0, RA, LINK_SLOT);
    for _ in 0..builder.random.between(1, 2) {
        let callee = builder.random.pick(&functions);
        builder.call_and_move_back(callee);
        builder.statements(1);
    }
    builder.load64(RA, S0, LINK_SLOT);
    builder.epilogue();
    for function in &functions {
        builder.kept = kept;
        builder.link_function(*function, &functions);
    }
    builder.place(changer);
    if builder.random.one_in(2) {
        // A base in the code, which is not writable.
        builder.word(encode::u(0x37, S0, 16));
    }
    builder.word(encode::i(0x67, 0, 0, T0, 0));
    builder.finish(CYCLES_MAX)
}

impl Builder {
    /// A function with a frame of the size in gp.
    fn dynamic_function(&mut self, function: Function, changer: Label) {
        self.place(function.label);
        self.addi(S0, SP, 0);
        self.word(encode::i(0x13, 7, T2, GP, 48));
        self.word(encode::r(0x33, 0, 0x20, SP, SP, T2));
        if self.random.one_in(2) {
            self.push(Item::Jump { rd: T0, to: changer });
        }
        self.store64(SP, T2, 0);
        let moved = self.random.pick(&[0, 0, 0, 16]);
        self.addi(SP, S0, moved);
        self.address(S0, SCRATCH, 2048);
        self.return_by(function.link);
    }

    /// A function with or without a frame. Fuel in gp ends recursion.
    fn link_function(&mut self, function: Function, all: &[Function]) {
        if let Some(changer) = function.changer {
            return self.dynamic_function(function, changer);
        }
        let inside = self.new_label();
        self.keep(&[function.link]);
        self.place(function.label);
        if let Some(moved) = function.front {
            self.statements(1);
            if self.random.one_in(4) {
                // The tail-called function returns after the next instruction.
                self.addi(function.link, function.link, 4);
            }
            return self.go_on_as(all[0], moved);
        }
        self.addi(GP, GP, -1);
        self.push(Item::Branch { funct3: 4, rs1: 0, rs2: GP, to: inside, plus: 0 });
        self.leak(function);
        self.return_by(function.link);
        self.place(inside);
        if self.random.one_in(2) {
            let count = self.random.between(0, 2).cast_unsigned();
            self.statements(count);
            // A call through another register may overwrite this function's own link, which is not saved.
            let others: Vec<Function> =
                all.iter().copied().filter(|other| other.link != function.link).collect();
            if !others.is_empty() && self.random.one_in(3) {
                let callee = self.random.pick(&others);
                self.call_and_move_back(callee);
            }
            self.tamper(function.link);
            self.leak(function);
            return self.return_by(function.link);
        }
        let size = self.random.pick(&[16, 16, 32, 48]);
        self.addi(SP, SP, -size);
        self.store64(SP, function.link, size - 8);
        self.stack_room = 0;
        for _ in 0..self.random.between(1, 2) {
            let callee = self.random.pick(all);
            self.call_and_move_back(callee);
        }
        let count = self.random.between(0, 2).cast_unsigned();
        self.statements(count);
        self.load64(function.link, SP, size - 8);
        self.addi(SP, SP, size);
        self.tamper(function.link);
        self.leak(function);
        self.return_by(function.link);
    }

    /// Moves sp as the function's callers expect, usually.
    fn leak(&mut self, function: Function) {
        if function.leak == 0 {
            return;
        }
        let over = self.new_label();
        if function.is_uneven {
            self.branch(over);
        }
        self.addi(SP, SP, function.leak);
        self.place(over);
    }

    /// A tail call of another function, direct or by address.
    fn go_on_as(&mut self, function: Function, moved: i32) {
        if moved != 0 {
            self.addi(SP, SP, moved);
        }
        if self.random.one_in(2) {
            return self.push(Item::Jump { rd: 0, to: function.label });
        }
        self.jump_through_memory(0, function.label);
    }

    /// A jump through a table built at run time.
    fn jump_through_memory(&mut self, rd: Register, to: Label) {
        self.address(T1, to, 0);
        self.store64(S0, T1, LINK_SLOT + 16);
        self.load64(T2, S0, LINK_SLOT + 16);
        self.word(encode::i(0x67, 0, rd, T2, 0));
    }

    /// A call that usually restores sp.
    fn call_and_move_back(&mut self, callee: Function) {
        self.call_link(callee);
        if self.random.one_in(4) {
            self.store64(SP, T2, 0);
        }
        if callee.leak != 0 && !self.random.one_in(16) {
            self.addi(SP, SP, -callee.leak);
        }
    }

    /// A call: direct, far, through a register, through memory, or to a computed address.
    fn call_link(&mut self, callee: Function) {
        let Function { label: to, link: rd, .. } = callee;
        match self.random.below(32) {
            0 => self.push(Item::FarJump { is_absolute: false, rd, through: rd, to }),
            1 => self.push(Item::FarJump { is_absolute: false, rd, through: T1, to }),
            2 => self.push(Item::FarJump { is_absolute: true, rd, through: T2, to }),
            3 | 4 => {
                self.address(T1, to, 0);
                self.word(encode::i(0x67, 0, rd, T1, 0));
            }
            5 => self.jump_through_memory(rd, to),
            6 => {
                // The address exists nowhere as a constant.
                let shift = self.random.between(4, 60);
                self.push(Item::Address { is_absolute: false, rd: T1, of: to, plus: shift });
                self.addi(T1, T1, -shift);
                self.word(encode::i(0x67, 0, rd, T1, 0));
            }
            7 if self.settings.wild => {
                // Into the function, after its first instruction.
                self.address(T1, to, 0);
                let plus = self.random.pick(&[1, 2, 4]);
                self.word(encode::i(0x67, 0, rd, T1, plus));
            }
            _ => self.push(Item::Jump { rd, to }),
        }
    }

    /// Occasionally modifies a link register of another function.
    fn tamper(&mut self, own: Register) {
        let others: Vec<Register> = [RA, T0, 28].into_iter().filter(|link| *link != own).collect();
        let other = self.random.pick(&others);
        match self.random.below(12) {
            0 => self.addi(other, other, 2),
            1 => self.address(other, SCRATCH, 0),
            2 => self.addi(other, own, 0),
            3 => self.word(encode::u(0x17, other, 0)),
            4 if self.settings.wild => {
                // Its own link, by two or four bytes: it returns after the next instruction.
                let plus = self.random.pick(&[2, 4]);
                self.addi(own, own, plus);
            }
            5 if self.settings.wild => self.addi(own, other, 0),
            _ => {}
        }
    }

    /// Returns through the link register, through a copy, or with a new link.
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
