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

/// Why a row is refused: `foreign` is no instruction, or a form that generators do not use.
fn why(fault: CodeFault) -> &'static str {
    match fault {
        CodeFault::Invalid | CodeFault::Instruction(_) | CodeFault::Prefix | CodeFault::Operand => "foreign",
        CodeFault::Memory => "memory",
        CodeFault::Constant { .. } => "constant",
        CodeFault::StackPointer => "stack pointer",
        CodeFault::Target { .. } => "target",
        CodeFault::Computed => "computed",
        CodeFault::End => "end",
    }
}

/// An attack.
struct Row {
    name: String,
    code: Vec<u8>,
    why: &'static str,
}

/// Attacks, or their twins.
#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn add(&mut self, why: &'static str, name: impl Into<String>, code: &[&[u8]]) {
        self.0.push(Row { name: name.into(), code: code.concat(), why });
    }

    /// Adds rows of a name and hexadecimal digits.
    fn add_all(&mut self, why: &'static str, rows: &str) {
        for (name, digits) in rows.split("; ").map(|row| row.split_once(": ").unwrap()) {
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            self.add(why, name, &[&(0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>()]);
        }
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
    let others = "syscall: 0f05; sysenter: 0f34; sysret: 0f07; sysexit: 0f35; int 0x80: cd80; \
                  int 0x2e: cd2e; int1: f1; vmcall: 0f01c1; vmmcall: 0f01d9; vmfunc: 0f01d4; \
                  wrpkru: 0f01ef; rdpkru: 0f01ee; xrstor: 0fae28; xsave: 0fae20; xgetbv: 0f01d0; \
                  fxrstor: 0fae08; ldmxcsr: 0fae10; wrfsbase: f3480faed0; wrgsbase: f3480faed8; \
                  rdfsbase: f3480faec0; swapgs: 0f01f8; rdtsc: 0f31; rdtscp: 0f01f9; rdpmc: 0f33; \
                  cpuid: 0fa2; rdrand: 480fc7f0; rdseed: 480fc7f8; rdpid: f30fc7f8; hlt: f4; \
                  in al, dx: ec; out dx, al: ee; insb: 6c; outsb: 6e; cli: fa; sti: fb; std: fd; \
                  popf: 9d; pushf: 9c; call far: ff18; jmp far: ff28; retf: cb; iretq: 48cf; \
                  ret 8: c20800; mov ss, eax: 8ed0; pop fs: 0fa1; mov rax, cr0: 0f20c0; \
                  mov dr7, rax: 0f23f8; rep movsb: f3a4; rep stosq: f348ab; lock add: f00100; \
                  xbegin: c7f800000000; xend: 0f01d5; clflush: 0fae38; prefetchw: 0f0d08; \
                  monitor: 0f01c8; enter: c8100000; x87: d900; AVX-512: 62f17c4828c0; \
                  gather: c4e275900408; no instruction: 06";
    table.add_all("foreign", others);
}

/// Jumps into the middle of an instruction.
fn hidden(table: &mut Table) {
    for condition in 0..16 {
        let short = [0x70 | condition, 2];
        let long = [0x0f, 0x80 | condition, 2, 0, 0, 0];
        table.add("target", format!("condition {condition}, 8 bits, into a number"), &[&short, &HIDDEN]);
        table.add("target", format!("condition {condition}, 32 bits, into a number"), &[&long, &HIDDEN]);
    }
    table.add("target", "jmp, 8 bits, into a number", &[&[0xeb, 2], &HIDDEN]);
    table.add("target", "jmp, 32 bits, into a number", &[&[0xe9, 2, 0, 0, 0], &HIDDEN]);
    table.add("target", "call into a number", &[&[0xe8, 2, 0, 0, 0], &HIDDEN]);
    table.add_all(
        "target",
        "jmp into itself: ebff; jmp far behind the library: e900000010; \
         jmp far before it: e9000000f0; call far before it: e8000000f0",
    );
    for register in REGISTERS {
        let push: &[u8] = if register < 8 { &[0x50 + register] } else { &[0x41, 0x50 + (register & 7)] };
        let distance = u8::try_from(push.len()).unwrap() + 1 + 2;
        let code: [&[u8]; 4] = [&lea(register, distance), push, &[RET], &HIDDEN];
        table.add("target", format!("return to a number's address in register {register}"), &code);
    }
    for condition in 0..16 {
        let code = [0x66, 0x0f, 0x80 | condition, 0, 0, 0, 0];
        table.add("foreign", format!("condition {condition} with an operand size"), &[&code]);
    }
    // Intel and AMD decode this prefix of near branches differently.
    table.add_all(
        "foreign",
        "jmp with an operand size: 66e900000000; jmp, 8 bits, with an operand size: 66eb00; \
         condition, 8 bits, with an operand size: 667400; \
         jmp to register 0 with an operand size: 66ffe0; \
         call with an operand size: 66e800000000; ret with an operand size: 66c3; jrcxz: e300; \
         loop: e200",
    );
}

/// Indirect branches to unchecked targets.
fn computed(table: &mut Table) {
    for register in REGISTERS {
        let prefix: &[u8] = if register < 8 { &[] } else { &[0x41] };
        let low = register & 7;
        let name = |what: &str| format!("{what} register {register}");
        table.add("computed", name("jmp to"), &[prefix, &[0xff, 0xe0 | low]]);
        table.add("computed", name("call to"), &[prefix, &[0xff, 0xd0 | low]]);
        // r12 needs a byte for a missing index.
        let none: &[u8] = if low == 4 { &[0x24] } else { &[] };
        table.add("computed", name("jmp to what stands at"), &[prefix, &[0xff, 0x60 | low], none, &[8]]);
        table.add("computed", name("call to what stands at"), &[prefix, &[0xff, 0x50 | low], none, &[8]]);
    }
}

/// Accesses to memory outside of the script's.
fn memory(table: &mut Table) {
    for (segment, name) in [(0x64, "fs"), (0x65, "gs")] {
        table.add("memory", format!("load by {name}"), &[&[segment, 0x48, 0x8b, 0x00]]);
        table.add("memory", format!("store by {name}"), &[&[segment, 0x48, 0x89, 0x00]]);
    }
    for register in REGISTERS {
        let code = [rex(register, 0), 0x8b, operand(0, register, 4), 0x25, 0, 0, 0, 0];
        table.add("memory", format!("load of a number's place to register {register}"), &[&code]);
        let place = u32::try_from(HOST_TABLE_OFFSET).unwrap().to_le_bytes();
        // Not r12, which is encoded differently.
        if register & 7 != 4 {
            let head = [rex(0, register), 0x89, operand(2, 0, register)];
            let name = format!("store to the host's page by register {register}");
            table.add("memory", name, &[&head, &place]);
        }
    }
    for field in (0..size_of::<HostTable>()).step_by(8).skip(1) {
        let place = u32::try_from(HOST_TABLE_OFFSET + field).unwrap().to_le_bytes();
        let name = format!("store to the host's page at {field}");
        table.add("memory", name, &[&[0x48, 0x89, 0x88], &place]);
    }
    let trap = [0x67, 0x0f, 0xb9, 0x80, 0x83, 0, 0, 0];
    table.add("memory", "a trap whose number is in four bytes, which are not read", &[&trap]);
    table.add_all(
        "memory",
        "by 32 bits of an address: 678b00; stack by an index: 488b0404; \
         far above the stack: 488b842400002000; far below the stack: 488984240000ffff; \
         an index without a base: 488b040d00000000",
    );
    table.add_all("constant", "store into the library: 48890500ffffff; load of code: 488b0500000000");
}

/// Changes of the stack pointer.
fn stacks(table: &mut Table) {
    for register in REGISTERS {
        let mov = [rex(register, 4), 0x89, operand(3, register, 4)];
        let add = [rex(register, 4), 0x01, operand(3, register, 4)];
        table.add("stack pointer", format!("mov rsp, register {register}"), &[&mov]);
        table.add("stack pointer", format!("add rsp, register {register}"), &[&add]);
    }
    table.add_all(
        "stack pointer",
        "pop rsp: 5c; sub rsp, 2 MiB: 4881ec00002000; and rsp, -32: 4883e4e0; inc rsp: 48ffc4",
    );
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
                Err(CodeError::Code { fault, .. }) if why(fault) == row.why => {}
                other => wrong.push(format!("{} {:02x?}: {}, {other:?}", row.name, row.code, row.why)),
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
