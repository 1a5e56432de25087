//! Native code that bails out: the reason is reported, and the interpreter alone determines the result.

use antares_vm::{BailoutReason, Limits, Machine, Outcome, Tier};

use crate::{
    guests::{guest, library},
    native::{PRINT, PRINT_NATIVE},
    oracle::{ROOMY, compare, request, script},
};

/// Runs a guest that prints and exits, with native code that ends as `code` does. Expects a restart for
/// `reason` whose result equals a run without native code.
#[track_caller]
fn check(code: &str, reason: BailoutReason) {
    let (elf, library) = (guest(PRINT), library(code));
    let oracle = request(&script(&elf), ROOMY.cycles_max);
    let mut machine = Machine::new().unwrap();
    for tier in [Tier::Auto, Tier::Native] {
        let report = machine.run(&script(&elf), &ROOMY, tier, Some(&library)).unwrap();
        assert_eq!(report.restarted, Some(reason));
        assert_eq!((report.native_cycles, report.interpreted_cycles), (0, report.cycles));
        compare(&oracle, &machine, &report);
    }
}

#[test]
fn each_wrong_end_has_its_reason() {
    use BailoutReason::*;
    for reason in [UnknownTarget, Unsupported, OutOfCycles, BadAddress, StackOverflow] {
        check(&format!("trap {}", reason as u64), reason);
    }
    for (code, reason) in [
        // A division that faults.
        ("xor ecx, ecx\n mov eax, 1\n cdq\n idiv ecx", Unsupported),
        ("ret", Returned),
        ("xor eax, eax\n mov ebx, eax\n mov rbp, rax\n mov r12, rax\n mov r13, rax\n ret", Returned),
        // Endless recursion.
        ("1: call 1b", StackOverflow),
        ("1: sub rsp, 4000\n mov qword ptr [rsp], rax\n jmp 1b", StackOverflow),
        // The guard after guest memory, and its end.
        ("mov qword ptr [rbx + 0x400000], rax", BadAddress),
        ("mov rax, qword ptr [rbx + 0x400000]", BadAddress),
        ("mov qword ptr [rbx + 0x400000 + GUARD - 8], rax", BadAddress),
        ("mov rax, qword ptr [rbx + 0x400000 + GUARD - 8]", BadAddress),
    ] {
        check(code, reason);
    }
}

#[test]
fn what_was_printed_and_written_before_is_forgotten() {
    let dirty = "
        mov rcx, 0x4141414141414141
        mov rdx, 0x3ffff8
        1: mov qword ptr [rbx + rdx], rcx
        sub rdx, 8
        cmp rdx, 0x100000
        jg 1b
        set 5, 77";
    let (print, _) = PRINT_NATIVE.rsplit_once("set 17").unwrap();
    check(&format!("{dirty}\n{print}\n trap 6"), BailoutReason::BadAddress);
}

#[test]
fn failed_syscalls_are_the_interpreter_s() {
    for (number, argument) in [(4242, 0), (2177, -1), (2177, 0x3f_ffff)] {
        let fill = "li t0, 0x3fffff\n li t1, 65\n sb t1, 0(t0)";
        let elf = guest(&format!("{fill}\n li a0, {argument}\n li a7, {number}\n ecall"));
        let code = format!(
            "mov byte ptr [rbx + 0x3fffff], 65\n set 10, {argument}\n set 17, {number}\n ecall_at 0x11010, 9"
        );
        let mut machine = Machine::new().unwrap();
        let report = machine.run(&script(&elf), &ROOMY, Tier::Native, Some(&library(&code))).unwrap();
        assert_eq!(report.restarted, Some(BailoutReason::Ecall));
        assert!(matches!(report.outcome, Outcome::Error { .. }));
        compare(&request(&script(&elf), ROOMY.cycles_max), &machine, &report);
    }
}

#[test]
fn passing_the_cycle_limit_is_the_interpreter_s() {
    let (elf, library) = (guest(PRINT), library(PRINT_NATIVE));
    let mut machine = Machine::new().unwrap();
    let all = request(&script(&elf), ROOMY.cycles_max).report.cycles;
    for cycles_max in (0..40).chain(500..530).chain(1000..1030).chain(all - 3..all) {
        let limits = Limits { cycles_max, ..ROOMY };
        let report = machine.run(&script(&elf), &limits, Tier::Native, Some(&library)).unwrap();
        assert_eq!(
            (&report.outcome, report.restarted),
            (&Outcome::CyclesExceeded, Some(BailoutReason::OutOfCycles))
        );
        compare(&request(&script(&elf), cycles_max), &machine, &report);
    }
    let limits = Limits { cycles_max: all, ..ROOMY };
    let report = machine.run(&script(&elf), &limits, Tier::Native, Some(&library)).unwrap();
    assert_eq!((report.outcome, report.restarted), (Outcome::Exit(3), None));
}
