//! Records the system call that a worker was killed for. The kernel does not report it to the waiting
//! process. So a filter answers a call outside of its policy with SIGSYS. The handler below writes the call's
//! number where the supervisor finds it, and dies.
//!
//! The kernel never executes such a call, and its caller never resumes:
//!
//! * Without the handler, or if SIGSYS is blocked or ignored, or if there is no space for its frame, the
//!   kernel ends the process.
//! * The handler is five instructions without a branch. It reads what the kernel put on the stack (a worker
//!   has one thread). It writes to one location, whose address differs in each child and is on a read-only
//!   page. Its code, that page and that location are sealed ([`crate::seal`]), so an attacker cannot unmap
//!   them to make it fault. If the kernel cannot seal, there is no handler.
//! * Its last instruction makes an x32 call, for which every filter kills the process, whatever the state of
//!   its signals.
//! * In the run stage the process cannot change the handler. In the compile stage it could, so that filter
//!   kills immediately.
//!
//! The worker writes the number, so it is not trusted; use it only for messages.

use std::{
    arch::naked_asm,
    io, ptr,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use crate::seal;

/// Offset of the word that gets the call number plus 1, in the memory that a child shares with its
/// supervisor.
pub const CALL_OFFSET: usize = 4032;
/// Offset of the call number in the kernel's `siginfo_t`.
const SIGINFO_CALL: usize = 24;
/// An x32 call.
const FATAL_CALL: usize = 0x4000_0001;
const PAGE_BYTES: usize = 4096;

/// A page that contains only the address of the word.
#[repr(C, align(4096))]
struct Page {
    word: AtomicUsize,
    rest: [u8; PAGE_BYTES - size_of::<AtomicUsize>()],
}

static PAGE: Page = Page { word: AtomicUsize::new(0), rest: [0; PAGE_BYTES - size_of::<AtomicUsize>()] };

/// From now on, records calls outside of the policy in `word`. Call it once per process. The supervisor can
/// read `word`, and its memory is sealed.
///
/// # Safety
/// `word` may be written at any time until the process ends.
///
/// # Errors
/// The kernel's error.
pub unsafe fn name_violations(word: *mut AtomicU32) -> io::Result<()> {
    PAGE.word.store(word.expose_provenance(), Ordering::SeqCst);
    let page = ptr::from_ref(&PAGE);
    // SAFETY: no field of the page is written after this.
    if unsafe { libc::mprotect(page.cast_mut().cast(), PAGE_BYTES, libc::PROT_READ) } != 0 {
        return Err(io::Error::last_os_error());
    }
    seal(page.addr()..page.addr() + PAGE_BYTES)?;
    // SAFETY: an all-zero sigaction is valid; sigfillset gets an owned set.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = name_and_die as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        action
    };
    // SAFETY: the handler has the signature that SA_SIGINFO requires and uses only its arguments and the
    // word, which the caller guarantees to be writable.
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
        "mov rdx, qword ptr [rip + {page}]",
        "mov dword ptr [rdx], eax",
        "mov eax, {fatal}",
        "syscall",
        "ud2",
        call = const SIGINFO_CALL,
        page = sym PAGE,
        fatal = const FATAL_CALL,
    )
}
