//! Converts faults of native code to bailouts: a signal becomes a [`BailoutReason`], and the thread
//! continues in [`enter::bail_out`].
//!
//! The handler runs on the thread's alternate stack, because the native stack may be what faulted. It reads
//! only thread-local pointers, the fault and the state, and allocates nothing. An access to a cell that
//! is [cached](cell_cache) continues after a system call; otherwise the handler makes none. A fault outside
//! native code ends the process as if there were no handler.

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
    VmError, cell_cache, enter,
    hidden::host_of,
    limits::{PAGE_BYTES, SIGNAL_STACK_BYTES},
    mapping::Mapping,
    memory::state_of,
};

/// Signals that a faulting instruction can raise.
const SIGNALS: [c_int; 5] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGTRAP];

/// `ud1l N(%eax), %eax`, which LLVM emits for `llvm.ubsantrap(N)`, without its last byte N.
const UD1: [u8; 4] = [0x67, 0x0f, 0xb9, 0x40];

/// `SEGV_PKUERR`: the page's protection key forbids the access.
const PROTECTION_KEY: c_int = 4;

/// Direction flag of the flags register; clear whenever host code runs.
const DIRECTION_FLAG: i64 = 1 << 10;

/// The native code that runs on this thread.
#[derive(Debug)]
pub(crate) struct Active {
    /// Base of its guest memory.
    pub(crate) base: *mut u8,
    /// Host addresses of its instructions, by library.
    pub(crate) texts: Vec<Range<usize>>,
    /// Host addresses of the guard below its stack.
    pub(crate) stack_guard: Range<usize>,
}

/// A fault as the kernel reports it.
struct Fault {
    signal: c_int,
    /// Address of the instruction, or of the next one for a breakpoint.
    pc: usize,
    /// Address of the access; 0 if there is none or if it is not canonical.
    address: usize,
}

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

/// Prepares the calling thread for native code: installs the process's handlers for SIGILL, SIGSEGV, SIGBUS,
/// SIGFPE and SIGTRAP once, and an alternate signal stack for this thread.
/// [`Machine::new`](crate::Machine::new) also does this. Call it directly only before giving up system calls,
/// or for another thread.
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
            // This thread just found it empty, and no other thread can access it.
            let _ = stack.set(installed);
        }
        Ok(())
    })
}

/// Runs `native`, and turns faults of `active` into bailout reasons.
pub(crate) fn with_active(active: &Active, native: impl FnOnce()) {
    /// Restores the pointer even if `native` unwinds.
    struct Restore(*const Active);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _restore = Restore(ACTIVE.replace(active));
    // The handler runs on this thread, so it is enough that the compiler does not move the store.
    compiler_fence(Ordering::SeqCst);
    native();
    compiler_fence(Ordering::SeqCst);
}

fn install_handlers() -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid; sigemptyset and sigaddset get an owned set and valid signals.
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
        // SAFETY: `handle` has the signature that SA_SIGINFO requires and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl SignalStack {
    fn install() -> io::Result<Self> {
        // A guard below the stack: a handler that overflows must fault, not write elsewhere.
        let mut mapping = Mapping::reserve(PAGE_BYTES + SIGNAL_STACK_BYTES)?;
        mapping.open(PAGE_BYTES..PAGE_BYTES + SIGNAL_STACK_BYTES)?;
        let stack =
            libc::stack_t { ss_sp: mapping.at(PAGE_BYTES).cast(), ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
        // SAFETY: the stack was just mapped and stays mapped until `drop` disables it.
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
            // The process is ending, possibly where a filter forbids this system call.
            return;
        }
        let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: disabling an alternate stack is always allowed outside of a handler on it.
        if unsafe { libc::sigaltstack(&off, ptr::null_mut()) } == 0 {
            // SAFETY: dropped once, here; the kernel no longer uses the stack.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}

/// The handler of all [`SIGNALS`].
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits: lib.rs refuses other targets")]
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo and a ucontext that are exclusive until the return.
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
    let is_cached = signal == libc::SIGSEGV && info.si_code == PROTECTION_KEY;
    if is_cached && cell_cache::evict_at(fault.address) {
        return;
    }
    // SAFETY: the pointer is null or was set by `with_active`, whose frame is below this one on this thread.
    let active = unsafe { ACTIVE.get().as_ref() };
    match active.map(|active| (active, judge(active, &fault))) {
        Some((active, Judged::Bailout(bailout))) => divert(active, bailout, context),
        Some((_, Judged::Wild)) => die_of_wildness(signal, context),
        Some((_, Judged::Host)) | None => die_of_fault(signal, context),
    }
}

/// Classification of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// A permitted bailout of native code.
    Bailout(Bailout),
    /// Native code did something that no generator permits: a generated check is wrong, or an attack.
    Wild,
    /// A fault outside native code.
    Host,
}

/// The bailout reason, and the known facts about the jump target: [`NAMES_TARGET`], [`PAST_TABLE`] or 0.
type Bailout = (BailoutReason, u8);

/// Classifies `fault` for the native code that runs.
fn judge(active: &Active, fault: &Fault) -> Judged {
    // A breakpoint reports the next pc, which may be past all text.
    let pc = if fault.signal == libc::SIGTRAP { fault.pc.wrapping_sub(1) } else { fault.pc };
    let is_access = matches!(fault.signal, libc::SIGSEGV | libc::SIGBUS);
    let hits_guard = is_access && active.stack_guard.contains(&fault.address);
    let meter = enter::meter as *const () as usize;
    if hits_guard && (meter..meter + enter::METER_SAVES_BYTES).contains(&pc) {
        return Judged::Bailout((BailoutReason::StackOverflow, 0));
    }
    let Some(text) = active.texts.iter().find(|text| text.contains(&pc)) else {
        // Only a jump of native code leads to an address without code: the host's own code stays in place.
        return if is_access && fault.address == pc { Judged::Wild } else { Judged::Host };
    };
    match fault.signal {
        _ if hits_guard => Judged::Bailout((BailoutReason::StackOverflow, 0)),
        _ if is_access && near_memory(active.base).contains(&fault.address) => {
            Judged::Bailout((BailoutReason::BadAddress, 0))
        }
        libc::SIGILL => trap_number(text, pc).map_or(Judged::Wild, Judged::Bailout),
        // Raised by a division: generators compare the operands first.
        libc::SIGFPE => Judged::Bailout((BailoutReason::Unsupported, 0)),
        _ => Judged::Wild,
    }
}

/// The addresses at which a guest access may fault: pages that the guest cannot write, and a margin around
/// its memory. It excludes the page after the state and everything further away.
fn near_memory(base: *mut u8) -> Range<usize> {
    (base as usize).wrapping_sub(GUARD_BYTES)..(base as usize).wrapping_add(STATE_OFFSET)
}

/// The reason number in the `ud1` at `pc`, if it is valid.
fn trap_number(text: &Range<usize>, pc: usize) -> Option<Bailout> {
    if text.end - pc < UD1.len() + 1 {
        return None;
    }
    // SAFETY: `pc` is in the library's text, at least five bytes before its end, and text is readable.
    let bytes = unsafe { ptr::with_exposed_provenance::<[u8; 5]>(pc).read() };
    match bytes {
        [a, b, c, d, number] if [a, b, c, d] == UD1 => {
            let flag = number & (NAMES_TARGET | PAST_TABLE);
            let reason = BailoutReason::from_repr(u64::from(number - flag))?;
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

/// Ends the process by a system call that no policy permits, so that its supervisor recognizes the cause.
/// Without a seccomp filter, the process ends by the fault.
fn die_of_wildness(signal: c_int, context: &mut libc::ucontext_t) {
    // SAFETY: this call does not exist: if no filter ends the process, the kernel returns an error.
    unsafe { libc::syscall(WILD_FAULT_CALL.into()) };
    die_of_fault(signal, context);
}

/// Ends the process by a fault outside native code: returns to the faulting instruction with the signal
/// blocked, so the kernel takes the default action. It makes no system call, so it works under any filter.
fn die_of_fault(signal: c_int, context: &mut libc::ucontext_t) {
    if signal == libc::SIGTRAP {
        // A breakpoint does not trigger again.
        return die_of_sent(signal);
    }
    // SAFETY: the set is the one that the kernel restores when the handler returns, and the signal is valid.
    unsafe { libc::sigaddset(&mut context.uc_sigmask, signal) };
}

/// Ends the process by a signal that a process sent.
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

    /// Bytes of a fake library: a trap with number 3, and one whose number lies beyond the end.
    static TEXT: [u8; 9] = [0x67, 0x0f, 0xb9, 0x40, 3, 0x67, 0x0f, 0xb9, 0x40];

    /// Guest memory base in these tests.
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
        // Breakpoints and invalid traps, possibly in the middle of an instruction.
        check(libc::SIGTRAP, 9, 0, Judged::Wild);
        check(libc::SIGILL, 1, 0, Judged::Wild);
        check(libc::SIGILL, 5, 0, Judged::Wild);
        // A jump to an address without code.
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
