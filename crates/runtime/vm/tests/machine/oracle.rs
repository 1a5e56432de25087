//! ckb-vm's own unchanged machine as the oracle, and the comparison with ours.

use antares_vm::{Limits, Machine, Outcome, Report, RunScript};
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachineBuilder, DefaultMachineRunner, Error, Memory, RISCV_MAX_MEMORY, Register,
    SupportMachine, Syscalls,
    cost_model::estimate_cycles,
    machine::asm::{AsmCoreMachine, AsmMachine},
    registers::{A0, A7},
};
use std::sync::{Arc, Mutex};

/// Limits that small guests never reach.
pub(crate) const ROOMY: Limits = Limits { cycles_max: 10_000_000, debug_bytes_max: 1 << 20 };

/// How ckb-vm ends a script.
pub(crate) struct Oracle {
    pub(crate) outcome: Outcome,
    pub(crate) cycles: u64,
    pub(crate) load_cycles: u64,
    pub(crate) debug: Vec<String>,
    registers: [u64; 32],
    pc: u64,
    memory: Vec<u8>,
}

/// Syscall 2177, byte by byte, as ckb-script writes it.
struct Debugger(Arc<Mutex<Vec<String>>>);

impl<M: SupportMachine> Syscalls<M> for Debugger {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        if machine.registers()[A7].to_u64() != 2177 {
            return Ok(false);
        }
        let mut address = machine.registers()[A0].to_u64();
        let mut buffer = Vec::new();
        loop {
            let byte = machine.memory_mut().load8(&M::REG::from_u64(address))?.to_u8();
            if byte == 0 {
                break;
            }
            buffer.push(byte);
            address = address.checked_add(1).ok_or(Error::MemOutOfBound)?;
        }
        machine.add_cycles_no_checking((buffer.len() as u64).div_ceil(4))?;
        let text = String::from_utf8(buffer)
            .map_err(|error| Error::External(format!("String from buffer {error:?}")))?;
        self.0.lock().unwrap().push(text);
        Ok(true)
    }
}

/// Runs `script` in a stock `AsmMachine`.
pub(crate) fn request(script: &RunScript<'_>, cycles_max: u64) -> Oracle {
    let debug = Arc::new(Mutex::new(Vec::new()));
    let core = <Box<AsmCoreMachine> as SupportMachine>::new(script.isa, script.vm_version, cycles_max);
    let machine = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(estimate_cycles))
        .syscall(Box::new(Debugger(Arc::clone(&debug))))
        .build();
    let mut vm = AsmMachine::new(machine);
    let loaded = vm.load_program(script.elf, script.args.iter().cloned().map(Ok));
    let load_cycles = *loaded.as_ref().unwrap_or(&0);
    let outcome = match loaded.and_then(|_| vm.run()) {
        Ok(code) => Outcome::Exit(code),
        Err(error) => antares_vm::failure(error),
    };
    let memory = vm.machine.memory_mut().load_bytes(0, RISCV_MAX_MEMORY as u64).unwrap().to_vec();
    let registers = vm.machine.registers().try_into().unwrap();
    let (cycles, pc) = (vm.machine.cycles(), *vm.machine.pc());
    let debug = debug.lock().unwrap().clone();
    Oracle { outcome, cycles, load_cycles: load_cycles.div_ceil(4), debug, registers, pc, memory }
}

/// Panics unless `report` and the final state of `machine` equal those of ckb-vm.
#[track_caller]
pub(crate) fn compare(oracle: &Oracle, machine: &Machine, report: &Report) {
    let debug = Vec::from(report.debug.clone());
    let ours = (&report.outcome, report.cycles, report.load_cycles, debug, machine.pc());
    assert_eq!(ours, (&oracle.outcome, oracle.cycles, oracle.load_cycles, oracle.debug.clone(), oracle.pc));
    // Native code does not write other registers back when it exits.
    let registers = if report.native_cycles == 0 { 0..32 } else { 10..18 };
    assert_eq!(machine.registers()[registers.clone()], oracle.registers[registers]);
    if machine.memory() == oracle.memory {
        return;
    }
    let differs = machine.memory().iter().zip(&oracle.memory).position(|(ours, theirs)| ours != theirs);
    panic!("guest memory differs at {differs:x?}");
}

/// A script for version 2 without arguments.
pub(crate) fn script(elf: &Bytes) -> RunScript<'_> {
    RunScript { elf, args: &[], vm_version: 2, isa: 3 }
}
