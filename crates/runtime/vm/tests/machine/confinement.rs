//! Runs behind a seccomp filter that kills the process for any system call that a run does not need.

use std::collections::BTreeMap;

use antares_vm::{BailoutReason, Machine, Outcome, Tier, limits::RUN_HEAP_BYTES, reserve_heap};
use bytes::Bytes;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::{
    faults::in_child,
    guests::{guest, library},
    native::{PRINT, PRINT_NATIVE},
    oracle::{ROOMY, script},
};

/// Allows the documented system calls of a machine, those that unmap it, and the exit.
fn lock_in() {
    let dontneed = u64::from(libc::MADV_DONTNEED.unsigned_abs());
    let dontneed = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, dontneed).unwrap();
    let rules = BTreeMap::from([
        (libc::SYS_rt_sigreturn, vec![]),
        (libc::SYS_exit_group, vec![]),
        (libc::SYS_munmap, vec![]),
        (libc::SYS_mincore, vec![]),
        (libc::SYS_sysinfo, vec![]),
        (libc::SYS_getrusage, vec![]),
        (libc::SYS_madvise, vec![SeccompRule::new(vec![dontneed]).unwrap()]),
    ]);
    let filter =
        SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, TargetArch::x86_64)
            .unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    apply_filter(&program).unwrap();
}

#[test]
fn runs_need_no_system_calls() {
    let status = in_child("confinement::runs_need_no_system_calls", "", |_| {
        let elf = guest(PRINT);
        let reasons = [BailoutReason::BadAddress, BailoutReason::StackOverflow, BailoutReason::Returned];
        let traps = ["mov [rbx + 0x400000], rax", "1: call 1b", "ret"].map(library);
        let good = library(PRINT_NATIVE);
        let hostile = hostile_elf();
        let mut machine = Machine::new().unwrap();
        assert!(reserve_heap(RUN_HEAP_BYTES));
        lock_in();
        let mut run = |elf, library| {
            let report = machine.run(&script(elf), &ROOMY, Tier::Auto, library).unwrap();
            (report.outcome, report.native_cycles, report.restarted)
        };
        let mut sound = run(&elf, Some(&good)) == (Outcome::Exit(3), 1515, None);
        sound &= run(&elf, None) == (Outcome::Exit(3), 0, None);
        for (library, reason) in traps.iter().zip(reasons) {
            sound &= run(&elf, Some(library)) == (Outcome::Exit(3), 0, Some(reason));
        }
        sound &=
            matches!(run(&hostile, Some(&good)).0, Outcome::Error { name, .. } if name == "MemOutOfBound");
        // The exit code distinguishes a wrong result from a killed process, and from one that ran nothing.
        if sound { 7 } else { 9 }
    });
    assert_eq!(status.code(), Some(7), "{status}");
}

/// An ELF with the maximum number of program headers, the last of which is beyond memory.
fn hostile_elf() -> Bytes {
    const HEADERS: usize = 65_535;
    let mut elf = guest("nop")[..64].to_vec();
    elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
    elf[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    let header = |address: u64| {
        let mut bytes = [1_u32.to_le_bytes(), 4_u32.to_le_bytes()].concat();
        for field in [0, address, address, 0, 0, 4096] {
            bytes.extend_from_slice(&u64::to_le_bytes(field));
        }
        bytes
    };
    for _ in 1..HEADERS {
        elf.extend_from_slice(&header(0));
    }
    elf.extend_from_slice(&header(1 << 40));
    Bytes::from(elf)
}
