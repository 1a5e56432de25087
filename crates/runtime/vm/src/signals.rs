//! Faults of native code: a signal becomes a [`BailoutReason`], and the thread continues in [`enter::bail_out`].
//!
//! The handler works on the thread's alternate stack (the native stack may be the very thing that faulted),
//! looks only at a thread-local pointer, the fault and the state, allocates nothing, and makes no system call
//! but the return from the signal. A fault that is not native code's own ends the process as if there were no
//! handler.

use std::{
    cell::{Cell, OnceCell},
    ffi::{c_int, c_void},
    io,
    mem::{ManuallyDrop, zeroed},
    ops::Range,
    ptr,
    sync::OnceLock,
    sync::atomic::{Ordering, compiler_fence},
};

use antares_abi::{BailoutReason, GUARD_BYTES, NAMES_TARGET, PAST_TABLE, STATE_OFFSET, WILD_FAULT_CALL};

use crate::{
    VmError, enter,
    hidden::host_of,
    limits::{PAGE_BYTES, SIGNAL_STACK_BYTES},
    mapping::Mapping,
    memory::state_of,
};

/// Signals that a faulting instruction can raise.
const SIGNALS: [c_int; 5] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGTRAP];

/// `ud1l N(%eax), %eax`, which LLVM emits for `llvm.ubsantrap(N)`, without its last byte, N.
const UD1: [u8; 4] = [0x67, 0x0f, 0xb9, 0x40];

/// Direction flag of the flags register: clear whenever host code runs.
const DIRECTION_FLAG: i64 = 1 << 10;

/// The native code that runs on this thread.
#[derive(Debug)]
pub(crate) struct Active {
    /// Base of the guest memory it works on.
    pub(crate) base: *mut u8,
    /// Host addresses of its instructions, by library.
    pub(crate) texts: Vec<Range<usize>>,
    /// Host addresses of the guard below its stack.
    pub(crate) stack_guard: Range<usize>,
}

/// What the kernel says about a fault.
struct Fault {
    signal: c_int,
    /// Address of the instruction; behind it for a breakpoint.
    pc: usize,
    /// Address of the access, 0 where there is none (or it was not canonical).
    address: usize,
}

/// An alternate signal stack of one thread.
struct SignalStack {
    mapping: ManuallyDrop<Mapping>,
    /// Whether this is the process's first thread, which ends with the process.
    first_thread: bool,
}

thread_local! {
    /// Const and without a destructor: the handler reads it with one instruction.
    static ACTIVE: Cell<*const Active> = const { Cell::new(ptr::null()) };
    static SIGNAL_STACK: OnceCell<SignalStack> = const { OnceCell::new() };
}

/// Makes the calling thread ready to run native code: installs the process's handlers for SIGILL, SIGSEGV,
/// SIGBUS, SIGFPE and SIGTRAP once, and an alternate signal stack for this thread.
/// [`Machine::new`](crate::Machine::new) does it too; needed apart only where system calls are about to be
/// given up, or for another thread.
pub fn prepare_thread() -> Result<(), VmError> {
    static HANDLERS: OnceLock<Result<(), i32>> = OnceLock::new();
    let handlers =
        HANDLERS.get_or_init(|| install_handlers().map_err(|error| error.raw_os_error().unwrap_or(0)));
    handlers.map_err(|errno| VmError::Signals {
        what: "handlers",
        source: io::Error::from_raw_os_error(errno),
    })?;
    SIGNAL_STACK.with(|stack| {
        if stack.get().is_none() {
            let installed = SignalStack::install()
                .map_err(|source| VmError::Signals { what: "alternate stack", source })?;
            // Just seen empty, by the only thread that can see it.
            let _ = stack.set(installed);
        }
        Ok(())
    })
}

/// Runs `native` with faults at `active` turned into leave reasons.
pub(crate) fn with_active(active: &Active, native: impl FnOnce()) {
    /// Restores the pointer even if `native` unwinds.
    struct Restore(*const Active);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _restore = Restore(ACTIVE.replace(active));
    // The handler runs on this thread: the compiler alone must not move the store.
    compiler_fence(Ordering::SeqCst);
    native();
    compiler_fence(Ordering::SeqCst);
}

fn install_handlers() -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid one; sigemptyset and sigaddset get a set of ours and valid
    // signals.
    let action = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        for signal in SIGNALS {
            libc::sigaddset(&mut action.sa_mask, signal);
        }
        action
    };
    for signal in SIGNALS {
        // SAFETY: `handle` has the signature that SA_SIGINFO asks for and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl SignalStack {
    fn install() -> io::Result<Self> {
        // A guard below: a handler that overflows shall fault, not write elsewhere.
        let mut mapping = Mapping::reserve(PAGE_BYTES + SIGNAL_STACK_BYTES)?;
        mapping.open(PAGE_BYTES..PAGE_BYTES + SIGNAL_STACK_BYTES)?;
        let stack =
            libc::stack_t { ss_sp: mapping.at(PAGE_BYTES).cast(), ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
        // SAFETY: the stack was just mapped and stays so until `drop` has taken it out of use again.
        if unsafe { libc::sigaltstack(&stack, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: neither call has a precondition.
        let first_thread = unsafe { libc::gettid() == libc::getpid() };
        Ok(Self { mapping: ManuallyDrop::new(mapping), first_thread })
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        if self.first_thread {
            // The process ends, perhaps where this system call is not allowed.
            return;
        }
        let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: taking an alternate stack out of use is always allowed outside of a handler on it.
        if unsafe { libc::sigaltstack(&off, ptr::null_mut()) } == 0 {
            // SAFETY: dropped once, here; the kernel has let go of the stack.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}

/// The handler of all [`SIGNALS`].
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits: lib.rs refuses other targets")]
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo and a ucontext that are ours until we return.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    if info.si_code <= 0 {
        return die_of_sent(signal);
    }
    let fault = Fault {
        signal,
        pc: context.uc_mcontext.gregs[libc::REG_RIP as usize].cast_unsigned() as usize,
        // SAFETY: these signals, raised by the kernel for a fault, carry an address.
        address: unsafe { info.si_addr() } as usize,
    };
    // SAFETY: the pointer is null or was set by `with_active`, whose frame is below us on this thread.
    let active = unsafe { ACTIVE.get().as_ref() };
    match active.map(|active| (active, judge(active, &fault))) {
        Some((active, Judged::Bailout(bailout))) => divert(active, bailout, context),
        Some((_, Judged::Wild)) => die_of_wildness(signal, context),
        Some((_, Judged::Host)) | None => die_of_fault(signal, context),
    }
}

/// What a fault means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// A way in which native code may be left.
    Bailout(Bailout),
    /// Native code did what no generator of ours lets it: a check is wrong, or somebody else is at work.
    Wild,
    /// Not native code's.
    Host,
}

/// Why native code is left, and what is known of where it was about to go: [`NAMES_TARGET`], [`PAST_TABLE`]
/// or nothing.
type Bailout = (BailoutReason, u8);

/// What `fault` means for the native code that is under way.
fn judge(active: &Active, fault: &Fault) -> Judged {
    // A breakpoint's pc is behind it, perhaps behind all text.
    let pc = if fault.signal == libc::SIGTRAP { fault.pc.wrapping_sub(1) } else { fault.pc };
    let is_access = matches!(fault.signal, libc::SIGSEGV | libc::SIGBUS);
    let hits_guard = is_access && active.stack_guard.contains(&fault.address);
    let meter = enter::meter as *const () as usize;
    if hits_guard && (meter..meter + enter::METER_SAVES_BYTES).contains(&pc) {
        return Judged::Bailout((BailoutReason::StackOverflow, 0));
    }
    let Some(text) = active.texts.iter().find(|text| text.contains(&pc)) else {
        // Where there is no code, only a jump of native code leads: the host's own code is where it is.
        return if is_access && fault.address == pc { Judged::Wild } else { Judged::Host };
    };
    match fault.signal {
        _ if hits_guard => Judged::Bailout((BailoutReason::StackOverflow, 0)),
        _ if is_access && near_memory(active.base).contains(&fault.address) => {
            Judged::Bailout((BailoutReason::BadAddress, 0))
        }
        libc::SIGILL => trap_number(text, pc).map_or(Judged::Wild, Judged::Bailout),
        // Of a division: the generators compare before.
        libc::SIGFPE => Judged::Bailout((BailoutReason::Unsupported, 0)),
        _ => Judged::Wild,
    }
}

/// Where the accesses of a guest may fault: at pages that it cannot write, and a little beside its memory.
/// Not at the page behind the state, nor further away.
fn near_memory(base: *mut u8) -> Range<usize> {
    (base as usize).wrapping_sub(GUARD_BYTES)..(base as usize).wrapping_add(STATE_OFFSET)
}

/// The number in the `ud1` at `pc`, if there is one and it is a reason.
fn trap_number(text: &Range<usize>, pc: usize) -> Option<Bailout> {
    if text.end - pc < UD1.len() + 1 {
        return None;
    }
    // SAFETY: `pc` is in the library's text, at least five bytes before its end, and text is readable.
    let bytes = unsafe { ptr::with_exposed_provenance::<[u8; 5]>(pc).read() };
    match bytes {
        [a, b, c, d, number] if [a, b, c, d] == UD1 => {
            let flag = number & (NAMES_TARGET | PAST_TABLE);
            let reason = BailoutReason::from_number(u64::from(number - flag))?;
            let names_one = reason == BailoutReason::UnknownTarget && flag != NAMES_TARGET | PAST_TABLE;
            (flag == 0 || names_one).then_some((reason, flag))
        }
        _ => None,
    }
}

/// Makes the return from the signal continue in [`enter::bail_out`].
fn divert(active: &Active, (reason, flag): Bailout, context: &mut libc::ucontext_t) {
    let state = state_of(active.base);
    // SAFETY: native code runs below `with_active` on a mapped core, so its state is mapped, and it is
    // interrupted.
    let host_stack_pointer = unsafe {
        (*state).bailout_reason = reason as u64;
        (*state).is_complete = u64::from(flag);
        (*host_of(active.base)).stack_pointer
    };
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = enter::bail_out as *const () as i64;
    registers[libc::REG_RSP as usize] = host_stack_pointer as i64;
    registers[libc::REG_RAX as usize] = active.base as i64;
    registers[libc::REG_EFL as usize] &= !DIRECTION_FLAG;
}

/// Ends the process by a system call that is in no policy, which its supervisor takes for what it is; without
/// a fence, by the fault.
fn die_of_wildness(signal: c_int, context: &mut libc::ucontext_t) {
    // SAFETY: there is no such call: where no filter ends the process, the kernel answers with an error.
    unsafe { libc::syscall(WILD_FAULT_CALL.into()) };
    die_of_fault(signal, context);
}

/// Ends the process by a fault that is not native code's: back to the faulting instruction with the signal
/// blocked, where the kernel then takes the default action. No system call, so it works behind any filter.
fn die_of_fault(signal: c_int, context: &mut libc::ucontext_t) {
    if signal == libc::SIGTRAP {
        // A breakpoint would not be met again.
        return die_of_sent(signal);
    }
    // SAFETY: the set is the one that the kernel restores when the handler returns, and the signal is valid.
    unsafe { libc::sigaddset(&mut context.uc_sigmask, signal) };
}

/// Ends the process by a signal that somebody sent.
fn die_of_sent(signal: c_int) {
    // SAFETY: both functions are async-signal-safe, the signal is valid; it is delivered when the handler
    // returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::{HOST_TABLE_OFFSET, REACH_BYTES};

    use super::*;

    /// Bytes of a pretended library: a trap with number 3, and one whose number lies beyond the end.
    static TEXT: [u8; 9] = [0x67, 0x0f, 0xb9, 0x40, 3, 0x67, 0x0f, 0xb9, 0x40];

    /// Where guest memory is in these tests.
    const BASE: usize = 0x7000_0000_0000;

    #[track_caller]
    fn check(signal: c_int, pc: usize, address: usize, expected: Judged) {
        let text = TEXT.as_ptr().expose_provenance();
        let texts = vec![8..16, text..text + TEXT.len()];
        let base = ptr::without_provenance_mut(BASE);
        let active = Active { base, texts, stack_guard: 0x1000..0x2000 };
        let fault = Fault { signal, pc: text.wrapping_add(pc), address };
        assert_eq!(judge(&active, &fault), expected, "{signal} at {pc:#x}, {address:#x}");
    }

    fn bailout(reason: BailoutReason) -> Judged {
        Judged::Bailout((reason, 0))
    }

    #[test]
    fn faults_become_reasons() {
        check(libc::SIGILL, 0, 0, bailout(BailoutReason::UnknownTarget));
        let named = [0x67, 0x0f, 0xb9, 0x40, BailoutReason::UnknownTarget as u8 | PAST_TABLE];
        let text = named.as_ptr().expose_provenance();
        assert_eq!(trap_number(&(text..text + 5), text), Some((BailoutReason::UnknownTarget, PAST_TABLE)));
        check(libc::SIGFPE, 3, 0, bailout(BailoutReason::Unsupported));
        check(libc::SIGSEGV, 3, 0x1000, bailout(BailoutReason::StackOverflow));
        for address in [BASE - GUARD_BYTES, BASE, BASE + STATE_OFFSET - 1] {
            check(libc::SIGSEGV, 3, address, bailout(BailoutReason::BadAddress));
            check(libc::SIGBUS, 3, address, bailout(BailoutReason::BadAddress));
        }
    }

    #[test]
    fn what_no_generator_lets_code_do_is_wild() {
        let beside = [BASE - GUARD_BYTES - 1, BASE + HOST_TABLE_OFFSET, BASE + REACH_BYTES];
        for address in [0, 8, 0x2000, usize::MAX].into_iter().chain(beside) {
            check(libc::SIGSEGV, 3, address, Judged::Wild);
        }
        // Breakpoints and what is no trap of ours, in the middle of an instruction perhaps.
        check(libc::SIGTRAP, 9, 0, Judged::Wild);
        check(libc::SIGILL, 1, 0, Judged::Wild);
        check(libc::SIGILL, 5, 0, Judged::Wild);
        // A jump to where no code is.
        let text = TEXT.as_ptr().expose_provenance();
        check(libc::SIGSEGV, 0x1_0000, text + 0x1_0000, Judged::Wild);
    }

    #[test]
    fn faults_of_the_host_are_not_ours() {
        for signal in SIGNALS {
            check(signal, usize::MAX - 7, 0x1000, Judged::Host);
            check(signal, TEXT.len() + 1, 0x1000, Judged::Host);
        }
        check(libc::SIGSEGV, TEXT.len(), 0x1000, Judged::Host);
        check(libc::SIGTRAP, 0, 0x1000, Judged::Host);
    }
}
