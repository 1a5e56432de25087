//! Handmade invalid files, which the checker refuses, and valid files next to them.

use std::collections::BTreeMap;

use antares_optimise::{LinkedScript, RewriteError, Settings, Why, optimise};

use crate::{
    linked::{
        CODE, DATA, ECALL, FUNCTION, LABEL, Linked, NOP, RET, add, addi, branch, jal, jalr, load, lui, mul,
        mulhu, store, two,
    },
    machine,
};

const A0: u32 = 10;
const A1: u32 = 11;
const A2: u32 = 12;
const A3: u32 = 13;
const A4: u32 = 14;
const RA: u32 = 1;
const LD: u32 = 3;
const SD: u32 = 3;

/// The checker's first difference between functions with code `old` and `new`.
fn refused(old: &[u32], new: &[u32]) -> Option<Why> {
    let script = LinkedScript::read(&Linked::of(old).bytes()).unwrap();
    let found = script.differences(&Linked::of(new).bytes()).unwrap();
    found.first().map(|difference| difference.why)
}

/// The same with a return after each.
fn with_return(old: &[u32], new: &[u32]) -> Option<Why> {
    refused(&[old, &[RET]].concat(), &[new, &[RET]].concat())
}

fn differs(why: Option<Why>) -> bool {
    matches!(why, Some(Why::Register(_)))
}

#[test]
fn what_is_computed_otherwise_is_refused() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    let cases: [(&str, Vec<u32>, Vec<u32>); 13] = [
        ("a clobbered operand", vec![low, mulhu(A0, A0, A1)], vec![mulhu(A0, A0, A1), low]),
        ("signed for unsigned", vec![low, high], vec![two(1, 1, A3, A0, A1), low]),
        ("swapped operands of mulhsu", vec![two(1, 2, A3, A0, A1)], vec![two(1, 2, A3, A1, A0)]),
        ("swapped operands of a difference", vec![two(32, 0, A2, A0, A1)], vec![two(32, 0, A2, A1, A0)]),
        (
            "a carry of the wrong operand",
            vec![add(A2, A0, A1), two(0, 3, A3, A2, A0)],
            vec![add(A2, A0, A1), two(0, 3, A3, A2, A1)],
        ),
        ("another number", vec![addi(A2, A0, 1)], vec![addi(A2, A0, 2)]),
        ("another constant", vec![lui(A2, 0x1000)], vec![lui(A2, 0x2000)]),
        ("half of a shift", vec![two(0, 1, A2, A0, A1)], vec![two(0, 1, A2, A0, A1) | 8]),
        ("another register", vec![add(A2, A0, A1)], vec![add(A3, A0, A1)]),
        ("a lost result", vec![add(A2, A0, A1)], vec![NOP]),
        ("a result too many", vec![NOP], vec![add(A2, A0, A1)]),
        ("a wrong sign", vec![load(2, A2, A0, 0)], vec![load(6, A2, A0, 0)]),
        ("an earlier value", vec![addi(A0, A0, 8), add(A2, A0, A1)], vec![add(A2, A0, A1), addi(A0, A0, 8)]),
    ];
    for (name, old, new) in cases {
        let why = with_return(&old, &new);
        assert!(differs(why) || why == Some(Why::Loads), "{name}: {why:?}");
        assert_eq!(with_return(&old, &old), None, "{name}");
    }
    assert_eq!(with_return(&[low, high], &[high, low]), None, "the halves of a product, fused");
    let moved = [addi(A2, A0, 0), add(A3, A2, A1)];
    assert_eq!(with_return(&moved, &[addi(A2, A0, 0), add(A3, A0, A1)]), None, "what a move gives");
}

#[test]
fn memory_that_is_used_otherwise_is_refused() {
    let stores = [store(SD, A2, A0, 0), store(SD, A3, A1, 0)];
    let (read, write) = (load(LD, A3, A1, 0), store(SD, A2, A0, 0));
    for (name, old, new, why) in [
        ("stores in another order", stores.to_vec(), vec![stores[1], stores[0]], Why::Stores),
        ("a narrower store", vec![write], vec![store(2, A2, A0, 0)], Why::Stores),
        ("a store elsewhere", vec![write], vec![store(SD, A2, A0, 8)], Why::Stores),
        ("a store of something else", vec![write], vec![store(SD, A3, A0, 0)], Why::Stores),
        ("a lost store", vec![write], vec![NOP], Why::Stores),
        ("a load before a store", vec![write, read], vec![read, write], Why::Loads),
        ("a load after a store", vec![read, write], vec![write, read], Why::Loads),
        ("a load that could fail and is lost", vec![load(LD, A2, A0, 0), NOP], vec![NOP, NOP], Why::Loads),
        ("a load from elsewhere", vec![load(LD, A2, A0, 0)], vec![load(LD, A2, A0, 8)], Why::Loads),
        ("a narrower load", vec![load(LD, 0, A0, 0)], vec![load(2, 0, A0, 0)], Why::Loads),
    ] {
        assert_eq!(with_return(&old, &new), Some(why), "{name}");
    }
    let loads = [load(LD, A2, A0, 0), load(LD, A3, A1, 0)];
    assert_eq!(with_return(&loads, &[loads[1], loads[0]]), None, "loads between stores may change places");
}

/// Whether `a2`, written by the first instruction, is dead before the code `behind`.
fn is_dead(behind: &[u32]) -> bool {
    let [old, new] = [add(A2, A0, A1), NOP].map(|first| [&[first], behind].concat());
    match refused(&old, &new) {
        None => true,
        Some(Why::Register(_) | Why::Stores | Why::Loads) => false,
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn a_register_is_dead_only_where_every_path_overwrites_it() {
    let over = addi(A2, 0, 0);
    assert!(is_dead(&[over, RET]));
    for (name, behind) in [
        ("a return", vec![RET]),
        ("a call, behind which it is overwritten", vec![jal(RA, 2), over, RET]),
        ("a call by address", vec![jalr(RA, A0), over, RET]),
        ("a system call", vec![ECALL, over, RET]),
        ("a breakpoint", vec![0x0010_0073, over, RET]),
        ("a fence", vec![0x0ff0_000f, over, RET]),
        ("the end of the function", vec![NOP]),
        ("a jump out of the function", vec![jal(0, 400)]),
        ("a branch out of the function", vec![branch(0, A0, A1, 100), over, RET]),
        ("one of two paths", vec![branch(0, A0, A1, 3), over, RET, RET]),
        ("the path not taken", vec![branch(0, A0, A1, 2), RET, over, RET]),
        ("a branch that reads it", vec![branch(0, A2, A1, 2), over, over, RET]),
        ("a store that reads it", vec![store(SD, A2, A0, 0), over, RET]),
        ("an address", vec![load(LD, A3, A2, 0), over, RET]),
        ("what is made of it", vec![addi(A3, A2, 1), over, RET]),
        (
            "a loop that comes back to its use",
            vec![jal(0, 2), store(SD, A2, A0, 0), branch(0, A0, A1, -1), over, RET],
        ),
    ] {
        assert!(!is_dead(&behind), "{name}");
    }
    for (name, behind) in [
        ("both of two paths", vec![branch(0, A0, A1, 3), over, RET, over, RET]),
        ("a loop that overwrites it", vec![over, branch(0, A0, A1, -1), RET]),
        ("behind a jump", vec![jal(0, 2), RET, over, RET]),
    ] {
        assert!(is_dead(&behind), "{name}");
    }
    // A call overwrites the register of its return address.
    let link = [addi(RA, A0, 1), NOP].map(|first| [first, jal(RA, 2), NOP, ECALL]);
    assert_eq!(refused(&link[0], &link[1]), None);
    let jump = [addi(RA, A0, 1), NOP].map(|first| [first, jalr(RA, RA), NOP, ECALL]);
    assert!(differs(refused(&jump[0], &jump[1])));
}

type Change<'a> = &'a dyn Fn(&mut Linked);

#[test]
fn control_enters_nowhere_but_at_the_start_of_a_piece() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    let pair = [NOP, low, high, RET];
    let swapped = [NOP, high, low, RET];
    let of = |code: &[u32], change: Change| {
        let mut linked = Linked::of(code);
        change(&mut linked);
        linked.bytes()
    };
    let differences = |change: Change| {
        let script = LinkedScript::read(&of(&pair, change)).unwrap();
        script.differences(&of(&swapped, change)).unwrap()
    };
    assert_eq!(differences(&|_| ()), []);
    let inside = CODE + 8;
    // 2: a word of data; 16: a branch; 26 and 27: both halves of a code address; 35 and 39: a difference.
    let data = |linked: &mut Linked, kinds: &[u32]| {
        linked.data = inside.to_le_bytes().to_vec();
        linked.relocations.extend(kinds.iter().map(|kind| (DATA, *kind, inside)));
    };
    let other = |linked: &mut Linked, word: u32| {
        linked.code.push(word);
        linked.symbols.push(("other", 4, 1, FUNCTION));
    };
    let far = [0x17 | 5 << 7, jalr(0, 5) | 0xff8 << 20];
    let changes: [(&str, Change); 11] = [
        ("a symbol", &|linked| linked.symbols.push(("label", 2, 0, LABEL))),
        ("a function of another name", &|linked| linked.symbols.push(("alias", 2, 2, FUNCTION))),
        ("a mark of data", &|linked| linked.symbols.push(("$d", 2, 0, LABEL))),
        ("a word of 64 bits", &|linked| data(linked, &[2])),
        ("a word of 32 bits", &|linked| data(linked, &[1])),
        ("a word that no relocation tells", &|linked| data(linked, &[])),
        ("a far jump of no function", &|linked| linked.code.extend(far)),
        ("a difference of 16 bits", &|linked| {
            data(linked, &[34, 38]);
            linked.relocations.push((DATA, 34, inside));
        }),
        ("code of another function", &|linked| other(linked, jal(0, -2))),
        ("an address from the global pointer", &|linked| {
            other(linked, addi(A0, 3, 8));
            linked.symbols.push(("__global_pointer$", 0, 0, LABEL));
            linked.relocations.push((CODE + 16, 47, 8));
        }),
        ("code of no function", &|linked| linked.code.push(branch(0, A0, A1, -2))),
    ];
    for (name, change) in changes {
        assert!(!differences(change).is_empty(), "{name}");
    }
}

#[test]
fn words_of_data_are_entries_if_they_may_be_addresses() {
    let (low, high, word) = (mul(A2, A0, A1), mulhu(A3, A0, A1), CODE + 8);
    let behind = |start: &[u8], zeros: usize| [start, &vec![0; zeros], &word.to_le_bytes()].concat();
    // 32 bits, with data after them.
    let half = |zeros: usize| [&vec![0; zeros], &word.to_le_bytes()[..4], &[0xff; 4]].concat();
    for (name, data, is_named, is_entry) in [
        ("aligned", behind(&[], 4), false, true),
        ("of 32 bits", half(4), false, true),
        ("of 32 bits, not aligned", half(2), false, false),
        ("of 32 bits, not aligned, of a symbol", half(2), true, true),
        ("not aligned", behind(&[], 2), false, false),
        ("not aligned, of a symbol", behind(&[], 2), true, true),
        ("of a symbol alone", Vec::new(), true, false),
        ("in the header of a file", behind(b"\x7fELF", 36), false, false),
        ("behind the header of a file", behind(b"\x7fELF", 60), false, true),
    ] {
        let of = |code: [u32; 4]| {
            let mut linked = Linked::of(&code);
            linked.data.clone_from(&data);
            linked.symbols.extend(is_named.then_some(("label", 2, 0, LABEL)));
            linked.bytes()
        };
        let script = LinkedScript::read(&of([low, high, NOP, RET])).unwrap();
        let found = script.differences(&of([high, low, NOP, RET])).unwrap();
        assert_eq!(!found.is_empty(), is_entry, "{name}: {found:?}");
    }
}

#[test]
fn what_is_no_code_of_a_function_stays() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    for (name, head) in [
        ("behind a return", vec![RET]),
        ("behind a jump", vec![jal(0, 4), NOP]),
        ("in a function that jumps to a computed address", vec![branch(0, A0, A1, 2), jalr(0, A4)]),
    ] {
        let [old, new] =
            [[low, high], [high, low]].map(|pair| [head.as_slice(), &pair, &[RET, RET]].concat());
        assert_eq!(refused(&old, &new), Some(Why::Bytes), "{name}");
    }
    let code = [low, high, RET];
    for (name, old, new) in [
        ("a return", RET, jalr(0, 5)),
        ("a branch", branch(0, A0, A1, 2), branch(1, A0, A1, 2)),
        ("a system call", ECALL, NOP),
        ("a jump", jal(0, 2), jal(0, 1)),
    ] {
        let of = |word: u32| [&code[..2], &[word], &[RET, RET]].concat();
        assert_eq!(refused(&of(old), &of(new)), Some(Why::Bytes), "{name}");
    }
    // Four bytes that are two instructions, and vice versa.
    assert_eq!(with_return(&[NOP], &[0x0001_0001]), Some(Why::Cycles(0)), "two that do nothing");
    assert_eq!(with_return(&[NOP], &[0x0003_0001]), Some(Why::Length), "one and a half");
    let newer = two(0x20, 7, 0, A0, A1);
    assert_eq!(with_return(&[NOP], &[newer]), Some(Why::Version(0)), "what version 0 does not have");
    let script = LinkedScript::read(&Linked::of(&code).bytes()).unwrap();
    let mut linked = Linked::of(&code);
    linked.data = vec![1];
    assert!(matches!(script.differences(&linked.bytes()), Err(RewriteError::Outside(_))), "data");
    let mut bytes = Linked::of(&code).bytes();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(matches!(script.differences(&bytes), Err(RewriteError::Outside(_))), "a section header");
    bytes.pop();
    assert!(matches!(script.differences(&bytes), Err(RewriteError::Outside(_))), "a byte less");
}

#[test]
fn no_version_charges_more_on_any_path() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    let (upper, lower) = (lui(A4, 0x1000), 0x0010_0013 | A4 << 15 | A4 << 7 | 8);
    let sum = |to: u32, carry: u32| [add(to, A0, A1), two(0, 3, carry, to, A0)];
    let ([first, carry], [second, carried]) = (sum(A2, A3), sum(28, 29));
    let [x, y] = [addi(30, A0, 1), addi(31, A0, 1)];
    let third = add(A3, A3, 31);
    // A label after the second or the third instruction.
    let label = |words: i32| branch(0, A0, A1, words);
    for (name, old, new, version) in [
        ("halves the wrong way around", vec![high, low], vec![low, high], 1),
        ("a sum, its carry and a sum", vec![first, carry, third, x], vec![first, carry, x, third], 2),
        ("in front of a label", vec![label(3), x, upper, lower], vec![label(3), upper, x, lower], 1),
        ("behind a label", vec![label(2), high, low, x], vec![label(2), high, x, low], 1),
        ("in front of a label, newer", vec![label(3), x, first, carry], vec![label(3), first, x, carry], 2),
        ("behind a label, newer", vec![label(2), first, carry, x], vec![label(2), first, x, carry], 2),
        (
            "one less in version 2, one more in version 1",
            vec![upper, lower, first, x, carry, second, y, carried],
            vec![upper, first, carry, lower, second, carried, x, y],
            1,
        ),
        (
            "one less in version 1, one more in version 2",
            vec![upper, first, carry, lower, second, carried, x, y],
            vec![upper, lower, first, x, carry, second, y, carried],
            2,
        ),
    ] {
        assert_eq!(with_return(&old, &new), Some(Why::Cycles(version)), "{name}");
        let found = with_return(&new, &old);
        assert!(found.is_none() || name.starts_with("one less"), "{name}: {found:?}");
    }
}

#[test]
fn what_stands_before_a_function_runs_into_it_and_is_fused_with_it() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    let behind = |code: [u32; 2]| {
        let mut linked = Linked::of(&[high, code[0], code[1], RET]);
        linked.symbols = vec![("main", 1, 3, FUNCTION)];
        linked.bytes()
    };
    let old = behind([low, addi(A4, A4, 1)]);
    let new = behind([addi(A4, A4, 1), low]);
    let found = LinkedScript::read(&old).unwrap().differences(&new).unwrap();
    assert_eq!(found.first().map(|difference| difference.why), Some(Why::Cycles(1)));
}

#[test]
fn a_file_that_gets_no_better_is_returned_as_it_was() {
    let (low, high) = (mul(A2, A0, A1), mulhu(A3, A0, A1));
    for (version, code, is_better) in [
        (0, vec![low, high, RET], false),
        (1, vec![low, high, RET], true),
        (2, vec![low, high, RET], true),
        (1, vec![high, low, RET], false),
        (2, vec![high, low, RET], false),
        (2, vec![branch(0, A0, A1, 1), low, high, RET], true),
        // A label between both halves.
        (2, vec![branch(0, A0, A1, 2), low, high, RET], false),
        (2, vec![branch(0, A0, A1, 2), high, low, RET], false),
        (2, vec![low, jal(RA, 2), high, RET], false),
    ] {
        let elf = Linked::of(&code).bytes();
        let of = |runs: Option<BTreeMap<u64, u64>>, takes_all: bool| {
            optimise(&elf, &Settings { machine: machine(version), runs, takes_all }, |_, _| true).unwrap().elf
        };
        assert_eq!(of(None, true) != elf, is_better, "version {version}: {code:x?}");
        // Only the first of fused instructions has a counter.
        let last = CODE + 4 * (code.len() as u64 - 2);
        assert_eq!(of(Some([(last, 1)].into()), false) != elf, is_better, "version {version}: {code:x?}");
        assert_eq!(of(Some([(CODE + 0x100, 1)].into()), false), elf, "what never ran");
    }
}
