//! The benchmark scripts, prepared for the pool.

use antares_tests::{
    elf::{Segment, code, file},
    guests, native,
};
use anyhow::Result;

use crate::programs::OPTIONS;

const ENTRY: u64 = 0x1_0000;
/// `addi a0, zero, 0`, `addi a7, zero, 93`, `ecall`.
const EXIT: [u32; 3] = [0x0000_0513, 0x05d0_0893, 0x0000_0073];
/// `jal zero, 0`: an endless loop.
const LOOP: [u32; 1] = [0x0000_006f];

pub(super) struct Script {
    pub(super) elf: Vec<u8>,
    pub(super) library: Vec<u8>,
}

impl Script {
    fn of(elf: Vec<u8>) -> Result<Self> {
        let library = native::library_in_parallel(&elf, OPTIONS)?.bytes;
        Ok(Self { elf, library })
    }

    /// A script that exits immediately.
    pub(super) fn trivial() -> Result<Self> {
        Self::of(elf(&EXIT))
    }

    pub(super) fn endless() -> Result<Self> {
        Self::of(elf(&LOOP))
    }

    /// A script that writes to `pages` pages after its code, then exits.
    pub(super) fn dirtying(pages: u32) -> Result<Self> {
        // lui a0, 0x20; lui a2, 1; addi a1, zero, PAGES; then sd a1, 0(a0); add a0, a0, a2; addi a1, a1, -1;
        // bne a1, zero, -12.
        let count = pages << 20 | 0x593;
        let fill = [0x0002_0537, 0x0000_1637, count, 0x00b5_3023, 0x00c5_0533, 0xfff5_8593, 0xfe05_9ae3];
        Self::of(elf(&[&fill[..], &EXIT].concat()))
    }

    /// A guest of the other benchmarks.
    pub(super) fn guest(name: &str) -> Result<Self> {
        Self::of(guests::bytes(name)?)
    }
}

/// Builds an RV64 executable of `words`.
fn elf(words: &[u32]) -> Vec<u8> {
    file(ENTRY, vec![Segment::whole(ENTRY, 5, code(words))])
}
