//! Entry to native code and its exits: the only assembly of this crate.
//!
//! `enter` follows the C calling convention. Native code may clobber every register and may bail out from any
//! depth of its own stack. So everything that `enter`'s caller expects back is on the host stack, and the
//! host's part holds the pointer to it.

use std::{arch::naked_asm, mem::offset_of};

use antares_abi::{BailoutReason, HOST_TABLE_OFFSET, HostTable, METER_MARK, STATE_OFFSET, State};

use crate::{hidden::HostState, host};

/// The stack pointer's number among the registers.
const RSP: usize = 4;

/// Bytes of the instructions at the start of [`meter`] that write to the native stack, and may be the first
/// to hit its guard.
pub(crate) const METER_SAVES_BYTES: usize = 24;

/// Offset of a state field from base.
macro_rules! field {
    ($name:ident) => {
        STATE_OFFSET + offset_of!(State, $name)
    };
}

/// Offset from base of the pointer to the host's part.
const HOST: usize = HOST_TABLE_OFFSET + offset_of!(HostTable, host);

/// Offset of a field in the host's part.
macro_rules! hidden {
    ($name:ident) => {
        offset_of!(HostState, $name)
    };
}

/// Runs `thunk` (an entry thunk of a library) on the native stack that ends at `stack_top`. Returns when
/// native code bails out or waits (see [`resume`]); the reason is in the state.
///
/// # Safety
/// `base` is the base of a mapped [`Core`](crate::memory::Core), whose state is filled in and unused by other
/// native code. `thunk` is an entry thunk of a loaded library. `stack_top` is 16-byte aligned and ends a
/// writable stack that is otherwise unused.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter(base: *mut u8, thunk: *const u8, stack_top: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rax, [rdi + {host}]",
        "mov [rax + {stack_pointer}], rsp",
        "mov rsp, rdx",
        // Saves base across the call, which clobbers every register, and padding for stack alignment.
        "push rdi",
        "push rdi",
        "mov rax, rdi",
        "call rsi",
        "pop rax",
        "mov qword ptr [rax + {bailout_reason}], {returned}",
        "jmp {bail_out}",
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        bailout_reason = const field!(bailout_reason),
        returned = const BailoutReason::Returned as u64,
        bail_out = sym bail_out,
    )
}

/// Returns from [`enter`] or [`resume`]. Do not call: host functions and signal handlers jump here with base
/// in rax.
///
/// # Safety
/// Only reached by a jump, from below an [`enter`] with the same base.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn bail_out() {
    naked_asm!(
        "mov rax, [rax + {host}]",
        "mov rsp, [rax + {stack_pointer}]",
        "cld",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
    )
}

/// Native code calls this for an ecall. Runs [`host::ecall`] on the host stack, because a guest can arrange
/// for the native stack to be almost full, and host code would hit its guard. Bails out if the host requests
/// it, with native code waiting in this call.
///
/// # Safety
/// Only called by native code below an [`enter`] with the same base.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn ecall(base: *mut u8) {
    naked_asm!(
        "mov rax, [rdi + {host}]",
        // Callee-saved registers.
        "mov [rax + {saved} + 3*8], rbx",
        "mov [rax + {saved} + 5*8], rbp",
        "mov [rax + {saved} + 12*8], r12",
        "mov [rax + {saved} + 13*8], r13",
        "mov [rax + {saved} + 14*8], r14",
        "mov [rax + {saved} + 15*8], r15",
        // A caller-saved register may hold the remaining cycles.
        "mov qword ptr [rax + {saved} + {rsp}*8], 0",
        "mov [rax + {native_stack_pointer}], rsp",
        "mov rsp, [rax + {stack_pointer}]",
        // `enter` left rsp 8 bytes off a multiple of 16: this push aligns the call.
        "push rdi",
        "call {ecall}",
        "pop rdi",
        "test rax, rax",
        "mov rax, rdi",
        "jnz {bail_out}",
        "mov rcx, [rdi + {host}]",
        "mov rsp, [rcx + {native_stack_pointer}]",
        "ret",
        rsp = const RSP,
        saved = const hidden!(saved),
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        ecall = sym host::ecall,
        bail_out = sym bail_out,
    )
}

/// An open library calls this for a guest address without a thunk. Runs [`host::resolve`] on the host stack.
/// Bails out if no library has a thunk.
///
/// # Safety
/// As [`ecall`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resolve(base: *mut u8, target: u64) -> u64 {
    naked_asm!(
        "mov rax, [rdi + {host}]",
        "mov [rax + {native_stack_pointer}], rsp",
        "mov rsp, [rax + {stack_pointer}]",
        "push rdi",
        "call {resolve}",
        "pop rdi",
        "test rax, rax",
        "cmovz rax, rdi",
        "jz {bail_out}",
        "mov rcx, [rdi + {host}]",
        "mov rsp, [rcx + {native_stack_pointer}]",
        "ret",
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        resolve = sym host::resolve,
        bail_out = sym bail_out,
    )
}

/// Native code calls this before a call that may return again. Runs [`host::mark`] on the host stack. Returns
/// 0, and 1 for each [`far_jump`] to this mark.
///
/// # Safety
/// As [`ecall`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn mark(base: *mut u8, pc: u64, sp: u64) -> u64 {
    naked_asm!(
        "mov rax, [rdi + {host}]",
        "mov [rax + {saved} + 3*8], rbx",
        "mov [rax + {saved} + 5*8], rbp",
        "mov [rax + {saved} + 12*8], r12",
        "mov [rax + {saved} + 13*8], r13",
        "mov [rax + {saved} + 14*8], r14",
        "mov [rax + {saved} + 15*8], r15",
        "mov [rax + {native_stack_pointer}], rsp",
        "mov rsp, [rax + {stack_pointer}]",
        "push rdi",
        "call {mark}",
        "pop rdi",
        "mov rcx, [rdi + {host}]",
        "mov rsp, [rcx + {native_stack_pointer}]",
        "xor eax, eax",
        "ret",
        saved = const hidden!(saved),
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        mark = sym host::mark,
    )
}

/// Native code calls this before a marked frame ends. Runs [`host::unmark`] on the host stack.
///
/// # Safety
/// As [`ecall`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn unmark(base: *mut u8) {
    naked_asm!(
        "mov rax, [rdi + {host}]",
        "mov [rax + {native_stack_pointer}], rsp",
        "mov rsp, [rax + {stack_pointer}]",
        "push rdi",
        "call {unmark}",
        "pop rdi",
        "mov rcx, [rdi + {host}]",
        "mov rsp, [rcx + {native_stack_pointer}]",
        "ret",
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        unmark = sym host::unmark,
    )
}

/// Native code calls this to return to a marked frame. Runs [`host::far_jump`] on the host stack, then
/// resumes after the call of [`mark`] in that frame. Bails out if the host requests it.
///
/// # Safety
/// As [`ecall`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn far_jump(base: *mut u8, target: u64) {
    naked_asm!(
        "mov rax, [rdi + {host}]",
        "mov rsp, [rax + {stack_pointer}]",
        "push rdi",
        "call {far_jump}",
        "pop rdi",
        "test rax, rax",
        "mov rax, rdi",
        "jnz {bail_out}",
        "mov rcx, [rdi + {host}]",
        "mov rbx, [rcx + {saved} + 3*8]",
        "mov rbp, [rcx + {saved} + 5*8]",
        "mov r12, [rcx + {saved} + 12*8]",
        "mov r13, [rcx + {saved} + 13*8]",
        "mov r14, [rcx + {saved} + 14*8]",
        "mov r15, [rcx + {saved} + 15*8]",
        "mov rsp, [rcx + {native_stack_pointer}]",
        "mov eax, 1",
        // The return address of that call, which was popped long ago.
        "jmp [rcx + {saved} + 0*8]",
        saved = const hidden!(saved),
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        far_jump = sym host::far_jump,
        bail_out = sym bail_out,
    )
}

/// Native code calls this when its granted cycles are used up. Runs [`host::meter`] on the host stack. The
/// instruction after the call encodes which registers hold base and the remaining cycles
/// ([`antares_abi::METER_MARK`]). All other registers are preserved, but not the flags. Bails out if the host
/// requests it, with native code waiting in this call.
///
/// # Safety
/// As [`ecall`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn meter() {
    naked_asm!(
        // In encoding order, so that a register number is an index. No other instruction may fault here: see
        // `METER_SAVES_BYTES`.
        "push r15\n push r14\n push r13\n push r12\n push r11\n push r10\n push r9\n push r8",
        "push rdi\n push rsi\n push rbp\n push rax\n push rbx\n push rdx\n push rcx\n push rax",
        // The mark has an optional REX prefix, whose lowest bits extend the register numbers.
        "mov rsi, [rsp + 16*8]",
        "xor ecx, ecx",
        "cmp byte ptr [rsi], {mark}",
        "je 2f",
        "mov cl, [rsi]",
        "inc rsi",
        "2:",
        "movzx eax, byte ptr [rsi + {mark_bytes}]",
        "lea edx, [rcx*8]\n and edx, 8",
        "mov esi, eax\n and esi, 7\n or edx, esi",
        "shr eax, 3\n and eax, 7",
        "lea ecx, [rcx*4]\n and ecx, 8\n or eax, ecx",
        "mov rdi, [rsp + rdx*8]",
        "mov rcx, [rsp + rax*8]",
        "mov [rdi + {cycles_left}], rcx",
        "mov [rsp + {rsp}*8], rax",
        // All registers are on the native stack now.
        "mov rbx, [rdi + {host}]",
        "pop [rbx + {saved} + 0*8]\n pop [rbx + {saved} + 1*8]\n pop [rbx + {saved} + 2*8]\n pop [rbx + {saved} + 3*8]",
        "pop [rbx + {saved} + 4*8]\n pop [rbx + {saved} + 5*8]\n pop [rbx + {saved} + 6*8]\n pop [rbx + {saved} + 7*8]",
        "pop [rbx + {saved} + 8*8]\n pop [rbx + {saved} + 9*8]\n pop [rbx + {saved} + 10*8]\n pop [rbx + {saved} + 11*8]",
        "pop [rbx + {saved} + 12*8]\n pop [rbx + {saved} + 13*8]\n pop [rbx + {saved} + 14*8]\n pop [rbx + {saved} + 15*8]",
        "vmovups [rbx + {vectors} + 0*32], ymm0\n vmovups [rbx + {vectors} + 1*32], ymm1",
        "vmovups [rbx + {vectors} + 2*32], ymm2\n vmovups [rbx + {vectors} + 3*32], ymm3",
        "vmovups [rbx + {vectors} + 4*32], ymm4\n vmovups [rbx + {vectors} + 5*32], ymm5",
        "vmovups [rbx + {vectors} + 6*32], ymm6\n vmovups [rbx + {vectors} + 7*32], ymm7",
        "vmovups [rbx + {vectors} + 8*32], ymm8\n vmovups [rbx + {vectors} + 9*32], ymm9",
        "vmovups [rbx + {vectors} + 10*32], ymm10\n vmovups [rbx + {vectors} + 11*32], ymm11",
        "vmovups [rbx + {vectors} + 12*32], ymm12\n vmovups [rbx + {vectors} + 13*32], ymm13",
        "vmovups [rbx + {vectors} + 14*32], ymm14\n vmovups [rbx + {vectors} + 15*32], ymm15",
        "vzeroupper",
        "mov [rbx + {native_stack_pointer}], rsp",
        "mov rsp, [rbx + {stack_pointer}]",
        "push rdi",
        "call {meter}",
        "pop rdi",
        "test rax, rax",
        "mov rax, rdi",
        "jnz {bail_out}",
        "jmp {go_on}",
        mark = const METER_MARK[0],
        mark_bytes = const METER_MARK.len(),
        rsp = const RSP,
        saved = const hidden!(saved),
        vectors = const hidden!(saved_vectors),
        cycles_left = const field!(cycles_left),
        native_stack_pointer = const hidden!(native_stack_pointer),
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        meter = sym host::meter,
        bail_out = sym bail_out,
        go_on = sym go_on,
    )
}

/// Resumes native code that waits in [`ecall`] or [`meter`]. Returns like [`enter`].
///
/// # Safety
/// Native code waits on a stack that was not used since, and `base` is that of its core.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume(base: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rax, [rdi + {host}]",
        "mov [rax + {stack_pointer}], rsp",
        "jmp {go_on}",
        host = const HOST,
        stack_pointer = const hidden!(stack_pointer),
        go_on = sym go_on,
    )
}

/// Returns to waiting native code, with base in rdi. The remaining cycles go to the register whose number is
/// in the save slot of `rsp`.
///
/// # Safety
/// Only reached by a jump from [`meter`] and [`resume`].
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    naked_asm!(
        "mov rcx, [rdi + {cycles_left}]",
        "mov rdi, [rdi + {host}]",
        "vmovups ymm0, [rdi + {vectors} + 0*32]\n vmovups ymm1, [rdi + {vectors} + 1*32]",
        "vmovups ymm2, [rdi + {vectors} + 2*32]\n vmovups ymm3, [rdi + {vectors} + 3*32]",
        "vmovups ymm4, [rdi + {vectors} + 4*32]\n vmovups ymm5, [rdi + {vectors} + 5*32]",
        "vmovups ymm6, [rdi + {vectors} + 6*32]\n vmovups ymm7, [rdi + {vectors} + 7*32]",
        "vmovups ymm8, [rdi + {vectors} + 8*32]\n vmovups ymm9, [rdi + {vectors} + 9*32]",
        "vmovups ymm10, [rdi + {vectors} + 10*32]\n vmovups ymm11, [rdi + {vectors} + 11*32]",
        "vmovups ymm12, [rdi + {vectors} + 12*32]\n vmovups ymm13, [rdi + {vectors} + 13*32]",
        "vmovups ymm14, [rdi + {vectors} + 14*32]\n vmovups ymm15, [rdi + {vectors} + 15*32]",
        "mov rsp, [rdi + {native_stack_pointer}]",
        "mov rax, [rdi + {saved} + {rsp}*8]",
        "mov [rdi + {saved} + rax*8], rcx",
        "mov rax, [rdi + {saved} + 0*8]",
        "mov rcx, [rdi + {saved} + 1*8]",
        "mov rdx, [rdi + {saved} + 2*8]",
        "mov rbx, [rdi + {saved} + 3*8]",
        "mov rbp, [rdi + {saved} + 5*8]",
        "mov rsi, [rdi + {saved} + 6*8]",
        "mov r8, [rdi + {saved} + 8*8]",
        "mov r9, [rdi + {saved} + 9*8]",
        "mov r10, [rdi + {saved} + 10*8]",
        "mov r11, [rdi + {saved} + 11*8]",
        "mov r12, [rdi + {saved} + 12*8]",
        "mov r13, [rdi + {saved} + 13*8]",
        "mov r14, [rdi + {saved} + 14*8]",
        "mov r15, [rdi + {saved} + 15*8]",
        "mov rdi, [rdi + {saved} + 7*8]",
        "ret",
        host = const HOST,
        rsp = const RSP,
        saved = const hidden!(saved),
        vectors = const hidden!(saved_vectors),
        cycles_left = const field!(cycles_left),
        native_stack_pointer = const hidden!(native_stack_pointer),
    )
}

/// The content of the read-only page after the state.
pub(crate) fn table(host: *mut HostState) -> HostTable {
    HostTable {
        ecall: ecall as *const () as u64,
        meter: meter as *const () as u64,
        resolve: resolve as *const () as u64,
        mark: mark as *const () as u64,
        unmark: unmark as *const () as u64,
        far_jump: far_jump as *const () as u64,
        host: host as u64,
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::State;

    use super::*;
    use crate::{
        memory::{Core, state_of},
        stack::NativeStack,
    };

    /// Native code that destroys every register except base, and bails out from deeper in its stack.
    #[unsafe(naked)]
    extern "C" fn clobber_and_leave() {
        naked_asm!(
            "mov rbx, 1\n mov rcx, 2\n mov rdx, 3\n mov rsi, 4\n mov rdi, 5\n mov rbp, 6\n mov r8, 7\n mov r9, 8",
            "mov r10, 9\n mov r11, 10\n mov r12, 11\n mov r13, 12\n mov r14, 13\n mov r15, 14",
            "sub rsp, 4096",
            "std",
            "jmp {bail_out}",
            bail_out = sym bail_out,
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

    /// Calls `enter` with known values in the callee-saved registers. Returns 0 if they are preserved and the
    /// direction flag is clear.
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
        let mut core = Core::map(table).unwrap();
        core.reset(0, 2, 0);
        let stack = NativeStack::map(1 << 16).unwrap();
        let state = state_of(core.base());
        // SAFETY: core and stack are mapped and exclusive; the thunk meets the requirements of `enter`.
        let (differs, found) = unsafe {
            let differs = enter_and_compare(core.base(), thunk as *const u8, stack.top());
            (differs, (&raw const (*state.cast::<State>()).bailout_reason).read())
        };
        assert_eq!((differs, found), (0, reason));
    }

    #[test]
    fn saved_registers_survive_leaving() {
        check(clobber_and_leave, 0);
    }

    #[test]
    fn saved_registers_survive_returning() {
        check(clobber_and_return, BailoutReason::Returned as u64);
    }
}
