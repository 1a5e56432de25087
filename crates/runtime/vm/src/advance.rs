//! Runs a machine up to a breakpoint, for debuggers.
//!
//! ckb-vm's assembly runs from trace to trace and requests unknown traces. A trace ends before an instruction
//! to stop at, and that instruction itself gets no trace. So the assembly stops there each time and runs at
//! full speed until then. Single steps use ckb-vm's Rust interpreter.

use ckb_vm::{
    CoreMachine as _, DefaultMachine, Error, SupportMachine as _,
    ckb_vm_definitions::{
        asm::calculate_slot,
        instructions::{Instruction, OP_ECALL},
    },
    decoder::{Decoder, build_decoder},
    instructions::{execute, extract_opcode},
    machine::asm::AsmCoreMachine,
};

use crate::interpreter::{self, Observer, decode_trace_until};

/// The machine that a [`Stepper`] runs.
pub type Steppable = DefaultMachine<Box<AsmCoreMachine>>;

/// Why a machine paused before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// The next instruction is a stop address, a system call, or cannot be decoded.
    Address,
    /// The next trace would exceed the cycles.
    Cycles,
}

/// Steps and runs one machine.
pub struct Stepper(Decoder);

impl Stepper {
    /// Creates a stepper for `vm` and no other machine.
    #[must_use]
    pub fn new(vm: &Steppable) -> Self {
        Self(build_decoder::<u64>(vm.isa(), vm.version()))
    }

    /// Drops all decoded code, after a change of memory or of the stop addresses.
    pub fn forget(&mut self, vm: &mut Steppable) {
        // The assembly treats a trace of length 0 as missing.
        vm.inner_mut().traces.iter_mut().for_each(|trace| trace.length = 0);
        self.0.reset_instructions_cache();
    }

    /// The next instruction.
    ///
    /// # Errors
    /// If the instruction cannot be fetched or decoded.
    pub fn instruction(&mut self, vm: &mut Steppable) -> Result<Instruction, Error> {
        let pc = *vm.pc();
        self.0.decode(vm.memory_mut(), pc)
    }

    /// Executes one instruction.
    ///
    /// # Errors
    /// Those of ckb-vm. [`Error::Yield`] leaves the machine after the instruction, other errors before it.
    pub fn step(&mut self, vm: &mut Steppable) -> Result<(), Error> {
        let (pc, cycles) = (*vm.pc(), vm.cycles());
        let done = self.instruction(vm).and_then(|instruction| {
            vm.add_cycles(vm.instruction_cycle_func()(instruction))?;
            execute(instruction, vm)
        });
        if vm.reset_signal() {
            self.0.reset_instructions_cache();
        }
        if done.as_ref().is_err_and(|error| *error != Error::Yield) {
            vm.set_cycles(cycles);
            vm.inner_mut().update_pc(pc);
            vm.inner_mut().commit_pc();
        }
        done
    }

    /// Runs until the next instruction is a system call, satisfies `is_stop`, or would exceed `cycles`.
    ///
    /// # Errors
    /// Those of ckb-vm; the machine is then unusable. `cycles` must be before any such end.
    pub fn run(
        &mut self,
        vm: &mut Steppable,
        cycles: u64,
        is_stop: &dyn Fn(u64, Instruction) -> bool,
    ) -> Result<Paused, Error> {
        let limit = vm.max_cycles();
        vm.inner_mut().set_max_cycles(cycles);
        let stopped = interpreter::run(vm, &mut self.0, &mut Until(is_stop));
        vm.inner_mut().set_max_cycles(limit);
        match stopped {
            Ok(_) => Ok(Paused::Address),
            Err(Error::CyclesExceeded) => Ok(Paused::Cycles),
            Err(error) => Err(error),
        }
    }
}

/// Ends traces before system calls and addresses to stop at.
struct Until<'a>(&'a dyn Fn(u64, Instruction) -> bool);

impl Observer<Box<AsmCoreMachine>> for Until<'_> {
    fn add_trace(&mut self, vm: &mut Steppable, decoder: &mut Decoder) -> Result<bool, Error> {
        let ends_before = |pc, decoded: &Result<Instruction, Error>| {
            decoded.as_ref().map_or(true, |it| extract_opcode(*it) == OP_ECALL || self.0(pc, *it))
        };
        let trace = decode_trace_until(vm, decoder, ends_before)?;
        let has_any = trace.length > 0;
        if has_any {
            let slot = calculate_slot(trace.address);
            vm.inner_mut().traces[slot] = trace;
        }
        Ok(has_any)
    }
}
