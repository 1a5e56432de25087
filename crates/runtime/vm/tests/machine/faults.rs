//! Faults outside native code end the process as they would without our handlers.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

use antares_vm::prepare_thread;

/// Set in a child process, to the case that it runs.
const CHILD: &str = "ANTARES_VM_TEST_CHILD";

/// Runs `body` on `case` in a child process (this test program again, for the test `name` alone, on its first
/// thread) and returns its exit status.
pub(crate) fn in_child(name: &str, case: &str, body: impl FnOnce(&str) -> i32) -> ExitStatus {
    if let Ok(case) = std::env::var(CHILD) {
        let code = body(&case);
        // SAFETY: ends the process without clean-up, which may need what `body` gave up.
        unsafe { libc::_exit(code) };
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, case);
    command.stdout(Stdio::null()).status().unwrap()
}

#[test]
fn faults_of_the_host_are_fatal() {
    for (case, signal) in [
        ("store", libc::SIGSEGV),
        ("trap", libc::SIGILL),
        ("breakpoint", libc::SIGTRAP),
        ("sent", libc::SIGSEGV),
    ] {
        let status = in_child("faults::faults_of_the_host_are_fatal", case, |case| {
            prepare_thread().unwrap();
            // SAFETY: none; these are the faults.
            unsafe {
                match case {
                    "store" => std::ptr::without_provenance_mut::<u8>(8).write_volatile(1),
                    "trap" => std::arch::asm!("ud2"),
                    "breakpoint" => std::arch::asm!("int3"),
                    _ => drop(libc::raise(libc::SIGSEGV)),
                }
            }
            0
        });
        assert_eq!(status.signal(), Some(signal), "{case}");
    }
}
