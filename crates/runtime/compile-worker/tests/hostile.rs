//! Malicious libraries: each row of the table is a named attack, written after the code of a valid library.
//! The check refuses each for the reason in its row. Harmless twins of the attacks pass.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

#[path = "library/sample.rs"]
mod library;

use std::collections::BTreeSet;

use antares_abi::{HOST_TABLE_OFFSET, HostTable};
use antares_codecheck::{CodeError, CodeFault, check};

use library::{libraries, patched};

/// Minimum number of rows.
const ROWS_MIN: usize = 200;
/// Numbers of the general registers except rsp.
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// `syscall; ret` within `mov rax, number`, two bytes after its start.
const HIDDEN: [u8; 10] = [0x48, 0xb8, 0x0f, 0x05, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];
const RET: u8 = 0xc3;

/// Why a row is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// No instruction, or a form that generators do not use.
    Foreign,
    Memory,
    Constant,
    StackPointer,
    Target,
    Computed,
}

impl Why {
    fn of(fault: CodeFault) -> Option<Self> {
        Some(match fault {
            CodeFault::Invalid | CodeFault::Instruction(_) | CodeFault::Prefix | CodeFault::Operand => {
                Self::Foreign
            }
            CodeFault::Memory => Self::Memory,
            CodeFault::Constant { .. } => Self::Constant,
            CodeFault::StackPointer => Self::StackPointer,
            CodeFault::Target { .. } => Self::Target,
            CodeFault::Computed => Self::Computed,
            CodeFault::End => return None,
        })
    }
}

/// An attack.
struct Row {
    name: String,
    code: Vec<u8>,
    why: Why,
}

/// Attacks, or their twins.
#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn add(&mut self, why: Why, name: impl Into<String>, code: &[&[u8]]) {
        self.0.push(Row { name: name.into(), code: code.concat(), why });
    }
}

/// REX prefix with W, and the high bits of register `reg` and base `rm`.
fn rex(reg: u8, rm: u8) -> u8 {
    0x48 | (reg >> 3) << 2 | rm >> 3
}

/// Mod and registers of an operand.
fn operand(mode: u8, reg: u8, rm: u8) -> u8 {
    mode << 6 | (reg & 7) << 3 | rm & 7
}

/// `lea register, [rip + distance]`.
fn lea(register: u8, distance: u8) -> [u8; 7] {
    [rex(register, 0), 0x8d, operand(0, register, 5), distance, 0, 0, 0]
}

/// Instructions that reach the kernel, the machine, or data that a worker must not know.
fn foreign(table: &mut Table) {
    let others: [(&str, &[u8]); 60] = [
        ("syscall", &[0x0f, 0x05]),
        ("sysenter", &[0x0f, 0x34]),
        ("sysret", &[0x0f, 0x07]),
        ("sysexit", &[0x0f, 0x35]),
        ("int 0x80", &[0xcd, 0x80]),
        ("int 0x2e", &[0xcd, 0x2e]),
        ("int1", &[0xf1]),
        ("vmcall", &[0x0f, 0x01, 0xc1]),
        ("vmmcall", &[0x0f, 0x01, 0xd9]),
        ("vmfunc", &[0x0f, 0x01, 0xd4]),
        ("wrpkru", &[0x0f, 0x01, 0xef]),
        ("rdpkru", &[0x0f, 0x01, 0xee]),
        ("xrstor", &[0x0f, 0xae, 0x28]),
        ("xsave", &[0x0f, 0xae, 0x20]),
        ("xgetbv", &[0x0f, 0x01, 0xd0]),
        ("fxrstor", &[0x0f, 0xae, 0x08]),
        ("ldmxcsr", &[0x0f, 0xae, 0x10]),
        ("wrfsbase", &[0xf3, 0x48, 0x0f, 0xae, 0xd0]),
        ("wrgsbase", &[0xf3, 0x48, 0x0f, 0xae, 0xd8]),
        ("rdfsbase", &[0xf3, 0x48, 0x0f, 0xae, 0xc0]),
        ("swapgs", &[0x0f, 0x01, 0xf8]),
        ("rdtsc", &[0x0f, 0x31]),
        ("rdtscp", &[0x0f, 0x01, 0xf9]),
        ("rdpmc", &[0x0f, 0x33]),
        ("cpuid", &[0x0f, 0xa2]),
        ("rdrand", &[0x48, 0x0f, 0xc7, 0xf0]),
        ("rdseed", &[0x48, 0x0f, 0xc7, 0xf8]),
        ("rdpid", &[0xf3, 0x0f, 0xc7, 0xf8]),
        ("hlt", &[0xf4]),
        ("in al, dx", &[0xec]),
        ("out dx, al", &[0xee]),
        ("insb", &[0x6c]),
        ("outsb", &[0x6e]),
        ("cli", &[0xfa]),
        ("sti", &[0xfb]),
        ("std", &[0xfd]),
        ("popf", &[0x9d]),
        ("pushf", &[0x9c]),
        ("call far", &[0xff, 0x18]),
        ("jmp far", &[0xff, 0x28]),
        ("retf", &[0xcb]),
        ("iretq", &[0x48, 0xcf]),
        ("ret 8", &[0xc2, 0x08, 0x00]),
        ("mov ss, eax", &[0x8e, 0xd0]),
        ("pop fs", &[0x0f, 0xa1]),
        ("mov rax, cr0", &[0x0f, 0x20, 0xc0]),
        ("mov dr7, rax", &[0x0f, 0x23, 0xf8]),
        ("rep movsb", &[0xf3, 0xa4]),
        ("rep stosq", &[0xf3, 0x48, 0xab]),
        ("lock add", &[0xf0, 0x01, 0x00]),
        ("xbegin", &[0xc7, 0xf8, 0, 0, 0, 0]),
        ("xend", &[0x0f, 0x01, 0xd5]),
        ("clflush", &[0x0f, 0xae, 0x38]),
        ("prefetchw", &[0x0f, 0x0d, 0x08]),
        ("monitor", &[0x0f, 0x01, 0xc8]),
        ("enter", &[0xc8, 0x10, 0x00, 0x00]),
        ("x87", &[0xd9, 0x00]),
        ("AVX-512", &[0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc0]),
        ("gather", &[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x08]),
        ("no instruction", &[0x06]),
    ];
    for (name, bytes) in others {
        table.add(Why::Foreign, name, &[bytes]);
    }
}

/// Jumps into the middle of an instruction.
fn hidden(table: &mut Table) {
    for condition in 0..16 {
        let short = [0x70 | condition, 2];
        let long = [0x0f, 0x80 | condition, 2, 0, 0, 0];
        table.add(Why::Target, format!("condition {condition}, 8 bits, into a number"), &[&short, &HIDDEN]);
        table.add(Why::Target, format!("condition {condition}, 32 bits, into a number"), &[&long, &HIDDEN]);
    }
    table.add(Why::Target, "jmp, 8 bits, into a number", &[&[0xeb, 2], &HIDDEN]);
    table.add(Why::Target, "jmp, 32 bits, into a number", &[&[0xe9, 2, 0, 0, 0], &HIDDEN]);
    table.add(Why::Target, "call into a number", &[&[0xe8, 2, 0, 0, 0], &HIDDEN]);
    table.add(Why::Target, "jmp into itself", &[&[0xeb, 0xff]]);
    table.add(Why::Target, "jmp far behind the library", &[&[0xe9, 0, 0, 0, 0x10]]);
    table.add(Why::Target, "jmp far before it", &[&[0xe9, 0, 0, 0, 0xf0]]);
    table.add(Why::Target, "call far before it", &[&[0xe8, 0, 0, 0, 0xf0]]);
    for register in REGISTERS {
        let push: &[u8] = if register < 8 { &[0x50 + register] } else { &[0x41, 0x50 + (register & 7)] };
        let distance = u8::try_from(push.len()).unwrap() + 1 + 2;
        let code: [&[u8]; 4] = [&lea(register, distance), push, &[RET], &HIDDEN];
        table.add(Why::Target, format!("return to a number's address in register {register}"), &code);
    }
    for condition in 0..16 {
        let code = [0x66, 0x0f, 0x80 | condition, 0, 0, 0, 0];
        table.add(Why::Foreign, format!("condition {condition} with an operand size"), &[&code]);
    }
    // Intel and AMD decode this prefix of near branches differently.
    table.add(Why::Foreign, "jmp with an operand size", &[&[0x66, 0xe9, 0, 0, 0, 0]]);
    table.add(Why::Foreign, "jmp, 8 bits, with an operand size", &[&[0x66, 0xeb, 0]]);
    table.add(Why::Foreign, "condition, 8 bits, with an operand size", &[&[0x66, 0x74, 0]]);
    table.add(Why::Foreign, "jmp to register 0 with an operand size", &[&[0x66, 0xff, 0xe0]]);
    table.add(Why::Foreign, "call with an operand size", &[&[0x66, 0xe8, 0, 0, 0, 0]]);
    table.add(Why::Foreign, "ret with an operand size", &[&[0x66, RET]]);
    table.add(Why::Foreign, "jrcxz", &[&[0xe3, 0]]);
    table.add(Why::Foreign, "loop", &[&[0xe2, 0]]);
}

/// Indirect branches to unchecked targets.
fn computed(table: &mut Table) {
    for register in REGISTERS {
        let prefix: &[u8] = if register < 8 { &[] } else { &[0x41] };
        let low = register & 7;
        let name = |what: &str| format!("{what} register {register}");
        table.add(Why::Computed, name("jmp to"), &[prefix, &[0xff, 0xe0 | low]]);
        table.add(Why::Computed, name("call to"), &[prefix, &[0xff, 0xd0 | low]]);
        // r12 needs a byte for a missing index.
        let none: &[u8] = if low == 4 { &[0x24] } else { &[] };
        table.add(Why::Computed, name("jmp to what stands at"), &[prefix, &[0xff, 0x60 | low], none, &[8]]);
        table.add(Why::Computed, name("call to what stands at"), &[prefix, &[0xff, 0x50 | low], none, &[8]]);
    }
}

/// Accesses to memory outside of the script's.
fn memory(table: &mut Table) {
    for (segment, name) in [(0x64, "fs"), (0x65, "gs")] {
        table.add(Why::Memory, format!("load by {name}"), &[&[segment, 0x48, 0x8b, 0x00]]);
        table.add(Why::Memory, format!("store by {name}"), &[&[segment, 0x48, 0x89, 0x00]]);
    }
    for register in REGISTERS {
        let code = [rex(register, 0), 0x8b, operand(0, register, 4), 0x25, 0, 0, 0, 0];
        table.add(Why::Memory, format!("load of a number's place to register {register}"), &[&code]);
        let place = u32::try_from(HOST_TABLE_OFFSET).unwrap().to_le_bytes();
        // Not r12, which is encoded differently.
        if register & 7 != 4 {
            let head = [rex(0, register), 0x89, operand(2, 0, register)];
            let name = format!("store to the host's page by register {register}");
            table.add(Why::Memory, name, &[&head, &place]);
        }
    }
    for field in (0..size_of::<HostTable>()).step_by(8).skip(1) {
        let place = u32::try_from(HOST_TABLE_OFFSET + field).unwrap().to_le_bytes();
        let name = format!("store to the host's page at {field}");
        table.add(Why::Memory, name, &[&[0x48, 0x89, 0x88], &place]);
    }
    let trap = [0x67, 0x0f, 0xb9, 0x80, 0x83, 0, 0, 0];
    table.add(Why::Memory, "a trap whose number is in four bytes, which are not read", &[&trap]);
    table.add(Why::Memory, "by 32 bits of an address", &[&[0x67, 0x8b, 0x00]]);
    table.add(Why::Memory, "stack by an index", &[&[0x48, 0x8b, 0x04, 0x04]]);
    table.add(Why::Memory, "far above the stack", &[&[0x48, 0x8b, 0x84, 0x24, 0, 0, 0x20, 0]]);
    table.add(Why::Memory, "far below the stack", &[&[0x48, 0x89, 0x84, 0x24, 0, 0, 0xff, 0xff]]);
    table.add(Why::Memory, "an index without a base", &[&[0x48, 0x8b, 0x04, 0x0d, 0, 0, 0, 0]]);
    table.add(Why::Constant, "store into the library", &[&[0x48, 0x89, 0x05, 0, 0xff, 0xff, 0xff]]);
    table.add(Why::Constant, "load of code", &[&[0x48, 0x8b, 0x05, 0, 0, 0, 0]]);
}

/// Changes of the stack pointer.
fn stacks(table: &mut Table) {
    for register in REGISTERS {
        let mov = [rex(register, 4), 0x89, operand(3, register, 4)];
        let add = [rex(register, 4), 0x01, operand(3, register, 4)];
        table.add(Why::StackPointer, format!("mov rsp, register {register}"), &[&mov]);
        table.add(Why::StackPointer, format!("add rsp, register {register}"), &[&add]);
    }
    table.add(Why::StackPointer, "pop rsp", &[&[0x5c]]);
    table.add(Why::StackPointer, "sub rsp, 2 MiB", &[&[0x48, 0x81, 0xec, 0, 0, 0x20, 0]]);
    table.add(Why::StackPointer, "and rsp, -32", &[&[0x48, 0x83, 0xe4, 0xe0]]);
    table.add(Why::StackPointer, "inc rsp", &[&[0x48, 0xff, 0xc4]]);
}

fn attacks() -> Vec<Row> {
    let mut table = Table::default();
    [foreign, hidden, computed, memory, stacks].iter().for_each(|add| add(&mut table));
    table.0
}

/// Valid code that resembles the attacks.
fn twins() -> Vec<(String, Vec<u8>)> {
    let mut twins = Vec::new();
    for condition in 0..16 {
        twins.push((
            format!("condition {condition} over a number"),
            [&[0x70 | condition, 10][..], &HIDDEN].concat(),
        ));
        let long = [0x0f, 0x80 | condition, 10, 0, 0, 0];
        twins.push((format!("condition {condition} over a number, long"), [&long[..], &HIDDEN].concat()));
    }
    for register in REGISTERS {
        twins.push((format!("address of the next in {register}"), [&lea(register, 0)[..], &HIDDEN].concat()));
        let mov = [rex(4, register), 0x89, operand(3, 4, register)];
        twins.push((format!("mov register {register}, rsp"), mov.to_vec()));
    }
    twins.push(("sub rsp, 16; add rsp, 16".to_owned(), vec![0x48, 0x83, 0xec, 16, 0x48, 0x83, 0xc4, 16]));
    twins.push(("mov ax, 1".to_owned(), vec![0x66, 0xb8, 1, 0]));
    twins.push(("load by a register".to_owned(), vec![0x48, 0x8b, 0x40, 8]));
    twins
}

#[test]
fn each_is_refused_for_its_own_reason() {
    let (libraries, rows) = (libraries(), attacks());
    let mut wrong = Vec::new();
    for row in &rows {
        for library in &libraries {
            match check(&patched(library, &row.code)) {
                Err(CodeError::Code { fault, .. }) if Why::of(fault) == Some(row.why) => {}
                other => wrong.push(format!("{} {:02x?}: {:?}, {other:?}", row.name, row.code, row.why)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (names, codes): (BTreeSet<_>, BTreeSet<_>) = rows.iter().map(|row| (&row.name, &row.code)).unzip();
    assert_eq!((names.len(), codes.len()), (rows.len(), rows.len()), "each is another attack");
    assert!(rows.len() >= ROWS_MIN, "{} rows", rows.len());
}

#[test]
fn their_twins_pass() {
    let libraries = libraries();
    let mut wrong = Vec::new();
    for (name, code) in twins() {
        for library in &libraries {
            if let Err(error) = check(&patched(library, &code)) {
                wrong.push(format!("{name} {code:02x?}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
