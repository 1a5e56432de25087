//! Random blocks through the rewriter: what a script does stays the same, on ckb-vm's own machine, before any
//! proof.
//!
//! `ANTARES_REWRITE_BLOCKS` says how many blocks; the suite takes some hundreds for each version.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_possible_truncation, reason = "tests")]
#![forbid(unsafe_code)]

mod functions;

use std::{collections::HashSet, time::Duration};

use antares_abi::{CompileOptions, Isa};
use antares_optimise::{Rewrite, RewriteRule, Settings, Solver, SolverAnswer, Statement, plan};
use antares_tests::{
    elf::{Elf, Segment},
    oracle::{Case, run},
};
use bytes::Bytes;

const CODE: u64 = 0x10000;
const DATA: u64 = 0x20000;
/// Where the registers are stored at the end, from `DATA`.
const RESULTS: u32 = 512;

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u32 {
        (self.next() % end) as u32
    }

    /// A register that code may write: not x0, sp, gp, tp, nor s0, which points to the data.
    fn register(&mut self) -> u32 {
        [5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31][self.below(16) as usize]
    }
}

fn two(funct7: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x33
}

fn load(rd: u32, base: u32, offset: u32) -> u32 {
    offset << 20 | base << 15 | 3 << 12 | rd << 7 | 3
}

fn store(data: u32, base: u32, offset: u32) -> u32 {
    offset >> 5 << 25 | data << 20 | base << 15 | 3 << 12 | (offset & 31) << 7 | 0x23
}

/// A load (`opcode` 3) or store (0x23) of `funct3`'s width.
fn narrow(opcode: u32, funct3: u32, register: u32, offset: u32) -> u32 {
    match opcode {
        0x23 => offset >> 5 << 25 | register << 20 | 8 << 15 | funct3 << 12 | (offset & 31) << 7 | opcode,
        _ => offset << 20 | 8 << 15 | funct3 << 12 | register << 7 | opcode,
    }
}

/// A word put together of bytes, as code that knows nothing of alignment does it.
fn bytes_to_word(word: u32, byte: u32, offset: u32, count: u32) -> Vec<u32> {
    let mut code = vec![narrow(3, 4, word, offset)];
    for number in 1..count {
        code.push(narrow(3, 4, byte, offset + number));
        code.push((8 * number) << 20 | byte << 15 | 1 << 12 | byte << 7 | 0x13);
        code.push(two(0, 6, word, word, byte));
    }
    code
}

/// Instructions that rules look for, and others between them.
fn block(chance: &mut Chance) -> Vec<u32> {
    let mut code = Vec::new();
    for _ in 0..4 + chance.below(16) {
        let [a, b, c, d, e] = [(); 5].map(|()| chance.register());
        match chance.below(15) {
            0 | 1 => code.extend([two(1, 0, c, a, b), two(1, [1, 2, 3][chance.below(3) as usize], d, a, b)]),
            2 => code.extend([two(1, 3, d, a, b), two(0, 0, e, c, a), two(1, 0, c, b, a)]),
            3 => code.extend([two(0, 0, a, a, b), two(0, 3, c, a, b), two(0, 0, d, d, c)]),
            4 => code.extend([two(0x20, 0, c, a, b), two(0, 0, e, c, d), two(0, 3, d, a, b)]),
            5 => {
                let low = 1 + chance.below(63);
                code.push(low << 20 | a << 15 | 5 << 12 | c << 7 | 0x13);
                code.push((64 - low) << 20 | a << 15 | 1 << 12 | d << 7 | 0x13);
                code.push(two(0, 6, e, c, d));
            }
            6 => code.extend([two(1, 6, c, a, b), two(1, 4, d, a, b)]),
            7 => code.push(load(a, 8, 8 * chance.below(32))),
            8 => code.push(store(a, 8, 8 * chance.below(32))),
            9 => code.push(two(0, chance.below(8), a, b, c)),
            10 => code.extend([a << 15 | b << 7 | 0x13, two(0x20, 0, c, b, a)]),
            11 if a != b => code.extend(bytes_to_word(a, b, chance.below(248), 2 << chance.below(3))),
            12 => code.push(narrow(0x23, chance.below(4), a, chance.below(256))),
            13 => code.push(narrow(3, chance.below(7), a, chance.below(256))),
            // Now and then an address that is none.
            _ if chance.below(6) == 0 => code.push(load(a, b, 0)),
            _ => code.push(chance.below(4096) << 20 | a << 15 | b << 7 | 0x1b),
        }
    }
    code
}

/// A script: registers from data, a block, perhaps a jump, some registers to data, and the end.
fn script(chance: &mut Chance) -> Vec<u8> {
    let registers = [5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31];
    let mut code = vec![(DATA as u32) | 8 << 7 | 0x37];
    code.extend(registers.map(|register| load(register, 8, 8 * register)));
    code.push(0x0040_006f);
    code.extend(block(chance));
    if chance.below(2) == 0 {
        code.push(0x0040_006f);
    }
    for register in registers {
        if chance.below(3) > 0 {
            code.push(store(register, 8, RESULTS + 8 * register));
        }
    }
    code.extend([0x13 | 10 << 7, 0x05d0_0893, 0x73]);
    let small = |chance: &mut Chance| match chance.below(4) {
        0 => chance.next() % 8,
        1 => u64::MAX - chance.next() % 8,
        _ => chance.next(),
    };
    let data: Vec<u8> = (0..32).flat_map(|_| small(chance).to_le_bytes()).collect();
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = Segment { address: CODE, flags: 5, memory_bytes: bytes.len() as u64, bytes };
    let data = Segment { address: DATA, flags: 6, memory_bytes: 4096, bytes: data };
    Elf { entry: CODE, segments: vec![text, data], symbols: None }.to_bytes()
}

/// Believes every rule, so that a wrong one shows; but has a solver prove what was only tried on numbers.
fn believing(rewrites: &[Rewrite]) -> impl Fn(&Statement) -> SolverAnswer + Sync + use<> {
    let is_guess = |rewrite: &&Rewrite| rewrite.rules.contains_key(&RewriteRule::Enumerated);
    let guesses = rewrites.iter().filter(is_guess).filter_map(|rewrite| rewrite.statement.as_ref());
    let guesses: HashSet<String> = guesses.map(|statement| statement.whole().to_owned()).collect();
    let solver = Solver::find(Some("z3")).unwrap();
    move |statement| {
        if guesses.contains(statement.whole()) {
            return solver.prove(statement);
        }
        SolverAnswer::Proved { took: Duration::ZERO, is_cached: false, proof: String::new() }
    }
}

/// Rewrites blocks for a version; says how many changed, and how many of those ended in an error.
fn campaign(vm_version: u32) -> (u32, u32) {
    let count =
        std::env::var("ANTARES_REWRITE_BLOCKS").ok().and_then(|text| text.parse().ok()).unwrap_or(700_u64);
    let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
    let (mut changed, mut failed) = (0, 0);
    for seed in 0..count {
        let elf = script(&mut Chance(seed << 8 | u64::from(vm_version)));
        let mut plan = plan(&elf, options, &Settings::default(), |_, _| true).unwrap();
        assert!(plan.rewrites.iter().all(|rewrite| rewrite.statement.is_some()), "seed {seed}");
        let believes = believing(&plan.rewrites);
        plan.prove(2, believes, |_| ());
        let cheaper = plan.proved_elf();
        if cheaper == elf {
            continue;
        }
        let of = |elf: Vec<u8>| {
            let elf = Bytes::from(elf);
            run(&Case { elf, args: Vec::new(), options, cycles_max: 1 << 20, code: None })
        };
        let (before, after) = (of(elf), of(cheaper));
        assert_eq!(before.outcome, after.outcome, "seed {seed}");
        // Frames are larger than a segment, and code may differ.
        let data = |run: &antares_tests::oracle::Run| {
            let from = DATA as usize % ckb_vm::MEMORY_FRAMESIZE;
            run.memory.frame(DATA as usize / ckb_vm::MEMORY_FRAMESIZE)[from..from + 4096].to_vec()
        };
        assert!(data(&before) == data(&after), "seed {seed}: memory differs");
        let is_exit = before.outcome.starts_with("Exit");
        assert!(!is_exit || after.cycles < before.cycles, "seed {seed}: {} {}", before.cycles, after.cycles);
        changed += 1;
        failed += u32::from(!is_exit);
    }
    println!("version {vm_version}: {changed} of {count} blocks changed, {failed} of them end in an error");
    (changed, failed)
}

#[test]
fn random_blocks_do_the_same_in_every_version() {
    for vm_version in 0..3 {
        let (changed, failed) = campaign(vm_version);
        assert!(changed > 50 && failed > 0, "version {vm_version}: {changed}, {failed}");
    }
}
