//! Random code through the rewriter: behaviour on ckb-vm's own machine is unchanged, and cycles never
//! increase, in every version.

use antares_tests::oracle::{Case, Run, run};

use crate::{
    chance::Chance,
    linked::{CODE, DATA, ECALL, FUNCTION, Linked, RET, addi, branch, jal, load, lui, store, two},
    machine, rewrite,
};

/// Distance of the code from `CODE`. Random half words must not be code addresses: a script that reads its
/// own instructions would see the difference.
const ABOVE: u64 = 0x1f_0000;

/// Offset from `DATA` of the final registers.
const RESULTS: u32 = 512;

/// Registers that code may write: not x0, ra, sp, gp, tp, s0 (the data pointer), s11 (the counter).
const REGISTERS: [u32; 16] = [5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31];

const COUNTER: u32 = 27;

fn register(chance: &mut Chance) -> u32 {
    REGISTERS[chance.below(16) as usize]
}

/// Instructions that rules match, mixed with others.
fn block(chance: &mut Chance) -> Vec<u32> {
    let mut code = Vec::new();
    for _ in 0..2 + chance.below(12) {
        let [a, b, c, d, e] = [(); 5].map(|()| register(chance));
        match chance.below(13) {
            0 | 1 => code.extend([two(1, 0, c, a, b), two(1, [1, 2, 3][chance.below(3) as usize], d, a, b)]),
            2 => code.extend([two(1, 3, d, a, b), two(0, 0, e, c, a), two(1, 0, c, b, a)]),
            3 => code.extend([two(0, 0, a, a, b), two(0, 3, c, a, b), two(0, 0, d, d, c)]),
            4 => code.extend([two(0x20, 0, c, a, b), two(0, 0, e, c, d), two(0, 3, d, a, b)]),
            5 => code.extend([two(1, 6, c, a, b), two(1, 4, d, a, b)]),
            6 => code.extend([
                lui(c, chance.below(1 << 20) << 12),
                addi(d, a, 1),
                0x1b | c << 15 | c << 7 | b << 20,
            ]),
            7 => code.push(load(chance.below(7), a, 8, chance.below(256))),
            8 => code.push(store(chance.below(4), a, 8, chance.below(256))),
            9 => code.push(two(0, chance.below(8), a, b, c)),
            10 => code.extend([addi(b, a, 0), two(0x20, 0, c, b, a)]),
            // Occasionally an invalid address.
            11 if chance.below(12) == 0 => code.push(load(3, a, b, 0)),
            _ => code.push(chance.below(4096) << 20 | a << 15 | b << 7 | 0x1b),
        }
    }
    code
}

/// Blocks with forward branches, and loops around them.
fn flow(chance: &mut Chance) -> Vec<u32> {
    let mut code = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let [first, second] = [(); 2].map(|()| block(chance));
        let over = first.len() as i32 + 2;
        match chance.below(4) {
            // One of two alternatives.
            0 => {
                code.push(branch(chance.below(2), register(chance), register(chance), over));
                code.extend(first);
                code.push(jal(0, second.len() as i32 + 1));
            }
            // Optional code.
            1 => {
                code.push(branch(4 + chance.below(4), register(chance), register(chance), over - 1));
                code.extend(first);
            }
            // A loop of three iterations.
            2 => {
                code.push(addi(COUNTER, 0, 3));
                code.extend(&first);
                code.extend([addi(COUNTER, COUNTER, -1), branch(1, COUNTER, 0, -(first.len() as i32) - 1)]);
            }
            _ => code.extend(first),
        }
        code.extend(second);
    }
    code
}

/// A script: loads registers from data, calls functions, stores all registers to data, and exits.
fn script(chance: &mut Chance) -> Vec<u8> {
    let functions: Vec<Vec<u32>> =
        (0..chance.below(3)).map(|_| flow(chance)).map(|code| [code, vec![RET]].concat()).collect();
    let mut main = vec![lui(8, DATA as u32)];
    main.extend(REGISTERS.map(|register| load(3, register, 8, 8 * register)));
    main.extend(flow(chance));
    let mut calls = Vec::new();
    for index in 0..functions.len() {
        calls.push((main.len(), index));
        main.push(0);
        main.extend(flow(chance));
    }
    main.extend(REGISTERS.map(|register| store(3, register, 8, RESULTS + 8 * register)));
    main.extend([addi(10, 0, 0), addi(17, 0, 93), ECALL]);
    let mut symbols = vec![("main", 0, main.len(), FUNCTION)];
    let mut code = main;
    for (index, function) in functions.iter().enumerate() {
        let (start, name) = (code.len(), ["first", "second"][index]);
        symbols.push((name, start, function.len(), FUNCTION));
        code.extend(function);
        let call = calls[index].0;
        code[call] = jal(1, start as i32 - call as i32);
    }
    let small = |chance: &mut Chance| match chance.below(4) {
        0 => chance.next() % 8,
        1 => u64::MAX - chance.next() % 8,
        _ => chance.next(),
    };
    let data: Vec<u8> = (0..32).flat_map(|_| small(chance).to_le_bytes()).collect();
    let relocations = vec![(CODE + ABOVE, 0, CODE + ABOVE)];
    Linked { code, data, symbols, relocations, above: ABOVE }.bytes()
}

/// Rewrites scripts for a version; returns how many changed, and how many of those ended in an error.
fn campaign(vm_version: u32) -> (u32, u32) {
    let seeds = crate::seeds("ANTARES_REWRITE_BLOCKS", 300);
    let (mut changed, mut failed) = (0, 0);
    for seed in seeds.clone() {
        let elf = script(&mut Chance(seed << 8 | u64::from(vm_version)));
        let cheaper = rewrite(&elf, vm_version, usize::MAX).unwrap().elf;
        if cheaper == elf {
            continue;
        }
        let mut is_failing = false;
        for version in 0..3 {
            let [before, after] =
                [&elf, &cheaper].map(|elf| run(&Case::new(elf, &[], machine(version), 1 << 20)));
            assert_eq!(before.outcome, after.outcome, "seed {seed}, version {version}");
            // Frames are larger than a segment, and code may differ.
            let data = |run: &Run| {
                let from = DATA as usize % ckb_vm::MEMORY_FRAMESIZE;
                run.memory.frame(DATA as usize / ckb_vm::MEMORY_FRAMESIZE)[from..from + 4096].to_vec()
            };
            assert!(data(&before) == data(&after), "seed {seed}, version {version}: memory differs");
            let is_exit = before.outcome.starts_with("Exit");
            assert!(!is_exit || after.registers == before.registers, "seed {seed}: registers differ");
            assert!(
                !is_exit || after.cycles <= before.cycles,
                "seed {seed}: {} {}",
                before.cycles,
                after.cycles
            );
            is_failing |= !is_exit;
        }
        changed += 1;
        failed += u32::from(is_failing);
    }
    println!(
        "version {vm_version}: {changed} of {seeds:?} scripts changed, {failed} of them end in an error"
    );
    (changed, failed)
}

#[test]
fn random_scripts_do_the_same_in_every_version() {
    for vm_version in 0..3 {
        let (changed, failed) = campaign(vm_version);
        assert!(changed > 50 && failed > 0, "version {vm_version}: {changed}, {failed}");
    }
}
