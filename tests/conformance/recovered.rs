//! Code with computed control flow: tables of code, unrolled loops entered in the middle, manually computed
//! links; and code at any address. All of it is native from the first run on, in each VM version and tier.

use antares_abi::{CompileOptions, Isa};
use antares_tests::{
    asm::encode,
    elf::{self, Segment},
    guests,
};

use crate::check::{check, script};

/// Repeatedly calls `pick` with 0 to 7 in `a0`.
const DRIVER: &str = "
    .globl _start
    _start: li s1, 400
    1:  andi a0, s1, 7
        call pick
        slli s2, s2, 1
        add s2, s2, a0
        addi s1, s1, -1
        bnez s1, 1b
        andi a0, s2, 63
        li a7, 93
        ecall
    .type pick, @function
    .option rvc
    pick:
";

/// Jumps of four bytes each, and their targets.
const JUMPS: &str = "
    .option norvc
    table: .irp n, 0,1,2,3,4,5,6,7
        j out\\n
    .endr
    .option rvc
    .irp n, 0,1,2,3,4,5,6,7
    out\\n: li a0, 11 + 3 * \\n
        ret
    .endr
";

/// Eight consecutive additions of eight bytes each.
const UNROLLED: &str = "
    .option norvc
    table: .rept 8
        slli t2, a1, 1
        add a1, a1, t2
    .endr
    end: mv a0, a1
        ret
    .option rvc
";

/// Cases by name: the text of `pick`, and its table.
const WAYS: [(&str, &str, &str); 13] = [
    ("jumps", "slli a0, a0, 2; la t0, table; add t0, t0, a0; jr t0", JUMPS),
    ("jumps, the address first", "la t0, table; slli a0, a0, 2; add a0, a0, t0; jr a0", JUMPS),
    ("jumps, sh2add", "la t0, table; sh2add t0, a0, t0; jr t0", JUMPS),
    (
        "jumps, an absolute address",
        "slli a0, a0, 2; lui t0, %hi(table); addi t0, t0, %lo(table); add t0, t0, a0; jr t0",
        JUMPS,
    ),
    (
        "jumps, an absolute address in the jump",
        "slli a0, a0, 2; lui t0, %hi(table); add t0, t0, a0; jr %lo(table)(t0)",
        JUMPS,
    ),
    (
        "jumps, a sum that is fused with its carry",
        "slli a0, a0, 2; la t1, table; add t0, t1, a0; sltu t2, t0, t1; jr t0",
        JUMPS,
    ),
    (
        "jumps, a sum that is fused with two more",
        "slli a0, a0, 2; la t1, table; add t0, t1, a0; sltu t2, t0, t1; add t3, t2, a0; jr t0",
        JUMPS,
    ),
    (
        "short jumps",
        "slli a0, a0, 1; la t0, 9f; add t0, t0, a0; jr t0",
        "
        9: c.j 1f; c.j 2f; c.j 3f; c.j 4f; c.j 1f; c.j 2f; c.j 3f; c.j 4f
        1: li a0, 1; ret
        2: li a0, 2; ret
        3: li a0, 3; ret
        4: li a0, 4; ret",
    ),
    (
        "pieces of twelve bytes that return",
        "li t1, 12; mul a0, a0, t1; la t0, table; add t0, t0, a0; jr t0",
        "
        .option norvc
        table: .irp n, 0,1,2,3,4,5,6,7
            li a0, 5 * \\n
            xori a0, a0, 9
            ret
        .endr",
    ),
    (
        "an unrolled loop from its middle",
        "li a1, 3; slli a0, a0, 3; la t0, table; add t0, t0, a0; jr t0",
        UNROLLED,
    ),
    (
        "an unrolled loop, from its end",
        "li a1, 3; slli a0, a0, 3; la t0, end; sub t0, t0, a0; jr t0",
        UNROLLED,
    ),
    // The jump table is a function according to its symbol.
    (
        "a table of jumps elsewhere",
        "slli a0, a0, 2; la t0, table; add t0, t0, a0; jr t0
         .type table, @function",
        JUMPS,
    ),
    (
        "calls into a table of jumps elsewhere",
        "addi sp, sp, -16; sd ra, 8(sp); slli a0, a0, 2; la t0, table; add t0, t0, a0; jalr t0
         addi a0, a0, 1; ld ra, 8(sp); addi sp, sp, 16; ret
         .type table, @function",
        JUMPS,
    ),
];

/// Cases by name: the text of `pick`, which returns in unusual ways.
const LINKS: [(&str, &str); 6] = [
    (
        "a link by la",
        "mv s5, ra; la t0, 1f; mv ra, t0; j double
             1: addi a0, a0, 1; mv ra, s5; ret
             .type double, @function
             double: slli a0, a0, 1; ret",
    ),
    (
        "a link by auipc, to what is behind",
        "mv s5, ra; .option norvc; auipc ra, 0; addi ra, ra, 12; j double; .option rvc
             addi a0, a0, 1; mv ra, s5; ret
             .type double, @function
             double: slli a0, a0, 1; ret",
    ),
    (
        "a link by la, for a call by address",
        "mv s5, ra; la t1, pointers; ld t1, 0(t1); la ra, 1f; jr t1
             1: addi a0, a0, 1; mv ra, s5; ret
             .type double, @function
             double: slli a0, a0, 1; ret
             .data
             .balign 8
             pointers: .dword double",
    ),
    ("a return to a place by la", "mv s5, ra; la ra, 1f; ret; nop; 1: addi a0, a0, 1; mv ra, s5; ret"),
    (
        "returns through a pointer in data",
        "mv s5, ra; la t0, place; ld ra, 0(t0); ret
             nop
             1: addi a0, a0, 1; mv ra, s5; ret
             .data
             .balign 8
             place: .dword 1b",
    ),
    (
        "returns through a pointer that is set",
        "mv s5, ra; la t0, place; la t1, 1f; sd t1, 0(t0); beqz a0, 2f; addi a0, a0, 1
             2: la t0, place; ld ra, 0(t0); ret
             nop
             1: addi a0, a0, 1; mv ra, s5; ret
             .data
             .balign 8
             place: .dword 0",
    ),
];

/// Checks that everything is native, in all versions and tiers. In version 0 a jump through its own link
/// register goes elsewhere.
#[track_caller]
fn check_native(name: &str, elf: &[u8]) {
    for version in 1..3 {
        // Also without fusions.
        for isa in [script(version).isa, Isa(script(version).isa.0 & !Isa::MOP.0)] {
            let options = CompileOptions { isa, ..script(version) };
            let equal = check(name, elf, &[], options).unwrap();
            assert_eq!(
                (equal.restarted, equal.native_cycles),
                (None, equal.cycles),
                "{name}, version {version}, isa {}: {}",
                options.isa,
                equal.outcome
            );
        }
    }
}

#[test]
fn computed_jumps_into_code_are_native() {
    for (name, text, table) in WAYS {
        check_native(name, &guests::assemble(&format!("{DRIVER}{text}{table}")).unwrap());
    }
}

#[test]
fn links_made_by_hand_are_native() {
    for (name, text) in LINKS {
        check_native(name, &guests::assemble(&format!("{DRIVER}{text}")).unwrap());
    }
}

/// Stores to the stack and to data, a hundred times; `data` may be below `code`.
fn stores(code: u64, data: Option<u64>) -> Vec<u8> {
    let place = data.unwrap_or(code);
    let add = |rd, rs1, number| encode::i(0x13, 0, rd, rs1, number);
    let mut words = vec![add(2, 2, -64), add(9, 0, 100), encode::u(0x37, 18, place as u32)];
    let again = words.len();
    words.extend([encode::s(3, 2, 9, 8), encode::i(3, 3, 10, 2, 8), encode::r(0x33, 0, 0, 11, 11, 10)]);
    if data.is_some() {
        words.extend([encode::s(3, 18, 11, 16), encode::i(3, 3, 11, 18, 16)]);
    }
    words.push(add(9, 9, -1));
    words.extend(encode::b(1, 9, 0, 4 * (again as i64 - words.len() as i64)));
    words.extend([encode::i(0x13, 7, 10, 11, 63), add(17, 0, 93), 0x73]);
    let mut segments = vec![Segment::whole(code, 5, elf::code(&words))];
    segments.extend(data.map(|address| Segment { address, flags: 6, bytes: vec![7; 8], memory_bytes: 4096 }));
    segments.sort_by_key(|segment| segment.address);
    elf::file(code, segments)
}

/// Code at any address: stores to data and to the stack are native.
#[test]
fn code_anywhere_in_memory_stores_natively() {
    let places = [
        (0x1_0000, None),
        (0x20_0000, None),
        (0x21_0000, None),
        (0x3c_0000, None),
        (0x21_0000, Some(0x22_0000)),
        (0x21_0000, Some(0x1_0000)),
        (0x3c_0000, Some(0x10_0000)),
        (0x1_1000, Some(0x1_0000)),
    ];
    for (code, data) in places {
        check_native(&format!("code at {code:#x}, data at {data:x?}"), &stores(code, data));
    }
}

/// A store to the program's own code ends the script, even if stores are checked against all of memory.
#[test]
fn code_above_its_data_is_not_written() {
    let mut elf = stores(0x21_0000, Some(0x1_0000));
    // Replace the address of the data by that of the code.
    let from = encode::u(0x37, 18, 0x1_0000).to_le_bytes();
    let to = encode::u(0x37, 18, 0x21_0000).to_le_bytes();
    let at = elf.windows(4).position(|bytes| bytes == from).unwrap();
    elf[at..at + 4].copy_from_slice(&to);
    for version in 0..3 {
        let equal = check("a store to code", &elf, &[], script(version)).unwrap();
        assert_eq!((equal.restarted.is_some(), equal.native_cycles), (true, 0), "{}", equal.outcome);
    }
}
