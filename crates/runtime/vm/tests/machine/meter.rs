//! The host's meter, called like generated code does: with any two registers, and with any free space on the
//! native stack.

use antares_vm::{BailoutReason, Limits, Machine, Outcome, Report, Tier};

use crate::{
    guests::{guest, library},
    oracle::{ROOMY, compare, request, script},
};

const REGISTERS: [&str; 15] =
    ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// The guest exits with 0 after 502 cycles.
const EXIT: &str = "li a0, 0\n li a7, 93\n ecall";
const EXIT_NATIVE: &str = "set 17, 93\n ecall_at 0x11008, 502";

#[track_caller]
fn run(code: &str, stack: usize, limits: &Limits) -> Report {
    let (elf, library) = (guest(EXIT), library(code));
    let mut machine = Machine::with_native_stack(stack).unwrap();
    let report = machine.run(&script(&elf), limits, Tier::Native, Some(&library)).unwrap();
    if report.restarted.is_some() {
        compare(&request(&script(&elf), limits.cycles_max), &machine, &report);
    }
    report
}

/// Uses up all cycles with base in one register and the remaining cycles in another, then searches for a
/// changed register.
fn look(base: &str, left: &str) -> String {
    let others = || REGISTERS.iter().enumerate().filter(|(_, name)| **name != base && **name != left);
    let set: String = others().map(|(number, name)| format!("mov {name}, {}\n", 1000 + number)).collect();
    let compare: String =
        others().map(|(number, name)| format!("cmp {name}, {}\n jne changed\n", 1000 + number)).collect();
    format!(
        "push rbx\n mov {base}, rbx\n mov {left}, -1\n {set}
        call qword ptr [{base} + METER]
        {{disp32}} nop dword ptr [{base} + {left}*1 + 0x11000]
        {compare}
        cmp {base}, [rsp]\n jne changed
        test {left}, {left}\n js changed
        mov [{base} + CYCLES_LEFT], {left}
        pop rbx\n"
    )
}

#[test]
fn any_two_registers_hold_base_and_cycles() {
    let pairs = REGISTERS.iter().flat_map(|base| REGISTERS.map(|left| (*base, left)));
    let looks: String =
        pairs.filter(|(base, left)| base != left).map(|(base, left)| look(base, left)).collect();
    let code = format!("{looks}\n set 10, 0\n jmp exit\n changed: pop rbx\n set 10, 1\n exit: {EXIT_NATIVE}");
    let report = run(&code, 64 << 10, &Limits { cycles_max: 1 << 40, ..ROOMY });
    assert_eq!((report.outcome, report.restarted), (Outcome::Exit(0), None));
    let looks = (REGISTERS.len() * (REGISTERS.len() - 1)) as u64;
    assert!(report.cycles > looks << 20, "a slice for each look");
}

#[test]
fn a_stack_that_is_full_is_left() {
    const STACK: usize = 64 << 10;
    for words in 0..=19 {
        // One word for the push here, one for the call, 16 for the meter.
        let code = format!(
            "sub rsp, {STACK} - 24 - 8 * {words}\n push rax\n mov rcx, -1
            call qword ptr [rbx + METER]
            {{disp32}} nop dword ptr [rbx + rcx*1 + 0x11000]
            mov [rbx + CYCLES_LEFT], rcx
            set 10, 0\n {EXIT_NATIVE}"
        );
        let report = run(&code, STACK, &ROOMY);
        let expected = (words < 18).then_some(BailoutReason::StackOverflow);
        assert_eq!(report.restarted, expected, "{words} words");
        assert_eq!(report.outcome, Outcome::Exit(0));
    }
}
