//! Random functions that the rewriter copies: what they do by their convention stays the same.

use std::sync::atomic::{AtomicU64, Ordering};

use antares_abi::{CompileOptions, Isa};
use antares_guests::assemble;
use antares_optimise::{Settings, SolverAnswer, Statement, plan};
use antares_tests::oracle::{Case, Run, run};
use bytes::Bytes;
use object::{Object as _, ObjectSymbol as _};

use crate::{Chance, believing};

/// Functions of a file.
const FUNCTIONS: u64 = 60;

/// What each function reads, and leaves what it computed.
const DATA_BYTES: u64 = 512;

/// Registers that functions use, beside `s0`, which points to their data.
const REGISTERS: [&str; 15] =
    ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6"];

const TWO: [&str; 22] = [
    "add", "sub", "and", "or", "xor", "sll", "srl", "sra", "slt", "sltu", "mul", "mulh", "mulhu", "mulhsu",
    "addw", "subw", "mulw", "sllw", "srlw", "sraw", "divu", "remu",
];

const ONE: [&str; 10] = ["mv", "not", "neg", "negw", "sext.w", "zext.b", "seqz", "snez", "sltz", "sgtz"];

const WITH_NUMBER: [&str; 8] = ["addi", "add", "andi", "and", "xori", "or", "addiw", "sltiu"];

const SHIFTS: [&str; 6] = ["slli", "srl", "srai", "slliw", "srlw", "sraiw"];

const OF_B: [&str; 9] = ["sh1add", "sh2add", "sh3add", "add.uw", "andn", "orn", "xnor", "rol", "max"];

fn register(chance: &mut Chance) -> &'static str {
    REGISTERS[chance.below(REGISTERS.len() as u64) as usize]
}

fn one_of<'a>(chance: &mut Chance, names: &[&'a str]) -> &'a str {
    names[chance.below(names.len() as u64) as usize]
}

/// A line, or some that rules look for.
fn lines(chance: &mut Chance, has_b: bool) -> String {
    let [a, b, c, d, e] = [(); 5].map(|()| register(chance));
    let number = i64::from(chance.below(4096)) - 2048;
    let offset = 8 * chance.below(DATA_BYTES / 8);
    match chance.below(16) {
        0 | 1 => format!("mul {c},{a},{b}\n{} {d},{a},{b}", one_of(chance, &["mulhu", "mulh"])),
        2 => format!("add {a},{a},{b}\nsltu {c},{a},{b}\nadd {d},{d},{c}"),
        3 => format!("sub {c},{a},{b}\nadd {e},{c},{d}\nsltu {d},{a},{b}"),
        4 => {
            let low = 1 + chance.below(63);
            format!("srli {c},{a},{low}\nslli {d},{a},{}\nor {e},{c},{d}", 64 - low)
        }
        // Where the data is depends on the code's length.
        5 if chance.below(3) == 0 => format!("lla {a},results+{offset}\nld {a},8({a})"),
        5 => format!("li {a},{}", chance.next() as i32 >> chance.below(24)),
        6 => format!("{} {a},{offset}(s0)", one_of(chance, &["ld", "lw", "lbu", "lh", "lwu"])),
        7 => format!("{} {a},{offset}(s0)", one_of(chance, &["sd", "sw", "sb", "sh"])),
        8 => format!("{} {a},{b}", one_of(chance, &ONE)),
        9 => format!("{} {a},{b},{number}", one_of(chance, &WITH_NUMBER)),
        10 => format!("{} {a},{b},{}", one_of(chance, &SHIFTS), chance.below(32)),
        11 if has_b => format!("{} {a},{b},{c}", one_of(chance, &OF_B)),
        _ => format!("{} {a},{b},{c}", one_of(chance, &TWO)),
    }
}

/// A script that calls functions, each with its own data, and stores what they return.
fn script(chance: &mut Chance, has_b: bool) -> String {
    let mut text = ".globl _start\n.globl results\n.section .text\n_start:\n".to_owned();
    // Calls stay as long as they may have to be. Version 0, which has no B, calls another place by them.
    if has_b && chance.below(2) == 0 {
        text += ".option norelax\n";
    }
    for function in 0..FUNCTIONS {
        text += &format!("lla s0,results+{}\n", function * DATA_BYTES);
        for (at, register) in REGISTERS.iter().enumerate() {
            text += &format!("ld {register},{}(s0)\n", 8 * at);
        }
        text += &format!("call f{function}\nsd a0,0(s0)\nsd a1,8(s0)\n");
    }
    text += "li a0,0\nli a7,93\necall\n";
    for function in 0..FUNCTIONS {
        text += &format!(".type f{function}, @function\nf{function}:\n");
        let parts = 1 + chance.below(3);
        for part in 0..parts {
            for _ in 0..2 + chance.below(8) {
                text += &lines(chance, has_b);
                text += &format!("\n.LVL{}:\n", chance.next());
            }
            if part + 1 < parts {
                let [a, b] = [(); 2].map(|()| register(chance));
                text +=
                    &format!("bltu {a},{b},.L{function}_{}\n", part + chance.below((parts - part).into()));
            }
            text += &format!(".L{function}_{part}:\n");
        }
        text += "ret\n";
    }
    text += ".section .data\n.balign 8\nresults:\n";
    for _ in 0..FUNCTIONS * DATA_BYTES / 8 {
        let number = match chance.below(4) {
            0 => chance.next() % 8,
            1 => u64::MAX - chance.next() % 8,
            _ => chance.next(),
        };
        text += &format!(".dword {number:#x}\n");
    }
    text
}

/// The data of a script that has run.
fn results(elf: &[u8], run: &Run) -> Vec<u8> {
    let file = object::File::parse(elf).unwrap();
    let start = file.symbol_by_name("results").unwrap().address() as usize;
    let frames = start / ckb_vm::MEMORY_FRAMESIZE
        ..=(start + (FUNCTIONS * DATA_BYTES) as usize) / ckb_vm::MEMORY_FRAMESIZE;
    let all: Vec<u8> = frames.clone().flat_map(|frame| run.memory.frame(frame).to_vec()).collect();
    let from = start - frames.start() * ckb_vm::MEMORY_FRAMESIZE;
    all[from..from + (FUNCTIONS * DATA_BYTES) as usize].to_vec()
}

/// A run of `elf`, and its data behind that.
fn outcome(elf: Vec<u8>, options: CompileOptions) -> (Run, Vec<u8>) {
    let bytes = Bytes::from(elf.clone());
    let run = run(&Case { elf: bytes, args: Vec::new(), options, cycles_max: 1 << 24, code: None });
    let data = results(&elf, &run);
    (run, data)
}

/// Functions of a file that are written again: the data is the same, or this fails.
fn grown(vm_version: u32, seed: u64) -> usize {
    let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
    let text = script(&mut Chance(seed << 8 | u64::from(vm_version)), options.isa.has(Isa::B));
    let elf = assemble(&text).unwrap();
    // As if all had run so often that any growing pays.
    let runs = (0x10000..0x40000).map(|pc| (pc, 1_000_000)).collect();
    let settings = Settings { runs: Some(runs), may_grow: true, ..Settings::default() };
    let mut plan = plan(&elf, options, &settings, |_, _| true).unwrap();
    let copies = plan.rewrites.iter().filter(|rewrite| rewrite.is_copy);
    assert!(copies.clone().all(|rewrite| rewrite.statement.is_some()), "seed {seed}");
    let copies = copies.count();
    let believes = believing(&plan.rewrites);
    // Now and then a proof is missing, and what was there before stands in the copy.
    let refused = SolverAnswer::Refused { said: "not today".to_owned() };
    let count = AtomicU64::new(seed);
    let ask = |statement: &Statement| match count.fetch_add(1, Ordering::Relaxed) % 5 {
        0 => refused.clone(),
        _ => believes(statement),
    };
    plan.prove(2, ask, |_| ());
    let cheaper = plan.proved_elf();
    assert!(cheaper.len() > elf.len(), "seed {seed}");
    let [before, after] = [elf, cheaper].map(|elf| outcome(elf, options));
    assert_eq!(before.0.outcome, after.0.outcome, "seed {seed}");
    assert!(before.1 == after.1, "version {vm_version}, seed {seed}: what functions did differs");
    assert!(after.0.cycles < before.0.cycles, "seed {seed}: {} {}", before.0.cycles, after.0.cycles);
    copies
}

fn files() -> u64 {
    std::env::var("ANTARES_REWRITE_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn functions_that_are_written_again_do_the_same_in_every_version() {
    for vm_version in 0..3 {
        let copies: usize = (0..files()).map(|seed| grown(vm_version, seed)).sum();
        println!("version {vm_version}: {copies} windows of {} files in copies", files());
        assert!(copies > 20, "version {vm_version}: {copies}");
    }
}
