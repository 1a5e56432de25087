//! Shapes of code that compilers of interpreters and attackers write: each compiles in a time that grows as
//! the code does, and runs as in ckb-vm.

use antares_abi::{CodeTier, Hints};
use antares_compiler::Stage;
use antares_tests::{
    asm::{encode, operations},
    differential::compare,
    elf::{Elf, Segment},
    generate::Random,
    guests, native,
    oracle::Case,
    shapes::SHAPES,
    stopwatch::timed,
};
use antares_vm::Machine;

use crate::check::{check_within, script};

const START: u64 = 0x1_0000;
const DATA: u64 = 0x30_0000;

/// Processor time for 100 KB of code at the most. It is a third of it when the machine is idle.
const SECONDS_PER_100_KB_MAX: f64 = 20.0;

/// Bytes of IR's text for an instruction at the most.
const IR_BYTES_PER_INSTRUCTION_MAX: usize = 100;

/// `words` at the start, with 64 KiB of data that begin with `table`.
fn elf(words: &[u32], table: &[u64]) -> Vec<u8> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory_bytes = code.len() as u64;
    let data = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    let segments = vec![
        Segment { address: START, flags: 5, bytes: code, memory_bytes },
        Segment { address: DATA, flags: 6, bytes: data, memory_bytes: 64 << 10 },
    ];
    Elf { entry: START, segments, symbols: None }.to_bytes()
}

fn exit() -> [u32; 2] {
    [encode::i(0x13, 0, 17, 0, 93), 0x73]
}

/// Long blocks are cut, loops that are many or close together have no second body, and tables of many cases
/// are not optimized: all of it runs natively, as ckb-vm does.
#[test]
fn what_is_beyond_a_limit_of_compile_time_runs_alike() {
    let beyond = [
        ("wide multiplications", 1100),
        ("memory copies", 600),
        ("many functions", 300),
        ("a table of cases", 600),
        ("nested loops", 50),
    ];
    for (name, count) in beyond {
        let shape = SHAPES.iter().find(|shape| shape.name == name).unwrap();
        let equal = check_within(name, &shape.elf(count).unwrap(), &[], script(2), 10_000_000).unwrap();
        assert_eq!((equal.restarted, equal.native_cycles), (None, equal.cycles), "{name}");
    }
}

/// A small one of each shape that the bench doubles: both tiers run it as ckb-vm does, and neither grows
/// faster than the code.
#[test]
fn each_shape_runs_natively_and_grows_as_its_code() {
    for shape in &SHAPES {
        let counts = [1, 2].map(|times| times * shape.few);
        let elfs = counts.map(|count| shape.elf(count).unwrap());
        let equal = check_within(shape.name, &elfs[0], &[], script(2), 10_000_000).unwrap();
        assert_eq!((equal.restarted, equal.native_cycles), (None, equal.cycles), "{}", shape.name);
        for stage in [Stage::Ir, Stage::Baseline] {
            let [one, two] =
                [0, 1].map(|place| native::output(&elfs[place], script(2), stage).unwrap().bytes.len());
            println!("{} {stage:?}: {one} and {two} bytes", shape.name);
            // Headers are the rest.
            assert!(two * 10 < one * 23, "{}: {one} and {two} bytes", shape.name);
        }
    }
}

/// Compiles and compares; says how long a compile took.
#[track_caller]
fn check(name: &str, words: &[u32], is_optimized: bool) {
    check_with_table(name, words, &[], is_optimized);
}

#[track_caller]
fn check_with_table(name: &str, words: &[u32], table: &[u64], is_optimized: bool) {
    let elf = elf(words, table);
    // Passes keep no slot on the stack that a register can have.
    let llvm = native::output(&elf, script(2), Stage::Llvm).unwrap().bytes;
    assert_eq!(!String::from_utf8_lossy(&llvm).contains(" = alloca "), is_optimized, "{name}");
    let (output, time) = timed(|| native::output(&elf, script(2), Stage::Library));
    let (bytes, time) = (output.unwrap().bytes.len(), time.as_secs_f64());
    let per_100_kb = time * 1e5 / (4 * words.len()) as f64;
    println!(
        "{name}: {:.1} KB, {time:.1} s, {per_100_kb:.1} s per 100 KB, library {bytes} bytes",
        words.len() as f64 / 250.0
    );
    let equal = check_within(name, &elf, &[], script(2), 10_000_000).unwrap();
    assert_eq!(equal.native_cycles, equal.cycles, "{name}");
    assert!(per_100_kb < SECONDS_PER_100_KB_MAX, "{name}: {per_100_kb} s per 100 KB");
}

/// Each function calls the next and is called by none but the one before: LLVM would make one function of
/// them, and copy the last one `functions` times.
fn chain(functions: usize) -> Vec<u32> {
    let mut words = vec![encode::jal(1, 12).unwrap()];
    words.extend(exit());
    for function in 0..functions {
        words.extend([encode::i(0x13, 0, 2, 2, -16), encode::s(3, 2, 1, 8)]);
        words.push(encode::i(0x13, 0, 10, 10, (function % 7) as i32));
        if function + 1 < functions {
            words.extend(encode::jal(1, 16));
        }
        words.extend([encode::i(3, 3, 1, 2, 8), encode::i(0x13, 0, 2, 2, 16), encode::i(0x67, 0, 0, 1, 0)]);
    }
    words
}

#[test]
fn a_chain_of_functions_with_one_caller_each() {
    check("chain", &chain(250), true);
    // So many that none is optimized.
    check("long chain", &chain(1000), false);
}

/// LLVM's scheduler compares each load and store of a line with all others.
#[test]
fn loads_and_stores_in_a_line() {
    let mut random = Random::new(7);
    let mut words: Vec<u32> =
        (0..4).map(|base| encode::u(0x37, 18 + base, DATA as u32 + 0x1000 * u32::from(base))).collect();
    for _ in 0..6000 {
        let (base, register) = (18 + random.below(4) as u8, 10 + random.below(6) as u8);
        let offset = random.between(0, 2000);
        words.push(match random.below(2) {
            0 => operations::load([0, 1, 2, 3, 4, 5, 6][random.below(7) as usize], register, base, offset),
            _ => encode::s(random.below(4), base, register, offset),
        });
    }
    words.extend(exit());
    check("accesses", &words, true);
}

/// Calls of functions that do next to nothing.
#[test]
fn thousands_of_tiny_functions() {
    let count = 3000_usize;
    let mut words: Vec<u32> = Vec::new();
    for call in 0..count {
        words.extend(encode::jal(1, 4 * (count + 2 + call) as i64));
    }
    words.extend(exit());
    for function in 0..count {
        words.extend([encode::i(0x13, 0, 10, 10, (function % 2000) as i32), encode::i(0x67, 0, 0, 1, 0)]);
    }
    check("tiny functions", &words, false);
}

/// The code of an interpreter that dispatches at the end of each of its labels, and where these are: `labels
/// * labels` edges.
fn interpreter(labels: u32) -> (Vec<u32>, Vec<u64>) {
    let (counter, state, limit, base) = (18, 19, 20, 21);
    let add = |rd, rs1, rs2| encode::r(0x33, 0, 0, rd, rs1, rs2);
    let add_number = |rd, rs1, number| encode::i(0x13, 0, rd, rs1, number);
    let shift = |rd, rs1, by| encode::i(0x13, 1, rd, rs1, by);
    let mut words = vec![encode::u(0x37, base, DATA as u32), add_number(state, 0, 1)];
    words.extend([encode::u(0x37, limit, 0x5000), add_number(counter, 0, 0)]);
    let end = words.len() + 1;
    words.extend(encode::jal(0, 12));
    words.extend(exit());
    let mut table = Vec::new();
    for label in 0..=labels {
        // The first dispatch is nobody's.
        if label > 0 {
            table.push(START + 4 * words.len() as u64);
            words.push(add_number(10, 10, (label % 100) as i32));
        }
        words.push(add_number(counter, counter, 1));
        words.extend(encode::b(4, counter, limit, 8));
        words.extend(encode::jal(0, 4 * (end as i64 - words.len() as i64)));
        words.extend([shift(7, state, 5), add(state, state, 7), add_number(state, state, 7)]);
        words.extend([add_number(5, 0, labels as i32), encode::r(0x33, 7, 1, 5, state, 5), shift(5, 5, 3)]);
        words.extend([add(5, 5, base), encode::i(3, 3, 5, 5, 0), encode::i(0x67, 0, 0, 5, 0)]);
    }
    (words, table)
}

/// Each dispatch by itself has an edge to each label: for everybody who follows edges, time and memory would
/// grow as their square.
#[test]
fn labels_with_a_dispatch_each() {
    // Of tables with more than 512 targets nothing is optimized.
    for (name, labels, is_optimized) in [("labels", 400, true), ("many labels", 2000, false)] {
        let (words, table) = interpreter(labels);
        let ir = native::output(&elf(&words, &table), script(2), Stage::Ir).unwrap().bytes;
        let per_word = ir.len() / words.len();
        println!("{name}: {per_word} bytes of IR for an instruction");
        assert!(per_word < IR_BYTES_PER_INSTRUCTION_MAX, "{name}: {per_word}");
        check_with_table(name, &words, &table, is_optimized);
    }
}

/// Functions that end in each other, a million times, as gcc makes of state machines: a jump each, not a call
/// that uses up the native stack.
#[test]
fn mutual_tail_calls_take_no_stack() {
    let text = "
        .globl _start
        _start: li a0, 20000000
            li a1, 12345
            li a2, 678
            call first
            li a0, 1000001
            call second
            li a0, 1000002
            call third
            andi a0, a0, 63
            li a7, 93
            ecall
        .type first, @function
        first: beqz a0, 2f
            addi a0, a0, -1
            andi a3, a1, 1
            bnez a3, 1f
            xor a2, a2, a0
            add a1, a1, a2
            tail third
        1:  slli a4, a1, 1
            add a1, a1, a4
            addi a2, a2, 1
            tail second
        2:  xor a0, a1, a2
            ret
        .type second, @function
        second: beqz a0, 2f
            addi a0, a0, -1
            andi a3, a2, 2
            bnez a3, 1f
            sub a1, a1, a2
            tail third
        1:  srli a1, a1, 1
            tail first
        2:  add a0, a1, a2
            ret
        .type third, @function
        third: beqz a0, 2f
            addi a0, a0, -1
            andi a3, a0, 4
            bnez a3, 1f
            xor a1, a1, a0
            tail second
        1:  xor a2, a2, a1
            addi a1, a1, 1
            tail first
        2:  sub a0, a1, a2
            ret
    ";
    let case = Case {
        elf: guests::assemble(text).unwrap().into(),
        args: vec![],
        options: script(2),
        cycles_max: 1_000_000_000,
        code: None,
    };
    for tier in CodeTier::ALL {
        let library = native::compile_with(&case.elf, script(2), tier, &Hints::default()).unwrap().unwrap();
        let equal = compare(&mut Machine::new().unwrap(), &case, Some(&library)).unwrap().unwrap();
        assert_eq!((equal.restarted, equal.native_cycles), (None, equal.cycles), "{tier}");
    }
}
