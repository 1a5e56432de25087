//! The way into native code and the ways out of it. The only assembly of this crate.
//!
//! `enter` is an ordinary function for its caller. Native code may clobber every register and may leave from any
//! depth of its own stack, so all that `enter`'s caller expects to find again is on the host stack, and the state
//! holds the pointer to it.

use std::{arch::naked_asm, mem::offset_of};

use antares_abi::{LeaveReason, STATE_OFFSET, State};

use crate::host;

/// Distance from base to the saved host stack pointer.
const HOST_STACK_POINTER: usize = STATE_OFFSET + offset_of!(State, host_stack_pointer);
/// Distance from base to the leave reason.
const LEAVE_REASON: usize = STATE_OFFSET + offset_of!(State, leave_reason);

/// Runs `thunk` (an entry thunk of a library) on the native stack that ends at `stack_top`. Returns when native code
/// is left; the reason is in the state.
///
/// # Safety
/// `base` is the base of a mapped [`Core`](crate::memory::Core) whose state is filled in and used by no other native
/// code; `thunk` is an entry thunk of a loaded library; `stack_top` is 16-byte aligned and ends a writable stack that
/// nobody else uses.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter(base: *mut u8, thunk: *const u8, stack_top: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi + {host_stack_pointer}], rsp",
        "mov rsp, rdx",
        // Base, for after the call, which clobbers every register; and the padding that keeps the stack aligned.
        "push rdi",
        "push rdi",
        "mov rax, rdi",
        "call rsi",
        "pop rax",
        "mov qword ptr [rax + {leave_reason}], {returned}",
        "jmp {leave}",
        host_stack_pointer = const HOST_STACK_POINTER,
        leave_reason = const LEAVE_REASON,
        returned = const LeaveReason::Returned as u64,
        leave = sym leave,
    )
}

/// Returns from [`enter`]. Not to be called: native code and signal handlers jump here with base in rax.
///
/// # Safety
/// As described: only by a jump, from below an [`enter`] with the same base.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rsp, [rax + {host_stack_pointer}]",
        "cld",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        host_stack_pointer = const HOST_STACK_POINTER,
    )
}

/// What native code calls for an ecall: [`host::ecall`] on the host stack, because a guest can arrange for the
/// native stack to be all but used up, and then host code would run into its guard.
///
/// # Safety
/// Only called by native code below an [`enter`] with the same base.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn ecall(base: *mut u8) -> u64 {
    naked_asm!(
        "mov r11, rsp",
        "mov rsp, [rdi + {host_stack_pointer}]",
        // `enter` left it 8 bytes off a multiple of 16: with this push the call is aligned.
        "push r11",
        "call {ecall}",
        "pop rsp",
        "ret",
        host_stack_pointer = const HOST_STACK_POINTER,
        ecall = sym host::ecall,
    )
}
