//! The output of a compile depends neither on earlier compiles nor on its division into parts. Its time is
//! bounded even for functions that no compiler would generate.

use antares_abi::{CodeTier, Hints, parts_of};
use antares_compiler::{Stage, compile_in_parallel};
use antares_tests::{
    asm::{encode, operations},
    corpus::run,
    elf::{self, Segment},
    generate::Random,
    guests, native,
    oracle::Case,
};
use antares_vm::Machine;

use crate::check::{check_within, script};

/// The linker resets LLVM's options; a compile after a link must still have them.
#[test]
fn a_library_is_the_same_every_time() {
    let elf = guests::bytes("sha256-imc").unwrap();
    let library = || native::output(&elf, script(2), Stage::Library).unwrap().bytes;
    assert!(library() == library());
}

/// One function of about `bytes` bytes: short blocks, each of which a branch may skip.
fn giant(bytes: usize) -> Vec<u8> {
    const DATA: u64 = 0x30_0000;
    let mut random = Random::new(42);
    let mut words = vec![encode::u(0x37, 8, DATA as u32)];
    while 4 * words.len() < bytes {
        let length = random.between(2, 8);
        let skipped = 10 + random.below(6) as u8;
        words.extend(encode::b(1, skipped, 0, i64::from(4 * (length + 1))));
        for _ in 0..length {
            let (rd, x, y) =
                (10 + random.below(6) as u8, 10 + random.below(6) as u8, 28 + random.below(4) as u8);
            let offset = 8 * random.between(0, 200);
            words.push(match random.below(4) {
                0 => operations::named("xor").encode(rd, x, y, 0),
                1 => operations::named("mul").encode(y, rd, x, 0),
                2 => operations::load(3, rd, 8, offset),
                _ => encode::s(3, 8, y, offset),
            });
        }
    }
    words.extend([encode::i(0x13, 0, 17, 0, 93), 0x73]);
    let data = Segment { address: DATA, flags: 6, bytes: Vec::new(), memory_bytes: 4096 };
    elf::file(0x1_0000, vec![Segment::whole(0x1_0000, 5, elf::code(&words)), data])
}

/// A program of `functions` functions, large enough for `parts_of` to return four parts. Each function
/// prints; all but the last call the next one by address. The start calls each one twice, to prevent
/// inlining.
fn in_four_parts(functions: i32) -> Vec<u8> {
    const START: u64 = 0x1_0000;
    const DATA: u64 = 0x10_0000;
    const WORDS: i32 = 14;
    let calls = 2 * functions;
    let first = calls + 2;
    let mut words: Vec<u32> = Vec::new();
    for call in 0..calls {
        let distance = i64::from(4 * (first + call / 2 * WORDS - call));
        words.extend(encode::jal(1, distance));
    }
    words.extend([encode::i(0x13, 0, 17, 0, 93), 0x73]);
    for function in 0..functions {
        let next = START.cast_signed() + i64::from(4 * (first + (function + 1) * WORDS));
        let (high, low) = encode::split(next).unwrap();
        let is_last = function + 1 == functions;
        let start = words.len();
        words.extend([
            encode::i(0x13, 0, 2, 2, -16),
            encode::s(3, 2, 1, 8),
            encode::u(0x37, 10, DATA as u32),
            encode::i(0x13, 0, 10, 10, 2 * function),
            encode::u(0x37, 17, 0x1000),
            encode::i(0x13, 0, 17, 17, 2177 - 0x1000),
            0x73,
            encode::u(0x37, 5, high),
            encode::i(0x13, 0, 5, 5, low),
            if is_last { encode::i(0x13, 0, 10, 0, 7) } else { encode::i(0x67, 0, 1, 5, 0) },
            encode::i(0x13, 0, 10, 10, 1),
            encode::i(3, 3, 1, 2, 8),
            encode::i(0x13, 0, 2, 2, 16),
            encode::i(0x67, 0, 0, 1, 0),
        ]);
        assert_eq!(words.len(), start + usize::try_from(WORDS).unwrap());
    }
    let mut data: Vec<u8> =
        (0..functions).flat_map(|function| [b'a' + u8::try_from(function).unwrap(), 0]).collect();
    data.resize(256 << 10, 0);
    elf::file(START, vec![Segment::whole(START, 5, elf::code(&words)), Segment::whole(DATA, 6, data)])
}

/// Two parts share what they emit; four parts form two groups, each with its own stubs for host calls.
#[test]
fn parts_in_two_groups_share_nothing_and_link() {
    let elf = in_four_parts(12);
    assert_eq!(parts_of(elf.len() as u64), 4);
    for version in 0..=2 {
        let equal = check_within("four parts", &elf, &[], script(version), 10_000_000).unwrap();
        // Each function prints, and makes all later ones print: 12 + 11 + ... + 1, twice.
        assert_eq!((equal.native_cycles, equal.debug.len()), (equal.cycles, 156));
    }
    let whole = native::output(&elf, script(2), Stage::Library).unwrap();
    let request = native::request(script(2), Stage::Library);
    assert!(whole.bytes == compile_in_parallel(&elf, &request, 2).unwrap().bytes);
}

#[test]
fn a_giant_function_compiles_and_runs() {
    check_within("giant", &giant(300 << 10), &[], script(2), 10_000_000).unwrap();
}

/// LLVM would take gigabytes: the full tier refuses, and the baseline compiles it.
#[test]
fn what_is_too_large_for_llvm_is_the_baseline_s() {
    let elf = giant(3 << 19);
    let full = native::compile_with(&elf, script(2), CodeTier::Full, &Hints::default()).unwrap();
    assert_eq!(full.err().as_deref(), Some("limit_operations"));
    let case = Case::new(&elf, &[], script(2), 10_000_000);
    let equal = run(&mut Machine::new().unwrap(), &case, CodeTier::Baseline, &Hints::default()).unwrap();
    assert_eq!(equal.native_cycles, equal.cycles);
}
