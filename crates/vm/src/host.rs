//! The host's side of native code: one attempt to run a script natively, and the ecalls it makes on the way.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use antares_abi::{LeaveReason, State};
use ckb_vm::{CoreMachine, DefaultMachine, Error, Machine as _, SupportMachine, registers::A0};

use crate::{
    enter,
    memory::{Core, state_of},
    native::Thunk,
    signals::{self, Active},
    stack::NativeStack,
};

/// Bytes of an ecall instruction: the interpreter's pc is behind it while a syscall runs.
const ECALL_BYTES: u64 = 4;

/// An answer to native code: 0 continues it.
const CONTINUE: u64 = 0;
/// An answer to native code: any other number leaves it.
const LEAVE: u64 = 1;

/// One attempt. Native code carries a pointer to it in the state.
struct Attempt {
    vm: *mut DefaultMachine<Core>,
    /// Cycles that the attempt started with.
    budget: i64,
    /// How the last ecall ended the attempt, once one did.
    ended: Option<Ended>,
}

/// How an ecall ended an attempt.
enum Ended {
    /// ckb-vm said so: `Ok` is an exit.
    Vm(Result<(), Error>),
    /// The host panicked; native frames are no place to unwind through.
    Panic(Box<dyn Any + Send>),
}

/// What an attempt came to.
pub(crate) enum Attempted {
    /// The script exited; pc, cycles and the argument registers are those of the interpreter.
    Exited,
    /// A syscall failed; pc and cycles are those of the interpreter.
    Failed(Error),
    /// Native code was left without an answer.
    Left(LeaveReason),
}

/// Runs `thunk` on the loaded `vm`.
pub(crate) fn attempt(vm: &mut DefaultMachine<Core>, stack: &NativeStack, thunk: &Thunk<'_>) -> Attempted {
    vm.set_running(true);
    let base = vm.memory().base();
    let budget = i64::try_from(vm.max_cycles()).unwrap_or(i64::MAX);
    let (registers, pc) = (*vm.memory().guest_registers(), *vm.pc());
    let mut attempt = Attempt { vm, budget, ended: None };
    let attempt = &raw mut attempt;
    let state = State {
        registers,
        pc,
        cycles_left: budget,
        leave_reason: 0,
        host_stack_pointer: 0,
        leave: enter::leave as *const () as u64,
        ecall: enter::ecall as *const () as u64,
        host_context: attempt as u64,
    };
    // SAFETY: `base` comes from a mapped core, whose state page is writable and otherwise unused.
    unsafe { state_of(base).write(state) };
    let active = Active { base, text: thunk.text(), stack_guard: stack.guard() };
    signals::with_active(&active, || {
        // SAFETY: the state was just filled in; the thunk comes from the table of a library that its lifetime keeps
        // loaded; the stack is mapped, ours alone (machines are used by one thread at a time) and its top aligned.
        unsafe { enter::enter(base, thunk.address(), stack.top()) };
    });
    // SAFETY: native code was left, so nobody but us uses the state or the attempt, which lives in this frame.
    let (reason, ended) = unsafe { ((*state_of(base)).leave_reason, (*attempt).ended.take()) };
    match ended {
        Some(Ended::Panic(payload)) => resume_unwind(payload),
        Some(Ended::Vm(Ok(()))) => Attempted::Exited,
        Some(Ended::Vm(Err(error))) => Attempted::Failed(error),
        None => Attempted::Left(LeaveReason::from_number(reason).unwrap_or(LeaveReason::Unsupported)),
    }
}

/// Handles an ecall of native code, on the host stack ([`enter::ecall`] switches).
///
/// # Safety
/// `base` is what [`attempt`] gave to `enter`, and native code waits for the answer.
pub(crate) unsafe extern "C" fn ecall(base: *mut u8) -> u64 {
    let state = state_of(base);
    // SAFETY: `attempt` stored the address of its attempt, which lives in its frame until native code is left;
    // native code never touches that field. Nobody else refers to the state or the attempt while we are here.
    let (state, attempt) = unsafe { (&mut *state, &mut *((*state).host_context as *mut Attempt)) };
    let ended = match catch_unwind(AssertUnwindSafe(|| attempt.ecall(state))) {
        Ok(None) => return CONTINUE,
        Ok(Some(ended)) => Some(ended),
        Err(payload) => Some(Ended::Panic(payload)),
    };
    if attempt.ended.is_none() {
        attempt.ended = ended;
    }
    state.leave_reason = LeaveReason::Ecall as u64;
    LEAVE
}

impl Attempt {
    /// Lets ckb-vm handle the ecall. `None` continues the script.
    fn ecall(&mut self, state: &mut State) -> Option<Ended> {
        // SAFETY: `attempt` borrowed the machine for as long as native code runs, and nobody else uses it meanwhile.
        let vm = unsafe { &mut *self.vm };
        let Ok(used) = u64::try_from(self.budget.saturating_sub(state.cycles_left)) else {
            return Some(Ended::Vm(Err(Error::CyclesOverflow)));
        };
        if state.cycles_left < 0 {
            // The interpreter refuses the ecall; generated code should have.
            return Some(Ended::Vm(Err(Error::CyclesExceeded)));
        }
        vm.inner_mut().set_guest_registers(&state.registers);
        vm.set_cycles(used);
        vm.update_pc(state.pc.wrapping_add(ECALL_BYTES));
        vm.commit_pc();
        match vm.ecall() {
            Ok(()) if vm.running() => {
                state.registers[A0] = vm.registers()[A0];
                // A processed syscall is within the limit; beyond i64 a limit is none that a script can reach.
                let used = i64::try_from(vm.cycles()).unwrap_or(i64::MAX);
                state.cycles_left = self.budget.saturating_sub(used);
                None
            }
            end => Some(Ended::Vm(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{arch::naked_asm, mem::offset_of};

    use antares_abi::STATE_OFFSET;
    use ckb_vm::{DefaultMachineBuilder, Syscalls};

    use super::*;

    /// Native code that makes ecalls until it is told to leave.
    #[unsafe(naked)]
    extern "C" fn ecalls() {
        naked_asm!(
            "mov rbx, rax",
            "2: mov rdi, rbx",
            "sub qword ptr [rbx + {cycles_left}], 500",
            "call [rbx + {ecall}]",
            "test rax, rax",
            "jz 2b",
            "mov rax, rbx",
            "jmp [rbx + {leave}]",
            cycles_left = const STATE_OFFSET + offset_of!(State, cycles_left),
            ecall = const STATE_OFFSET + offset_of!(State, ecall),
            leave = const STATE_OFFSET + offset_of!(State, leave),
        )
    }

    /// Counts in a0 with an extra cycle for each call; panics at 3 if it shall.
    struct Count {
        panics: bool,
    }

    impl Syscalls<Core> for Count {
        fn initialize(&mut self, _machine: &mut Core) -> Result<(), Error> {
            Ok(())
        }

        fn ecall(&mut self, machine: &mut Core) -> Result<bool, Error> {
            let count = machine.registers()[A0] + 1;
            machine.set_register(A0, count);
            machine.add_cycles_no_checking(1)?;
            assert!(!self.panics || count < 3, "a syscall panics");
            Ok(count < 5)
        }
    }

    fn run(panics: bool, cycles_max: u64) -> (Attempted, DefaultMachine<Core>) {
        signals::prepare_thread().unwrap();
        let mut core = Core::map().unwrap();
        core.reset(0, 2, cycles_max);
        let mut vm = DefaultMachineBuilder::new(core).syscall(Box::new(Count { panics })).build();
        let stack = NativeStack::map(1 << 16).unwrap();
        (attempt(&mut vm, &stack, &Thunk::of_test(ecalls)), vm)
    }

    #[test]
    fn syscalls_change_registers_and_cycles() {
        let (attempted, vm) = run(false, 10_000);
        assert!(matches!(attempted, Attempted::Failed(Error::InvalidEcall(0))));
        assert_eq!((vm.registers()[A0], vm.cycles(), *vm.pc()), (5, 5 * 501, ECALL_BYTES));
    }

    #[test]
    fn the_limit_holds_after_a_syscall_and_before() {
        // 501 cycles for the first; the second is refused with 499 left, and passes the limit itself with 500.
        for (cycles_max, count) in [(1000, 1), (1001, 2)] {
            let (attempted, vm) = run(false, cycles_max);
            assert!(matches!(attempted, Attempted::Failed(Error::CyclesExceeded)));
            assert_eq!(vm.registers()[A0], count);
        }
        assert_eq!(run(false, 1002).1.registers()[A0], 2);
        assert_eq!(run(false, 1502).1.registers()[A0], 3);
    }

    #[test]
    #[should_panic(expected = "a syscall panics")]
    fn a_panic_goes_around_native_code() {
        run(true, 10_000);
    }
}
