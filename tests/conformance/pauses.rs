//! Pauses from another thread: a script that is paused repeatedly resumes where it was, in both tiers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use antares_abi::Isa;
use antares_tests::{guests, kept, oracle::Lines};
use antares_vm::{MachineSession, NativeMachine, Program, Tier};
use bytes::Bytes;
use ckb_vm::{
    DefaultMachineBuilder, DefaultMachineRunner, Error, SupportMachine,
    cost_model::estimate_cycles,
    machine::{Pause, asm::AsmMachine},
};

use crate::check::script;

/// A limit that no guest here reaches.
const CYCLES_MAX: u64 = 1 << 40;

/// Runs `elf` on `M`, paused at random points if `pauses`; returns exit code, cycles and number of pauses.
fn run<M: DefaultMachineRunner<Inner: SupportMachine>>(
    elf: &Bytes,
    args: &[Bytes],
    vm_version: u32,
    pauses: bool,
) -> (i8, u64, u32) {
    let core = M::Inner::new(Isa::of_version(vm_version).0, vm_version, CYCLES_MAX);
    let machine = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(estimate_cycles))
        .syscall(Box::new(Lines::default()))
        .build();
    let mut machine = M::new(machine);
    machine.load_program(elf, args.iter().cloned().map(Ok)).unwrap();
    let pause = Pause::new();
    machine.machine_mut().set_pause(pause.clone());
    if pauses {
        pause.interrupt();
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let (mut cycles, mut count) = (0, 0);
    let code = thread::scope(|scope| {
        let done = is_done.clone();
        scope.spawn(move || {
            for turn in 0_u64.. {
                if done.load(Ordering::Relaxed) || !pauses {
                    return;
                }
                pause.interrupt();
                thread::sleep(Duration::from_micros(50 + turn * 37 % 400));
            }
        });
        loop {
            // As ckb-script between its turns.
            let result = machine.run();
            cycles += machine.machine().cycles();
            machine.inner_mut().set_cycles(0);
            machine.inner_mut().set_max_cycles(CYCLES_MAX - cycles);
            match result {
                Err(Error::Pause) => count += 1,
                end => {
                    is_done.store(true, Ordering::Relaxed);
                    return end.unwrap();
                }
            }
        }
    });
    (code, cycles, count)
}

#[test]
fn paused_scripts_end_as_if_they_were_not() {
    for (name, argument) in [("secp256k1", "60"), ("fib", "27"), ("interpreter", "200"), ("sort", "10")] {
        let elf = Bytes::from(guests::bytes(name).unwrap());
        let args = [Bytes::from(argument)];
        // The guests do not support version 0's format of arguments.
        for vm_version in 1..3 {
            let library = kept::library(&elf, script(vm_version)).unwrap().unwrap();
            let program = Arc::new(Program::new(elf.clone(), library).unwrap());
            let expected = run::<AsmMachine>(&elf, &args, vm_version, false);
            let session = MachineSession::new(Tier::Native, vec![program]);
            let once = session.enter(|| run::<NativeMachine>(&elf, &args, vm_version, false));
            assert_eq!((once, session.restarted()), (expected, None), "{name}, version {vm_version}");
            let (code, cycles, pauses) =
                session.enter(|| run::<NativeMachine>(&elf, &args, vm_version, true));
            assert_eq!((code, cycles, 0, None), (expected.0, expected.1, expected.2, session.restarted()));
            assert!(pauses > 0, "{name}, version {vm_version} was never paused");
            let counts = session.take_counts();
            assert_eq!((counts.native_cycles, counts.interpreted_cycles), (2 * cycles, 0));
        }
    }
}
