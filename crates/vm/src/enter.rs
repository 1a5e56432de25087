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

#[cfg(test)]
mod tests {
    use antares_abi::State;

    use super::*;
    use crate::{
        memory::{Core, state_of},
        stack::NativeStack,
    };

    /// Native code that destroys every register but base, and leaves from deeper in its stack.
    #[unsafe(naked)]
    extern "C" fn clobber_and_leave() {
        naked_asm!(
            "mov rbx, 1\n mov rcx, 2\n mov rdx, 3\n mov rsi, 4\n mov rdi, 5\n mov rbp, 6\n mov r8, 7\n mov r9, 8",
            "mov r10, 9\n mov r11, 10\n mov r12, 11\n mov r13, 12\n mov r14, 13\n mov r15, 14",
            "sub rsp, 4096",
            "std",
            "jmp {leave}",
            leave = sym leave,
        )
    }

    /// Native code that destroys every register and returns.
    #[unsafe(naked)]
    extern "C" fn clobber_and_return() {
        naked_asm!(
            "mov rax, 1\n mov rbx, 1\n mov rcx, 2\n mov rdx, 3\n mov rsi, 4\n mov rdi, 5\n mov rbp, 6\n mov r8, 7",
            "mov r9, 8\n mov r10, 9\n mov r11, 10\n mov r12, 11\n mov r13, 12\n mov r14, 13\n mov r15, 14",
            "std",
            "ret",
        )
    }

    /// Calls `enter` with known values in the registers that it has to keep; 0 if it kept them (and the direction
    /// flag is clear).
    #[unsafe(naked)]
    unsafe extern "C" fn enter_and_compare(base: *mut u8, thunk: *const u8, stack_top: *mut u8) -> u64 {
        naked_asm!(
            "push rbx\n push rbp\n push r12\n push r13\n push r14\n push r15\n sub rsp, 8",
            "mov rbx, 101\n mov rbp, 102\n mov r12, 103\n mov r13, 104\n mov r14, 105\n mov r15, 106",
            "call {enter}",
            "pushfq\n pop rax\n and eax, 0x400",
            "sub rbx, 101\n sub rbp, 102\n sub r12, 103\n sub r13, 104\n sub r14, 105\n sub r15, 106",
            "or rax, rbx\n or rax, rbp\n or rax, r12\n or rax, r13\n or rax, r14\n or rax, r15",
            "cld",
            "add rsp, 8\n pop r15\n pop r14\n pop r13\n pop r12\n pop rbp\n pop rbx",
            "ret",
            enter = sym enter,
        )
    }

    #[track_caller]
    fn check(thunk: extern "C" fn(), reason: u64) {
        let mut core = Core::map().unwrap();
        core.reset(0, 2, 0);
        let stack = NativeStack::map(1 << 16).unwrap();
        let state = state_of(core.base());
        // SAFETY: core and stack are mapped and ours; the thunk keeps to what `enter` asks of native code.
        let (differs, found) = unsafe {
            let differs = enter_and_compare(core.base(), thunk as *const u8, stack.top());
            (differs, (&raw const (*state.cast::<State>()).leave_reason).read())
        };
        assert_eq!((differs, found), (0, reason));
    }

    #[test]
    fn saved_registers_survive_leaving() {
        check(clobber_and_leave, 0);
    }

    #[test]
    fn saved_registers_survive_returning() {
        check(clobber_and_return, LeaveReason::Returned as u64);
    }
}
