//! Tests of the host side of native code.

use std::{arch::naked_asm, mem::offset_of};

use std::ops::Range;

use antares_abi::{FrameAt, HOST_TABLE_OFFSET, HostTable, STATE_OFFSET};
use ckb_vm::{DefaultMachineBuilder, Syscalls};

use super::*;

/// Native code that makes ecalls until the host ends it.
#[unsafe(naked)]
extern "C" fn ecalls() {
    naked_asm!(
        "mov rbx, rax",
        "2: mov rdi, rbx",
        "sub qword ptr [rbx + {cycles_left}], 500",
        "call [rbx + {ecall}]",
        "jmp 2b",
        cycles_left = const STATE_OFFSET + offset_of!(State, cycles_left),
        ecall = const HOST_TABLE_OFFSET + offset_of!(HostTable, ecall),
    )
}

struct NoCode;

impl Code for NoCode {
    fn texts(&self) -> &[Range<usize>] {
        &[]
    }

    fn frame(&self, _address: usize, _frame: &mut FrameAt) -> Option<usize> {
        None
    }

    fn thunk(&self, _pc: u64) -> Option<*const u8> {
        None
    }

    fn changed(&mut self, _core: &mut Core) -> bool {
        true
    }

    fn is_sealed(&self, _core: &Core) -> bool {
        true
    }
}

/// Counts in a0 with an extra cycle for each call; panics at 3 if `panics` is set.
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
    let mut core = Core::map(enter::table).unwrap();
    core.reset(0, 2, cycles_max);
    let mut vm = DefaultMachineBuilder::new(core).syscall(Box::new(Count { panics })).build();
    let stack = NativeStack::map(1 << 16).unwrap();
    (attempt(&mut vm, &stack, &mut NoCode, Start::Thunk(ecalls as *const u8), u64::MAX, None), vm)
}

#[test]
fn syscalls_change_registers_and_cycles() {
    let (attempted, vm) = run(false, 10_000);
    assert!(matches!(attempted, Attempted::Failed(Error::InvalidEcall(0))));
    assert_eq!((vm.registers()[A0], vm.cycles(), *vm.pc()), (5, 5 * 501, ECALL_BYTES));
}

#[test]
fn the_limit_holds_after_a_syscall_and_before() {
    // 501 cycles for the first call; with 499 left the second is refused, and with 500 left it exceeds the
    // limit itself.
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
