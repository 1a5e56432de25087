//! Loading: programs that load code at run time with ckb's system call, and call it.
//!
//! The code is loaded to pages of zeros, into data, or over the program's own code, which is refused.

use bytes::Bytes;

use super::{
    Program, Random, SCRATCH, TEXT,
    builder::{A0, Builder, RA, S0, T1, T2},
};
use crate::asm::{Register, encode, operations};

const CYCLES_MAX: u64 = 100_000;
/// Bytes of one routine of the loaded code.
const ROUTINE_BYTES: i32 = 64;
const ROUTINES: i32 = 128;
/// Slot of the program's return address during calls.
const LINK_SLOT: i32 = 1024;

/// The code that programs load: small routines that return.
#[must_use]
pub fn code(random: &mut Random) -> Bytes {
    let mut bytes = Vec::new();
    for _ in 0..ROUTINES {
        let end = bytes.len() + ROUTINE_BYTES as usize;
        for _ in 0..random.below(8) {
            let rd = random.pick(&[10, 11, 12, 28, 29, 30]);
            let word = match random.below(32) {
                0..4 => encode::s(3, S0, rd, 8 * random.between(0, 8)),
                4..8 => operations::load(3, rd, S0, 8 * random.between(0, 8)),
                // A call that does not return here: the loaded code has its own link.
                8..12 => encode::i(0x13, 0, T1, RA, 0),
                12 => random.bits() as u32 | 3,
                _ => encode::r(0x33, random.below(8), 0, rd, rd, random.pick(&[10, 11, 12])),
            };
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0x8082_u16.to_le_bytes());
        bytes.resize(end, 0);
    }
    bytes.into()
}

/// Builds a program that loads code one to three times.
pub(super) fn build(mut builder: Builder) -> Program {
    builder.prologue();
    builder.keep(&[RA]);
    builder.store64(S0, RA, LINK_SLOT);
    for index in 0..builder.random.between(1, 3).cast_unsigned() {
        let count = builder.random.below(3);
        builder.statements(count);
        builder.load_and_call(index);
    }
    builder.load64(RA, S0, LINK_SLOT);
    builder.epilogue();
    builder.finish(CYCLES_MAX)
}

impl Builder {
    /// Loads code, usually to unused pages, and calls it.
    fn load_and_call(&mut self, index: u32) {
        let place = self.random.below(24);
        let fresh = 0x20_0000 + 0x2000 * index;
        let page = self.random.pick(&[fresh, fresh, fresh, fresh, fresh, 0x20_1000, 0x3f_f000, 0x1_0000]);
        let address = |builder: &mut Self, register: Register| match place {
            0 => builder.address(register, SCRATCH, 4096),
            1 => builder.address(register, SCRATCH, 0),
            2 => builder.address(register, TEXT, 0),
            _ => builder.word(encode::u(0x37, register, page)),
        };
        if self.settings.wild && self.random.one_in(4) {
            // A call before the code is loaded.
            address(self, T1);
            self.word(encode::i(0x67, 0, RA, T1, 0));
        }
        address(self, A0);
        let pages = self.random.pick(&[1, 1, 2]);
        self.word(encode::u(0x37, A0 + 1, 0x1000 * pages));
        let first = self.random.between(0, ROUTINES - 1);
        let count = self.random.between(1, 8);
        self.addi(A0 + 2, 0, first);
        self.word(encode::i(0x13, 1, A0 + 2, A0 + 2, 6));
        self.addi(A0 + 3, 0, count * ROUTINE_BYTES);
        if self.settings.wild && self.random.one_in(8) {
            let (register, plus) = (A0 + self.random.below(4) as Register, self.random.between(-64, 64));
            self.addi(register, register, plus);
        }
        self.ecall(2091);
        for _ in 0..self.random.between(1, 2) {
            address(self, T1);
            let offset = ROUTINE_BYTES * self.random.between(0, count);
            self.addi(T1, T1, offset);
            // The code is readable, but not writable.
            if self.random.one_in(3) {
                self.load64(T2, T1, 0);
            }
            if self.random.one_in(8) {
                self.store64(T1, T2, 0);
            }
            if self.random.one_in(4) {
                continue;
            }
            self.word(encode::i(0x67, 0, RA, T1, 0));
        }
    }
}
