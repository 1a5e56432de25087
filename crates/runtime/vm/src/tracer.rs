//! Runs ckb-vm's assembly interpreter one trace at a time, so that everything can be counted.
//!
//! It runs the same traces as `AsmMachine`, found and replaced by the same rules, so outcome, cycles and
//! errors are equal. But each trace stays enabled only while it is the next one to run. So the assembly
//! returns after each trace, or after consecutive passes of the same trace.

use ckb_vm::{
    CoreMachine, DefaultMachine, Error, Machine as _, SupportMachine,
    ckb_vm_definitions::{
        asm::{
            RET_DECODE_TRACE, RET_DYNAMIC_JUMP, RET_MAX_CYCLES_EXCEEDED, RET_PAUSE, TRACE_SIZE,
            calculate_slot,
        },
        instructions::{OP_CUSTOM_TRACE_END, OP_EBREAK, OP_ECALL},
    },
    decoder::{Decoder, build_decoder},
    instructions::{execute as execute_one, extract_opcode, instruction_length},
    machine::VERSION2,
    registers::{A7, SP},
};

use crate::{
    calls::{Calls, above},
    interpreter::{Observer, decode_trace, error, execute, run},
    limits::RECORDED_CALLS_MAX,
    memory::Core,
    recording::{End, Recorded, Recording, StackLocation},
    watch::Watch,
};

/// A copy of a trace slot of the machine.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    address: u64,
    cycles: u64,
    /// Bytes of code; 0 for an empty slot.
    length: u8,
    /// The trace's number in the recording, if within the limit.
    line: Option<u32>,
}

/// The interpreter of a profiled machine.
pub(crate) struct Tracer {
    decoder: Decoder,
    slots: Vec<Slot>,
    /// The slot of the enabled trace.
    active: Option<usize>,
}

/// Recording targets of a run.
pub(crate) struct Into<'a> {
    pub(crate) calls: &'a mut Calls,
    pub(crate) recording: &'a mut Recording,
    pub(crate) execs: &'a mut u32,
    pub(crate) watch: Option<&'a mut Watch>,
}

impl Tracer {
    /// Creates the interpreter of a machine that has no traces.
    pub(crate) fn new(vm: &DefaultMachine<Core>) -> Self {
        let decoder = build_decoder::<u64>(vm.isa(), vm.version());
        Self { decoder, slots: vec![Slot::default(); TRACE_SIZE], active: None }
    }

    /// Runs the machine until its script exits.
    ///
    /// # Errors
    /// Those of `AsmMachine::run`.
    pub(crate) fn run(&mut self, vm: &mut DefaultMachine<Core>, into: Into<'_>) -> Result<i8, Error> {
        let Self { decoder, slots, active } = self;
        run(vm, decoder, &mut Tracing { slots, active, to: into })?;
        Ok(vm.exit_code())
    }
}

/// A run of a [`Tracer`].
struct Tracing<'a> {
    slots: &'a mut [Slot],
    active: &'a mut Option<usize>,
    to: Into<'a>,
}

impl Observer<Core> for Tracing<'_> {
    /// Enables the trace at the machine's pc.
    fn add_trace(&mut self, vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<bool, Error> {
        let pc = *vm.pc();
        // Before version 2 the assembly compares only the lower half.
        let compared = if vm.version() < VERSION2 { pc & u64::from(u32::MAX) } else { pc };
        let index = calculate_slot(pc);
        let slot = &mut self.slots[index];
        if slot.length == 0 || slot.address != compared {
            let trace = decode_trace(vm, decoder)?;
            let line = self.to.recording.line(self.to.calls.program, &trace);
            *slot = Slot { address: pc, cycles: trace.cycles, length: trace.length, line };
            vm.inner_mut().as_mut().traces[index] = trace;
        }
        vm.inner_mut().as_mut().traces[index].length = slot.length;
        *self.active = Some(index);
        Ok(true)
    }

    /// Handles a system call that loaded another program into the machine and cleared all traces.
    fn replace(&mut self, vm: &DefaultMachine<Core>) {
        self.slots.fill(Slot::default());
        *self.active = None;
        *self.to.execs += 1;
        let context = above(self.to.recording, Some(self.to.calls), StackLocation::Exec(*self.to.execs));
        let program = self.to.recording.program(Recorded::new(None, vm.version(), vm.isa()));
        self.to.calls.replace(context, program);
        if let Some(watch) = self.to.watch.as_deref_mut() {
            watch.forget_running();
        }
    }

    fn execute(&mut self, vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<u8, Error> {
        if let Some(watch) = self.to.watch.as_mut().filter(|watch| watch.is_following()) {
            watch.arrive();
            return self.step_trace(vm, decoder).map(|()| RET_DYNAMIC_JUMP);
        }
        let (before, max) = (vm.cycles(), vm.max_cycles());
        // Up to the cycles at which instructions are followed.
        let limit = self.to.watch.as_ref().map_or(max, |watch| watch.limit().min(max));
        vm.set_max_cycles(limit);
        let result = execute(vm);
        vm.set_max_cycles(max);
        let (line, passes) = self.settle(vm, vm.cycles().wrapping_sub(before));
        if matches!(result, RET_DECODE_TRACE | RET_PAUSE) && passes > 0 {
            self.follow(vm, line, passes);
        }
        match &mut self.to.watch {
            Some(watch) if result == RET_MAX_CYCLES_EXCEEDED && limit < max => {
                watch.follow();
                Ok(RET_DYNAMIC_JUMP)
            }
            _ => Ok(result),
        }
    }

    /// Makes the system call before the machine's pc. Its cycles count even if it fails.
    fn ecall(&mut self, vm: &mut DefaultMachine<Core>) -> Result<(), Error> {
        let number = vm.registers()[A7];
        let pc = vm.pc().wrapping_sub(4);
        let context = self.to.calls.syscall(self.to.recording, pc, number);
        let index = self.to.watch.as_mut().map(|watch| watch.call(vm, self.to.calls, pc));
        let before = vm.cycles();
        let result = vm.ecall();
        let cost = vm.cycles().saturating_sub(before);
        self.to.recording.spend(context, cost);
        self.to.calls.waiting = Some(context);
        if let Some((watch, index)) = self.to.watch.as_mut().zip(index) {
            watch.called(vm, index, cost, &result);
        }
        result
    }
}

impl Tracing<'_> {
    /// Runs the next trace like the assembly, one instruction after another.
    fn step_trace(&mut self, vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<(), Error> {
        if vm.pause().has_interrupted() {
            return Err(error(RET_PAUSE, vm));
        }
        self.add_trace(vm, decoder)?;
        let Some(index) = self.active.take() else { return Ok(()) };
        let instructions = vm.inner_mut().as_mut().traces[index].instructions;
        vm.inner_mut().as_mut().traces[index].length = 0;
        let slot = self.slots[index];
        let cycles = vm.cycles().checked_add(slot.cycles).ok_or(Error::CyclesOverflow)?;
        if cycles > vm.max_cycles() {
            return Err(Error::CyclesExceeded);
        }
        vm.set_cycles(cycles);
        self.to.recording.count(self.to.calls.context, slot.line, 1, slot.cycles);
        for instruction in instructions {
            let (pc, opcode) = (*vm.pc(), extract_opcode(instruction));
            if opcode == OP_CUSTOM_TRACE_END {
                break;
            }
            if let Some(watch) = &mut self.to.watch {
                watch.step(self.to.calls, pc, instruction);
            }
            if matches!(opcode, OP_ECALL | OP_EBREAK) {
                vm.update_pc(pc.wrapping_add(u64::from(instruction_length(instruction))));
                vm.commit_pc();
                return if opcode == OP_ECALL { self.ecall(vm) } else { vm.ebreak() };
            }
            let before = *vm.memory().guest_registers();
            execute_one(instruction, vm)?;
            if let Some(watch) = &mut self.to.watch {
                watch.stepped(vm, self.to.calls.program, &before);
            }
        }
        self.follow(vm, slot.line, 1);
        Ok(())
    }

    /// Counts the passes of the enabled trace and disables it. Returns its number and passes.
    fn settle(&mut self, vm: &mut DefaultMachine<Core>, cycles: u64) -> (Option<u32>, u64) {
        let Some(index) = self.active.take() else {
            self.to.recording.spend_unknown(cycles);
            return (None, 0);
        };
        vm.inner_mut().as_mut().traces[index].length = 0;
        let slot = self.slots[index];
        // Each instruction costs at least one cycle, and a trace is not empty.
        let passes = cycles / slot.cycles.max(1);
        if passes > 0 {
            self.to.recording.count(self.to.calls.context, slot.line, passes, passes * slot.cycles);
        }
        self.to.recording.spend_unknown(cycles - passes * slot.cycles);
        (slot.line, passes)
    }

    /// Follows the jump at the end of a trace that ran `passes` times.
    fn follow(&mut self, vm: &DefaultMachine<Core>, line: Option<u32>, passes: u64) {
        let sp = vm.registers()[SP];
        match self.to.recording.end(line) {
            End::Falls => {}
            End::Jumps => self.to.calls.jump(*vm.pc(), sp),
            End::Calls { site, return_pc, link } => {
                for _ in 0..passes.min(RECORDED_CALLS_MAX as u64) {
                    self.to.calls.call(self.to.recording, site, return_pc, link, sp);
                }
            }
        }
    }
}
