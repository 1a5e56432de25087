//! Functions of guests and their libraries, in C at all levels and in Rust. Each is called alone with random
//! arguments, in the original and in the rewritten file.

use std::collections::BTreeSet;

use antares_guests::{self as guests, RUST_GUESTS, RustLevel};
use antares_tests::{
    asm::encode,
    oracle::{Case, Run, run},
};
use bytes::Bytes;
use ckb_vm::{MEMORY_FRAMESIZE, RISCV_MAX_MEMORY};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

use crate::{
    chance::Chance,
    linked::{ECALL, addi},
    machine, rewrite,
};

/// Maximum number of code pieces to test in one guest.
const PIECES_MAX: usize = 2000;

/// `elf`, whose entry sets the global pointer and calls `function` with words of its stack.
fn calling(elf: &[u8], function: u64) -> Bytes {
    let file = object::File::parse(elf).unwrap();
    let entry = file.entry();
    let (address, (offset, _)) = file
        .segments()
        .map(|segment| (segment.address(), segment.file_range()))
        .find(|(address, (_, bytes))| (*address..address + bytes).contains(&entry))
        .unwrap();
    let mut code: Vec<u8> = Vec::new();
    // Two pointers to arguments, their count, and a third pointer.
    for (register, offset) in [(10, 8), (11, 16), (12, 0), (13, 24)] {
        code.extend((0x6002_u16 | register << 7 | (offset >> 3 & 3) << 5).to_le_bytes());
    }
    let call = encode::jal(1, function.wrapping_sub(entry + 16).cast_signed()).unwrap();
    for word in [call, addi(17, 0, 93), ECALL] {
        code.extend(word.to_le_bytes());
    }
    let mut patched = elf.to_vec();
    let at = (entry - address + offset) as usize + 8;
    patched[at..at + code.len()].copy_from_slice(&code);
    patched.into()
}

/// Pages of memory, except those of code.
fn pages<'a>(run: &'a Run, code: &'a BTreeSet<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let frames = (0..RISCV_MAX_MEMORY / MEMORY_FRAMESIZE).map(|index| run.memory.frame(index));
    let all = frames.flat_map(|frame| frame.chunks(4096)).enumerate();
    all.filter(|(number, _)| !code.contains(number)).map(|(_, page)| page)
}

/// Counts of functions with distinct code.
#[derive(Debug, Default)]
struct Count {
    known: BTreeSet<Vec<u8>>,
    rewritten: usize,
    /// Called, and ended within the cycle limit.
    ended: usize,
    /// Of these, runs that cost fewer cycles: a rewritten piece ran.
    cheaper: usize,
}

/// Calls the rewritten functions of `elf` whose code is new.
fn call_all(name: &str, elf: &Vec<u8>, count: &mut Count) {
    let made = rewrite(elf, 2, PIECES_MAX).unwrap();
    let kept = made.rewrites.iter().filter(|rewrite| rewrite.refused.is_none());
    let changed: BTreeSet<&str> = kept.map(|rewrite| rewrite.function.as_str()).collect();
    let file = object::File::parse(&**elf).unwrap();
    let code = file
        .segments()
        .filter(|one| matches!(one.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0));
    let code: BTreeSet<usize> = code
        .flat_map(|one| one.address() / 4096..=(one.address() + one.size()) / 4096)
        .map(|page| page as usize)
        .collect();
    let mut chance = Chance(changed.len() as u64);
    for symbol in file.symbols() {
        let function = symbol.name().unwrap();
        let own = file.segments().find_map(|one| one.data_range(symbol.address(), symbol.size()).ok()?);
        let is_function = symbol.kind() == object::SymbolKind::Text && symbol.size() > 0;
        let Some(own) = own.filter(|_| is_function && function != "_start") else { continue };
        if !count.known.insert(own.to_vec()) || !changed.contains(function) {
            continue;
        }
        count.rewritten += 1;
        let (mut has_ended, mut is_cheaper) = (false, false);
        let files = [elf, &made.elf].map(|elf| calling(elf, symbol.address()));
        for vm_version in [1, 2, 1, 2] {
            let args: Vec<Bytes> = (0..3 + chance.below(4))
                .map(|_| (0..chance.below(400)).map(|_| chance.next() as u8).collect::<Vec<u8>>().into())
                .collect();
            let [before, after] = files.each_ref().map(|elf| {
                run(&Case { args: args.clone(), ..Case::new(elf, &[], machine(vm_version), 1 << 18) })
            });
            if before.outcome.contains("Cycles") {
                continue;
            }
            let of = |run: &Run| (run.outcome.clone(), run.debug.clone());
            assert_eq!(of(&before), of(&after), "{name}: {function}");
            assert!(pages(&before, &code).eq(pages(&after, &code)), "{name}: {function}: memory differs");
            let is_exit = before.outcome.starts_with("Exit");
            assert!(!is_exit || before.registers == after.registers, "{name}: {function}: registers differ");
            assert!(!is_exit || after.cycles <= before.cycles, "{name}: {function}: it costs more");
            (has_ended, is_cheaper) = (true, is_cheaper || after.cycles < before.cycles);
        }
        count.ended += usize::from(has_ended);
        count.cheaper += usize::from(is_cheaper);
    }
}

/// The number-th file with relocations, and its name: C guests at each level, small ones first, then Rust.
fn file(number: usize) -> Option<(String, Vec<u8>)> {
    const LEVELS: [Option<&str>; 6] = [None, Some("-O2"), Some("-O1"), Some("-O0"), Some("-Os"), Some("-Oz")];
    let mut all = guests::guests();
    all.retain(|guest| !guest.name.starts_with("attack-"));
    let Some(level) = LEVELS.get(number / all.len()) else {
        let number = number - LEVELS.len() * all.len();
        let (name, level) = (RUST_GUESTS.get(number / 2)?, RustLevel::ALL[number % 2]);
        let elf = guests::rust_guest_with_relocations(name, level).unwrap();
        return Some((format!("{name} in Rust, {}", level.name()), elf));
    };
    let mut guest = all[all.len() - 1 - number % all.len()].clone();
    guest.level = level.unwrap_or(guest.level);
    let elf = guests::with_relocations(&guest).unwrap();
    Some((format!("{} {}", guest.name, guest.level), elf))
}

#[test]
fn functions_of_guests_do_the_same() {
    let mut count = Count::default();
    for seed in crate::seeds("ANTARES_REWRITE_GUESTS", 16) {
        let Some((name, elf)) = file(seed as usize) else { break };
        call_all(&name, &elf, &mut count);
        let Count { known, rewritten, ended, cheaper } = &count;
        println!(
            "{name}: {} functions, {rewritten} rewritten, {ended} ended, {cheaper} cheaper",
            known.len()
        );
    }
    assert!(count.rewritten > 5 && count.cheaper > 2, "{count:?}");
}
