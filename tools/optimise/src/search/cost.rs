//! ckb-vm 0.24's cost of a sequence of instructions: its decoder's fusions.
//!
//! The search queries this often per window; the final file's cost comes from ckb-vm's own decoder.

use antares_abi::{CompileOptions, Isa};
use antares_program::Op;

use super::encode::Line;

/// Fusions of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fusions {
    /// Version 1.
    pub(crate) basic: bool,
    /// Version 2.
    pub(crate) newer: bool,
}

impl Fusions {
    pub(crate) fn of(options: CompileOptions) -> Self {
        let basic = options.isa.has(Isa::MOP);
        Self { basic, newer: basic && options.vm_version >= 2 }
    }

    /// Cycles of `lines`, executed in order.
    pub(crate) fn cycles(self, lines: &[Line]) -> u64 {
        let (mut at, mut sum) = (0, 0);
        while at < lines.len() {
            let (count, cycles) = self.first(&lines[at..]);
            at += count;
            sum += cycles;
        }
        sum
    }

    /// Number and cycles of the instructions that fuse at the start of `lines`.
    fn first(self, lines: &[Line]) -> (usize, u64) {
        let head = lines[0];
        let alone = (1, head.cycles);
        let Some(next) = lines.get(1).filter(|_| self.basic) else { return alone };
        let same = (head.rs1, head.rs2) == (next.rs1, next.rs2);
        let keeps = ![head.rs1, head.rs2, next.rd].contains(&head.rd);
        match (head.op, next.op) {
            (Op::Mulh | Op::Mulhu | Op::Mulhsu, Op::Mul) if same && keeps => (2, 5),
            (Op::Div, Op::Rem) | (Op::Divu, Op::Remu) if same && keeps => (2, 32),
            (Op::Lui, Op::Addiw) if next.rs1 == next.rd && next.rd == head.rd => (2, 1),
            (Op::Add, Op::Sltu) if self.newer && is_add3(lines) => (3, 1),
            (Op::Add, Op::Sltu) if self.newer && is_sum_with_carry(head, *next) => (2, 1),
            (Op::Sub, Op::Sltu) if self.newer && same && ![head.rs1, head.rs2].contains(&head.rd) => (2, 1),
            _ => alone,
        }
    }
}

fn is_sum_with_carry(head: Line, next: Line) -> bool {
    let swaps = head.rd == head.rs1 && head.rd != head.rs2;
    let first = if swaps { head.rs2 } else { head.rs1 };
    next.rs1 == head.rd && next.rs2 == first && head.rd != first && head.rd != 0
}

fn is_add3(lines: &[Line]) -> bool {
    let [sum, carry, last, ..] = lines else { return false };
    let (r0, r1, r4) = (sum.rd, sum.rs1, last.rs2);
    let common = last.op == Op::Add && carry.rs1 == r0 && carry.rs2 == r1 && last.rs1 == carry.rd;
    let apart = r0 != r1 && r0 != r4 && carry.rd != r4 && r0 != 0 && carry.rd != 0;
    common && apart && (sum.rs2 == r0 || carry.rd == r1 || last.rd == carry.rd)
}
