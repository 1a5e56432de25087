//! Which system call a worker was killed for. The kernel does not tell who waits for a process; so a filter answers a call
//! outside of its policy with SIGSYS, and the handler below leaves the call's number where the supervisor finds it, and dies.
//!
//! A call outside of the policy is never made, and whoever made it never gets back to its own code:
//!
//! * Without the handler, or while SIGSYS is blocked or ignored, or if there is no room for its frame, the kernel ends the process.
//! * The handler is five instructions without a branch. It reads what the kernel put on the stack (a worker has one thread), and
//!   writes to one place whose address is part of its code. Its code and that place are sealed ([`crate::seal`]): they cannot be
//!   taken away to make it fault. Where the kernel cannot seal, there is no handler.
//! * Its last instruction makes an x32 call, for which every filter kills the process whatever the state of its signals.
//! * In the run stage nobody can change the handler. In the compile stage a compiler could, so that filter kills at once.
//!
//! What the supervisor finds was written by the worker, and is for people.

use std::{arch::naked_asm, io, ptr};

/// Address in each child of the memory that it shares with its supervisor: far from where the kernel maps anything by itself.
pub const SHARED_ADDRESS: usize = 0x3000_0000_0000;
/// Offset there of the word that gets the number of the call, plus 1.
pub const CALL_OFFSET: usize = 4032;
/// Offset of the call's number in the kernel's `siginfo_t`.
const SIGINFO_CALL: usize = 24;
/// An x32 call.
const FATAL_CALL: usize = 0x4000_0001;

/// Has calls outside of the policy named, from here on. Memory that the supervisor sees must be mapped, and sealed, at
/// [`SHARED_ADDRESS`].
///
/// # Safety
/// The four bytes at [`CALL_OFFSET`] there may be written at any time.
///
/// # Errors
/// What the kernel says.
pub unsafe fn name_violations() -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid one; sigfillset gets a set of ours.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = name_and_die as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        action
    };
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and uses nothing but its arguments and the word, for
    // which the caller vouches.
    match unsafe { libc::sigaction(libc::SIGSYS, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The handler of SIGSYS: `rsi` is the kernel's `siginfo_t`.
#[unsafe(naked)]
extern "C" fn name_and_die() {
    naked_asm!(
        "mov eax, dword ptr [rsi + {call}]",
        "inc eax",
        "movabs rdx, {word}",
        "mov dword ptr [rdx], eax",
        "mov eax, {fatal}",
        "syscall",
        "ud2",
        call = const SIGINFO_CALL,
        word = const SHARED_ADDRESS + CALL_OFFSET,
        fatal = const FATAL_CALL,
    )
}
