//! Macro-operation fusions of ckb-vm's decoder. Reads and writes follow the order of ckb-vm's `handle_*`
//! functions, so that repeated registers give the same results.

use antares_ir::BinaryOp as B;
use antares_program::{Instruction, Op};

use crate::block::BlockBuilder;

pub(crate) fn lift(b: &mut BlockBuilder, i: &Instruction) -> bool {
    match i.op {
        Op::WideMul => wide(b, i, B::MulHigh, B::Mul),
        Op::WideMulu => wide(b, i, B::MulHighUnsigned, B::Mul),
        Op::WideMulsu => wide(b, i, B::MulHighSignedUnsigned, B::Mul),
        Op::WideDiv => wide(b, i, B::Div, B::Rem),
        Op::WideDivu => wide(b, i, B::DivUnsigned, B::RemUnsigned),
        Op::Adc => {
            for carry in [i.rs1, i.rs2] {
                let sum = b.set_of(i.rd, B::Add, i.rd, carry);
                let part = b.get(carry);
                b.set_binary(carry, B::LtUnsigned, sum, part);
            }
            b.set_of(i.rs1, B::Or, i.rs1, i.rs2);
        }
        Op::Sbb => {
            b.set_of(i.rs1, B::Sub, i.rd, i.rs1);
            b.set_of(i.rs3, B::LtUnsigned, i.rd, i.rs1);
            b.set_of(i.rd, B::Sub, i.rs1, i.rs2);
            b.set_of(i.rs2, B::LtUnsigned, i.rs1, i.rd);
            b.set_of(i.rs1, B::Or, i.rs2, i.rs3);
        }
        Op::Adcs => {
            let (x, y) = (b.get(i.rs1), b.get(i.rs2));
            let sum = b.set_binary(i.rd, B::Add, x, y);
            b.set_binary(i.rs3, B::LtUnsigned, sum, x);
        }
        Op::Sbbs => {
            let (x, y) = (b.get(i.rs1), b.get(i.rs2));
            b.set_binary(i.rd, B::Sub, x, y);
            b.set_binary(i.rs3, B::LtUnsigned, x, y);
        }
        Op::Add3a => {
            b.set_of(i.rd, B::Add, i.rd, i.rs1);
            b.set_of(i.rs2, B::LtUnsigned, i.rd, i.rs1);
            b.set_of(i.rs3, B::Add, i.rs2, i.rs4);
        }
        Op::Add3b => {
            b.set_of(i.rd, B::Add, i.rs1, i.rs2);
            b.set_of(i.rs1, B::LtUnsigned, i.rd, i.rs1);
            b.set_of(i.rs3, B::Add, i.rs1, i.rs4);
        }
        Op::Add3c => {
            b.set_of(i.rd, B::Add, i.rs1, i.rs2);
            let (sum, x, z) = (b.get(i.rd), b.get(i.rs1), b.get(i.rs4));
            let overflow = b.binary(B::LtUnsigned, sum, x);
            b.set_binary(i.rs3, B::Add, overflow, z);
        }
        _ => return false,
    }
    true
}

fn wide(b: &mut BlockBuilder, i: &Instruction, first: B, second: B) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    b.set_binary(i.rd, first, x, y);
    b.set_binary(i.rs3, second, x, y);
}
