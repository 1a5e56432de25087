//! Which system call a worker was killed for. The kernel does not tell who waits for a process; so a filter
//! answers a call outside of its policy with SIGSYS, and the handler below leaves the call's number where the
//! supervisor finds it, and dies.
//!
//! A call outside of the policy is never made, and whoever made it never gets back to its own code:
//!
//! * Without the handler, or while SIGSYS is blocked or ignored, or if there is no room for its frame, the
//!   kernel ends the process.
//! * The handler is five instructions without a branch. It reads what the kernel put on the stack (a worker
//!   has one thread), and writes to one place, whose address, another one in each child, is on a page that
//!   can only be read. Its code, that page and that place are sealed ([`crate::seal`]): they cannot be taken
//!   away to make it fault. Where the kernel cannot seal, there is no handler.
//! * Its last instruction makes an x32 call, for which every filter kills the process whatever the state of
//!   its signals.
//! * In the run stage nobody can change the handler. In the compile stage a compiler could, so that filter
//!   kills at once.
//!
//! What the supervisor finds was written by the worker, and is for people.

use std::{
    arch::naked_asm,
    io, ptr,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use crate::seal;

/// Offset of the word that gets the number of the call, plus 1, in the memory that a child shares with its
/// supervisor.
pub const CALL_OFFSET: usize = 4032;
/// Offset of the call's number in the kernel's `siginfo_t`.
const SIGINFO_CALL: usize = 24;
/// An x32 call.
const FATAL_CALL: usize = 0x4000_0001;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// A page with nothing but the address of the word.
#[repr(C, align(4096))]
struct Page {
    word: AtomicUsize,
    rest: [u8; PAGE_BYTES - size_of::<AtomicUsize>()],
}

static PAGE: Page = Page { word: AtomicUsize::new(0), rest: [0; PAGE_BYTES - size_of::<AtomicUsize>()] };

/// Has calls outside of the policy named in `word`, from here on, once in a process. The supervisor sees it,
/// and its memory is sealed.
///
/// # Safety
/// `word` may be written at any time, for as long as the process lives.
///
/// # Errors
/// What the kernel says.
pub unsafe fn name_violations(word: *mut AtomicU32) -> io::Result<()> {
    PAGE.word.store(word.expose_provenance(), Ordering::SeqCst);
    let page = ptr::from_ref(&PAGE);
    // SAFETY: the page has nothing that is written from here on.
    if unsafe { libc::mprotect(page.cast_mut().cast(), PAGE_BYTES, libc::PROT_READ) } != 0 {
        return Err(io::Error::last_os_error());
    }
    seal(page.addr()..page.addr() + PAGE_BYTES)?;
    // SAFETY: an all-zero sigaction is a valid one; sigfillset gets a set of ours.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = name_and_die as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        action
    };
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and uses nothing but its arguments and
    // the word, for which the caller vouches.
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
