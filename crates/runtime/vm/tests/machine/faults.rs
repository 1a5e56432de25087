//! Faults outside native code end the process as they would without our handlers.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

use antares_vm::prepare_thread;

/// Set in a child process, to the name of the test that it runs.
const CHILD: &str = "ANTARES_VM_TEST_CHILD";

/// Runs `body` in a child process (this test program again, for the test `name` alone, on its first thread)
/// and returns its exit status.
pub(crate) fn in_child(name: &str, body: impl FnOnce() -> i32) -> ExitStatus {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        let code = body();
        // SAFETY: ends the process without clean-up, which may need what `body` gave up.
        unsafe { libc::_exit(code) };
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name);
    command.stdout(Stdio::null()).status().unwrap()
}

#[test]
fn a_host_fault_is_fatal() {
    let status = in_child("faults::a_host_fault_is_fatal", || {
        prepare_thread().unwrap();
        // SAFETY: none; this is the fault.
        unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
        0
    });
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
}

#[test]
fn a_host_trap_is_fatal() {
    let status = in_child("faults::a_host_trap_is_fatal", || {
        prepare_thread().unwrap();
        // SAFETY: the instruction has no effect except the fault.
        unsafe { std::arch::asm!("ud2") };
        0
    });
    assert_eq!(status.signal(), Some(libc::SIGILL));
}

#[test]
fn a_host_breakpoint_is_fatal() {
    let status = in_child("faults::a_host_breakpoint_is_fatal", || {
        prepare_thread().unwrap();
        // SAFETY: the instruction has no effect except the fault.
        unsafe { std::arch::asm!("int3") };
        0
    });
    assert_eq!(status.signal(), Some(libc::SIGTRAP));
}

#[test]
fn a_signal_that_was_sent_is_fatal() {
    let status = in_child("faults::a_signal_that_was_sent_is_fatal", || {
        prepare_thread().unwrap();
        // SAFETY: sends a signal to this process.
        unsafe { libc::raise(libc::SIGSEGV) };
        0
    });
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
}
