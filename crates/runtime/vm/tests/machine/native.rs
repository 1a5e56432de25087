//! Native code that reaches its end: exits, debug output, limits, and the choice of the tier.

use antares_vm::{BailoutReason, Limits, Machine, Outcome, RunScript, Tier, VmError};
use bytes::Bytes;

use crate::{
    guests::{guest, library, library_bytes, load},
    oracle::{ROOMY, compare, request, script},
};

/// A guest that exits with -7 after 502 cycles, and the equivalent native code.
const EXIT: &str = "li a0, -7\n li a7, 93\n ecall";
const EXIT_NATIVE: &str = "set 10, -7\n set 17, 93\n ecall_at 0x11008, 502";

/// A guest that prints "hi" twice (one cycle each) and exits with 3 after 1515 cycles, and the equivalent
/// native code.
pub(crate) const PRINT: &str = "
    lui a0, 0x100
    li t0, 104
    sb t0, 0(a0)
    li t0, 105
    sb t0, 1(a0)
    li a7, 2000
    addi a7, a7, 177
    ecall
    ecall
    li a7, 93
    li a0, 3
    ecall";
pub(crate) const PRINT_NATIVE: &str = "
    mov byte ptr [rbx + 0x100000], 104
    mov byte ptr [rbx + 0x100001], 105
    set 10, 0x100000
    set 17, 2177
    ecall_at 0x1101c, 511
    ecall_at 0x11020, 500
    set 17, 93
    set 10, 3
    ecall_at 0x1102c, 502";

/// Runs `source` natively as `code`, twice on one machine, and compares with the oracle.
#[track_caller]
fn check(source: &str, code: &str) {
    let (elf, library) = (guest(source), library(code));
    let oracle = request(&script(&elf), ROOMY.cycles_max);
    let mut machine = Machine::new().unwrap();
    for tier in [Tier::Auto, Tier::Native] {
        let report = machine.run(&script(&elf), &ROOMY, tier, Some(&library)).unwrap();
        assert_eq!(report.restarted, None);
        assert_eq!((report.native_cycles, report.interpreted_cycles), (report.cycles, 0));
        compare(&oracle, &machine, &report);
    }
}

#[test]
fn native_code_ends_as_its_guest_even_if_it_clobbers_everything() {
    check(PRINT, PRINT_NATIVE);
    let garbage = "
        set 10, -7
        set 17, 93
        mov qword ptr [rbx + PC], 0x11008
        sub qword ptr [rbx + CYCLES_LEFT], 502
        mov rdi, rbx
        mov rbp, 1\n mov r12, 2\n mov r13, 3\n mov r14, 4\n mov r15, 5
        call qword ptr [rbx + ECALL]";
    check(EXIT, garbage);
}

#[test]
fn an_ecall_needs_no_native_stack() {
    const STACK: usize = 64 << 10;
    // All but 64 bytes of the stack are in use; the call takes 8 of them.
    let code = format!("sub rsp, {STACK} - 24 - 64\n push rax\n {PRINT_NATIVE}");
    let (elf, library) = (guest(PRINT), library(&code));
    let mut machine = Machine::with_native_stack(STACK).unwrap();
    let report = machine.run(&script(&elf), &ROOMY, Tier::Native, Some(&library)).unwrap();
    assert_eq!(report.restarted, None);
    compare(&request(&script(&elf), ROOMY.cycles_max), &machine, &report);
}

#[test]
fn endless_ecalls_end_at_the_cycle_limit() {
    let elf = guest("lui a0, 0x200\n li a7, 2000\n addi a7, a7, 177\n 1: ecall\n j 1b");
    let code = "set 10, 0x200000\n set 17, 2177\n sub qword ptr [rbx + CYCLES_LEFT], 3
                1: ecall_at 0x1100c, 500\n sub qword ptr [rbx + CYCLES_LEFT], 3\n jmp 1b";
    let (library, limits) = (library(code), Limits { debug_bytes_max: 1000, cycles_max: 1_000_000 });
    let mut machine = Machine::new().unwrap();
    let native = machine.run(&script(&elf), &limits, Tier::Native, Some(&library)).unwrap();
    let interpreted = machine.run(&script(&elf), &limits, Tier::Interpreter, None).unwrap();
    assert_eq!((&native.outcome, native.cycles), (&Outcome::CyclesExceeded, interpreted.cycles));
    assert_eq!((native.outcome, &native.debug), (interpreted.outcome, &interpreted.debug));
    assert_eq!(native.debug.count(), 1000);
}

#[test]
fn the_tier_follows_library_and_script() {
    let (elf, library) = (guest(EXIT), library(EXIT_NATIVE));
    let mut machine = Machine::new().unwrap();
    let mut run = |vm_version, isa, tier, library| {
        let script = RunScript { elf: &elf, args: &[], vm_version, isa };
        machine
            .run(&script, &ROOMY, tier, library)
            .map(|report| (report.native_cycles, report.interpreted_cycles))
    };
    assert_eq!(run(2, 3, Tier::Auto, Some(&library)).unwrap(), (502, 0));
    assert_eq!(run(2, 3, Tier::Interpreter, Some(&library)).unwrap(), (0, 502));
    assert_eq!(run(2, 3, Tier::Auto, None).unwrap(), (0, 502));
    assert_eq!(run(1, 3, Tier::Auto, Some(&library)).unwrap(), (0, 502));
    assert_eq!(run(2, 1, Tier::Auto, Some(&library)).unwrap(), (0, 502));
    assert!(matches!(run(2, 3, Tier::Native, None), Err(VmError::NoLibrary)));
    let mismatch = run(1, 3, Tier::Native, Some(&library));
    assert!(matches!(mismatch, Err(VmError::LibraryMismatch { library_version: 2, vm_version: 1, .. })));
}

#[test]
fn an_entry_without_native_code_is_interpreted() {
    let mut bytes = guest("nop\n nop\n li a0, 1\n li a7, 93\n ecall").to_vec();
    let library = library(EXIT_NATIVE);
    let mut machine = Machine::new().unwrap();
    // After the table, odd, before the table, beyond memory.
    for entry in [0x11002, 0x11001, 0x10ffe, u64::MAX] {
        bytes[24..32].copy_from_slice(&u64::to_le_bytes(entry));
        let elf = Bytes::from(bytes.clone());
        let report = machine.run(&script(&elf), &ROOMY, Tier::Native, Some(&library)).unwrap();
        assert_eq!(report.restarted, Some(BailoutReason::UnknownTarget));
        compare(&request(&script(&elf), ROOMY.cycles_max), &machine, &report);
    }
}

#[test]
fn a_directory_that_names_a_group_outside_the_table_leads_nowhere() {
    let library = load(&library_bytes(&[("{table_length}", "16")], EXIT_NATIVE)).unwrap();
    let elf = guest(EXIT);
    let report = Machine::new().unwrap().run(&script(&elf), &ROOMY, Tier::Native, Some(&library)).unwrap();
    assert_eq!(report.restarted, Some(BailoutReason::UnknownTarget));
}

#[test]
fn a_cycle_limit_beyond_i64_is_none() {
    let (elf, library) = (guest(EXIT), library(EXIT_NATIVE));
    let limits = Limits { cycles_max: u64::MAX, ..ROOMY };
    let report = Machine::new().unwrap().run(&script(&elf), &limits, Tier::Native, Some(&library)).unwrap();
    assert_eq!((report.outcome, report.native_cycles), (Outcome::Exit(-7), 502));
}

#[test]
fn a_machine_moves_between_threads() {
    let (elf, library) = (guest(EXIT), library("trap 4"));
    let mut machine = Machine::new().unwrap();
    let run = move || machine.run(&script(&elf), &ROOMY, Tier::Native, Some(&library)).unwrap();
    let report = std::thread::spawn(run).join().unwrap();
    assert_eq!((report.outcome, report.restarted), (Outcome::Exit(-7), Some(BailoutReason::Unsupported)));
}
