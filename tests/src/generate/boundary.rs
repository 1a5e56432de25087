//! Boundary: loads and stores of every width close to every boundary of memory.
//!
//! Boundaries are the end of memory, segments with other permissions, pages, the stack, and addresses that
//! wrap. Accesses of a group share a base, because the compiler combines their checks.

use super::{
    CONSTANTS, ENTRY, Program, REGISTERS, SCRATCH, TEXT,
    builder::{Builder, RA, S0, SP, T1, T2},
};
use crate::asm::{
    Item, Register, encode,
    operations::{self, ATOMICS, LOADS, STORES},
};
use antares_abi::Isa;

const CYCLES_MAX: u64 = 50_000;

/// Registers for addresses near a boundary.
const BASES: [Register; 4] = [T1, 28, 29, 12];

/// Offset from s0 of the slot for numbers that pass through memory.
const SLOT: i32 = 1280;

/// Builds a program of one to three groups of accesses.
pub(super) fn build(mut builder: Builder) -> Program {
    builder.prologue();
    builder.keep(&[RA]);
    for _ in 0..builder.random.between(1, 3) {
        match builder.random.below(8) {
            0 => builder.last_bytes(),
            1 | 2 => builder.frame_near_boundary(),
            _ => builder.near_boundary(),
        }
        let count = builder.random.below(2);
        builder.statements(count);
    }
    builder.epilogue();
    builder.finish(CYCLES_MAX)
}

impl Builder {
    /// Loads a base near a boundary and emits a group of accesses to it.
    fn near_boundary(&mut self) {
        let base = self.random.pick(&BASES);
        let distance = self.random.between(-10, 10);
        // The base is at the boundary, or at a distance that the immediate compensates.
        let away = self.random.pick(&[0, 0, 0, 16, -16, 1024, -1024, 2032, -2032]);
        self.boundary(base, away);
        if self.random.one_in(3) {
            // Pass the base through memory, so that the compiler knows nothing about it.
            self.store64(S0, base, SLOT);
            self.load64(base, S0, SLOT);
        }
        // A check must not move out of a conditional branch.
        let skip = self.random.one_in(4).then(|| self.new_label());
        if let Some(label) = skip {
            self.branch(label);
        }
        for _ in 0..self.random.between(1, 3) {
            let spread = self.random.pick(&[0, 0, 0, 8, -8, 4, 1]);
            // End the access exactly at the boundary, often.
            let to_end = self.random.one_in(3).then(|| -self.random.pick(&[1, 2, 4, 8]));
            let offset = (to_end.unwrap_or(distance + spread) - away).clamp(-2048, 2047);
            if self.random.one_in(4) {
                self.unseen_access(base, offset)
            } else {
                self.access_at(base, offset)
            }
        }
        if let Some(label) = skip {
            self.place(label);
        }
    }

    /// A store and a load at the end of memory: one check may cover both, but version 0 allows a store where
    /// it does not allow a load.
    fn last_bytes(&mut self) {
        let base = self.random.pick(&BASES);
        let (away, width) = (self.random.pick(&[0, 0, 64, -64, 2000]), self.random.below(4));
        self.word(encode::u(0x37, base, 0x40_0000));
        self.addi(base, base, away);
        let (offset, value) = (-away - (1 << width), self.source());
        self.word(encode::s(width, base, value, offset));
        if self.random.one_in(2) {
            let rd = self.target_but(base);
            self.word(operations::load(width, rd, base, offset));
        }
    }

    /// A function whose frame is across or next to a boundary. The entry checks the frame, but not the memory
    /// above it.
    fn frame_near_boundary(&mut self) {
        let (function, over) = (self.new_label(), self.new_label());
        for (slot, register) in [SP, RA].into_iter().enumerate() {
            self.store64(S0, register, SLOT + 8 * slot as i32);
        }
        let bytes = self.random.pick(&[16, 16, 32, 48]);
        // Often one end of the frame is at the boundary, or eight bytes beyond.
        let away = self.random.pick(&[0, 0, 0, bytes, bytes - 8, bytes - 8, 8, -8, 16, -24, 4, -1]);
        match self.random.below(4) {
            0 => self.addi(SP, 0, away),
            1 => {
                // The first page of constants; the code is below it.
                self.address(SP, REGISTERS, 0);
                self.word(encode::i(0x13, 5, SP, SP, 12));
                self.word(encode::i(0x13, 1, SP, SP, 12));
                self.addi(SP, SP, away);
            }
            2 => {
                self.word(encode::u(0x37, SP, 0x40_0000));
                self.addi(SP, SP, away);
            }
            _ => self.boundary(SP, away),
        }
        self.push(Item::Jump { rd: RA, to: function });
        for (slot, register) in [SP, RA].into_iter().enumerate() {
            self.load64(register, S0, SLOT + 8 * slot as i32);
        }
        self.push(Item::Jump { rd: 0, to: over });
        self.place(function);
        self.addi(SP, SP, -bytes);
        let reaches_out = self.random.one_in(2);
        for _ in 0..self.random.between(1, 3) {
            if !reaches_out {
                self.access_in_frame(bytes);
                continue;
            }
            let offset = 4 * self.random.between(-1, bytes / 4 + 5);
            if self.random.one_in(2) { self.unseen_access(SP, offset) } else { self.access_at(SP, offset) }
        }
        self.addi(SP, SP, bytes);
        self.half(0x8082);
        self.place(over);
    }

    /// Loads a boundary plus `away` into `base`.
    fn boundary(&mut self, base: Register, away: i32) {
        match self.random.below(20) {
            0..3 => self.word(encode::u(0x37, base, 0x40_0000)),
            3 => self.word(encode::u(0x37, base, 0x40_0000 - 0x1000)),
            4 => self.word(encode::u(0x37, base, 0x30_0000)),
            5 => self.addi(base, 0, 0),
            6 => self.word(encode::u(0x37, base, 0x1000)),
            7..9 => {
                self.addi(base, 0, 1);
                let shift = self.random.pick(&[31, 32, 33, 40, 47, 48, 62, 63]);
                self.word(encode::i(0x13, 1, base, base, shift));
            }
            9..12 => self.address(base, SCRATCH, 0),
            12 => self.address(base, SCRATCH, 4096),
            13 => self.address(base, SCRATCH, 8192),
            14 => self.address(base, CONSTANTS, 0),
            15..17 => self.address(base, TEXT, 0),
            17 => self.address(base, ENTRY, 0),
            18 => {
                // The same address computed at run time, unknown to the compiler.
                self.word(encode::u(0x37, base, 0x20_0000));
                self.register_op("add", base, base, base);
            }
            _ => {
                self.word(encode::u(0x37, base, 0x40_0000));
                self.addi(T2, 0, 1);
                self.word(encode::i(0x13, 1, T2, T2, 32));
                self.register_op("add", base, base, T2);
            }
        }
        if away != 0 {
            self.addi(base, base, away);
        }
    }

    fn access_at(&mut self, base: Register, offset: i32) {
        let value = self.source();
        match self.random.below(16) {
            0..7 => {
                let (funct3, _) = self.random.pick(&LOADS);
                // A load with an unused result must still fail.
                let rd = if self.random.one_in(3) { 0 } else { self.target_but(base) };
                self.word(operations::load(funct3, rd, base, offset));
            }
            7 if self.has(Isa::A) => {
                let (operation, wide) = (self.random.pick(&ATOMICS), self.random.one_in(2));
                let rd = self.target_but(base);
                self.word(operations::atomic(operation, wide, rd, base, value));
            }
            8 => self.unseen_access(base, offset),
            kind => {
                let (funct3, _) = self.random.pick(&STORES);
                self.word(encode::s(funct3, base, value, offset));
                // One check may cover both.
                if kind == 9 || kind == 10 {
                    let rd = self.target_but(base);
                    self.word(operations::load(funct3, rd, base, offset));
                }
            }
        }
    }

    /// An access at one end of a frame of `bytes` at sp.
    fn access_in_frame(&mut self, bytes: i32) {
        let (width, value) = (self.random.below(4), self.source());
        let offset = self.random.pick(&[0, 0, bytes - (1 << width), bytes - (1 << width), 8]);
        if self.random.one_in(3) {
            return self.word(encode::s(width, SP, value, offset));
        }
        let rd = if self.random.one_in(2) { 0 } else { self.target_but(SP) };
        self.word(operations::load(width, rd, SP, offset));
        if rd != 0 && self.random.one_in(3) {
            self.word(encode::s(width, SP, rd, offset));
        }
    }

    /// An access that a code generator may drop, although its failure is visible: a load with an unused
    /// result, or a store of the value just loaded from there.
    fn unseen_access(&mut self, base: Register, offset: i32) {
        let (funct3, _) = self.random.pick(&STORES);
        if self.random.one_in(2) {
            return self.word(operations::load(funct3, 0, base, offset));
        }
        let rd = self.target_but(base);
        self.word(operations::load(funct3, rd, base, offset));
        self.word(encode::s(funct3, base, rd, offset));
    }

    fn target_but(&mut self, base: Register) -> Register {
        let register = self.target();
        if register == base { self.target_but(base) } else { register }
    }
}
