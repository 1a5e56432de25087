//! Native code that does what no generator permits: its process ends, under a filter by a system call that
//! does not exist. Each case is a possible generator error: a missing check, a wrong base, a wrong target, a
//! store to host data.

use antares_abi::WILD_FAULT_CALL;
use antares_vm::{Library, Machine, Tier};
use bytes::Bytes;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use crate::{
    guests::{guest, library},
    native::PRINT,
    oracle::{ROOMY, script},
};

/// Addresses that every check rejects, for the cases below.
const NUMBERS: &str = "mov rcx, 0x8000000000000000\n mov rdx, 8\n mov rsi, -4096\n mov edi, 0xfffffff0";

/// The signal that ends a process running `library`, with or without a filter for the one call; 0 if the
/// process survives.
fn signal_of(elf: &Bytes, library: &Library, is_fenced: bool) -> i32 {
    // SAFETY: the child only runs and ends; glibc keeps its allocator consistent over a fork.
    match unsafe { libc::fork() } {
        0 => {
            if is_fenced {
                lock_in();
            }
            let mut machine = Machine::new().unwrap();
            let report = machine.run(&script(elf), &ROOMY, Tier::Native, Some(library));
            let ended = report.map_or(9, |report| i32::from(report.restarted.is_none()));
            // SAFETY: ends the child without clean-up.
            unsafe { libc::_exit(ended) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child that was just created.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 }
        }
    }
}

/// Kills the process for the one call.
fn lock_in() {
    let rules = [(i64::from(WILD_FAULT_CALL), vec![])].into();
    let (allow, kill) = (SeccompAction::Allow, SeccompAction::KillProcess);
    let filter = SeccompFilter::new(rules, allow, kill, TargetArch::x86_64).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

#[track_caller]
fn assert_wild(code: &str, alone: i32) {
    let (elf, library) = (guest(PRINT), library(&format!("{NUMBERS}\n {code}")));
    assert_eq!(signal_of(&elf, &library, true), libc::SIGSYS, "{code}");
    assert_eq!(signal_of(&elf, &library, false), alone, "{code}, without a fence");
}

#[test]
fn accesses_beyond_the_guards() {
    let addresses = [
        "rbx + STATE + 0x2000", // past everything mapped
        "rbx + rdi",            // as far as 32 bits reach
        "rbx - 0x7fff0000",     // below all that is there
        "rcx",                  // not canonical
        "rdx",                  // never mapped
        "rsi",                  // the kernel's
    ];
    for address in addresses {
        assert_wild(&format!("mov qword ptr [{address}], rax"), libc::SIGSEGV);
        assert_wild(&format!("mov rax, qword ptr [{address}]"), libc::SIGSEGV);
    }
}

#[test]
fn stores_to_what_the_host_relies_on_and_ways_to_where_no_code_is() {
    for field in ["ECALL", "METER", "RESOLVE", "HOST"] {
        assert_wild(&format!("mov qword ptr [rbx + {field}], rax"), libc::SIGSEGV);
    }
    // Guest memory and the native stack are not code.
    for register in ["rdx", "rcx", "rbx", "rsp"] {
        assert_wild(&format!("jmp {register}"), libc::SIGSEGV);
    }
    // Between instructions, and padding of code.
    assert_wild("int3", libc::SIGTRAP);
    assert_wild("ud2", libc::SIGILL);
    assert_wild("trap 99", libc::SIGILL);
}
