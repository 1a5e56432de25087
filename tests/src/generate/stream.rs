//! Streams: instruction sequences of all kinds, with forward branches, bounded loops and computed jumps
//! between them.

use super::{
    Form, Program, SCRATCH,
    builder::{Builder, RA, S1, S10, S11, T1, T2},
};
use crate::asm::{Item, Label, encode};

/// Cycle limit of all streams, terminating or not.
const CYCLES_MAX: u64 = 200_000;

/// Builds a stream with one of these numbers of statements.
pub(super) fn build(mut builder: Builder, statements: &[u32]) -> Program {
    builder.prologue();
    builder.keep(&[S10, S11]);
    if builder.settings.kind.form() == Form::Called && !(builder.settings.wild && builder.random.one_in(8)) {
        builder.keep(&[RA]);
    }
    builder.special_base();
    let count = builder.random.pick(statements);
    builder.stretch(count, 0);
    builder.epilogue();
    let tight = builder.random.one_in(8);
    let cycles_max = if tight { u64::from(builder.random.below(3000)) } else { CYCLES_MAX };
    builder.finish(cycles_max)
}

impl Builder {
    /// In half of the programs, sets s1 to a special address.
    fn special_base(&mut self) {
        if !self.random.one_in(2) {
            return;
        }
        self.keep(&[S1]);
        let plus = self.random.pick(&[0, 4095, 4096, 8184]);
        self.address(S1, SCRATCH, plus);
    }

    /// Emits `count` statements and the jumps between them.
    fn stretch(&mut self, count: u32, depth: u32) {
        let mut ahead: Vec<(Label, u32)> = Vec::new();
        for index in 0..count {
            for (label, _) in ahead.extract_if(.., |(_, at)| *at <= index) {
                self.text.push(Item::Label(label));
            }
            match self.random.below(20) {
                0 | 1 => {
                    let label = self.new_label();
                    ahead.push((label, index + 1 + self.random.below(8)));
                    self.branch(label);
                }
                2 if depth < 2 => self.counted_loop(depth),
                3 if self.random.one_in(3) => {
                    let label = self.new_label();
                    ahead.push((label, index + 1 + self.random.below(4)));
                    self.jump(label);
                }
                4 if self.settings.wild && self.random.one_in(4) => {
                    // An unbounded backward branch: the cycle limit ends it.
                    let label = self.new_label();
                    self.place(label);
                    self.statements(2);
                    self.branch(label);
                }
                _ => self.statement(),
            }
        }
        for (label, _) in ahead {
            self.place(label);
        }
    }

    /// A conditional branch to `to`, of any form; in wild programs occasionally into the middle of an
    /// instruction.
    pub(super) fn branch(&mut self, to: Label) {
        let funct3 = self.random.pick(&[0, 1, 4, 5, 6, 7]);
        let (rs1, rs2) = (self.source(), self.source());
        let plus = if self.settings.wild && self.random.one_in(12) { 2 } else { 0 };
        self.push(Item::Branch { funct3, rs1, rs2, to, plus });
    }

    /// An unconditional jump to `to`: direct, far, or through a register.
    fn jump(&mut self, to: Label) {
        let rd = if self.random.one_in(3) { RA } else { 0 };
        let item = match self.random.below(24) {
            0 => Item::FarJump { is_absolute: false, rd, through: RA, to },
            1 => Item::FarJump { is_absolute: false, rd, through: T1, to },
            2 => Item::FarJump { is_absolute: true, rd, through: RA, to },
            3 => Item::FarJump { is_absolute: true, rd, through: T2, to },
            4 => {
                self.push(Item::Address { is_absolute: false, rd: T2, of: to, plus: 0 });
                return self.word(encode::i(0x67, 0, rd, T2, 0));
            }
            _ => Item::Jump { rd, to },
        };
        self.push(item);
    }

    /// A loop that counts s10 or s11 down, with its exit test at the end or at the head.
    pub(super) fn counted_loop(&mut self, depth: u32) {
        let counter = if depth == 0 { S11 } else { S10 };
        let (head, end) = (self.new_label(), self.new_label());
        let times = self.random.between(1, 12);
        self.addi(counter, 0, times);
        self.place(head);
        let at_head = self.random.one_in(2);
        if at_head {
            self.push(Item::Branch { funct3: 0, rs1: counter, rs2: 0, to: end, plus: 0 });
        }
        let count = 1 + self.random.below(6);
        self.stretch(count, depth + 1);
        self.addi(counter, counter, -1);
        if at_head {
            self.push(Item::Jump { rd: 0, to: head });
        } else {
            self.push(Item::Branch { funct3: 1, rs1: counter, rs2: 0, to: head, plus: 0 });
        }
        self.place(end);
    }
}
