//! ckb-vm's assembly interpreter, one straight line of code at a time, so that everything it does can be counted.
//!
//! It runs the very traces that `AsmMachine` would run, found and replaced by the same rules, so outcome, cycles and errors
//! are those of `AsmMachine`. But a trace stays usable only for as long as it is the one that runs next: the assembly
//! then comes back after each, or after as many passes as it makes over the same one.

use ckb_vm::{
    CoreMachine, DefaultMachine, Error, ISA_MOP, Machine as _, SupportMachine,
    ckb_vm_definitions::asm::{
        RET_DECODE_TRACE, RET_DYNAMIC_JUMP, RET_EBREAK, RET_ECALL, RET_PAUSE, RET_SLOWPATH, TRACE_SIZE,
        calculate_slot,
    },
    decoder::{Decoder, build_decoder},
    machine::{VERSION0, VERSION2},
    registers::{A7, SP},
};

use crate::{
    calls::{Calls, above},
    interpreter::{decode_trace, error, execute, execute_slowly},
    limits::RECORDED_CALLS_MAX,
    memory::Core,
    recording::{End, Place, Recorded, Recording},
};

/// A trace as it is in the machine.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    address: u64,
    cycles: u64,
    /// Bytes of code; 0 for an empty slot.
    length: u8,
    /// Which line of the recording it is, if that has room for it.
    line: Option<u32>,
}

/// The interpreter of one machine that is profiled.
pub(crate) struct Tracer {
    decoder: Decoder,
    slots: Vec<Slot>,
    /// The slot whose trace can run.
    active: Option<usize>,
}

impl Tracer {
    /// The interpreter of a machine that has no traces.
    pub(crate) fn new(vm: &DefaultMachine<Core>) -> Self {
        let decoder = build_decoder::<u64>(vm.isa(), vm.version());
        Self { decoder, slots: vec![Slot::default(); TRACE_SIZE], active: None }
    }

    /// Runs the machine until its script exits.
    ///
    /// # Errors
    /// Those of `AsmMachine::run`.
    pub(crate) fn run(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        calls: &mut Calls,
        recording: &mut Recording,
        execs: &mut u32,
    ) -> Result<i8, Error> {
        if vm.isa() & ISA_MOP != 0 && vm.version() == VERSION0 {
            return Err(Error::InvalidVersion);
        }
        vm.set_running(true);
        while vm.running() {
            if vm.reset_signal() {
                self.replaced(vm, calls, recording, execs);
            }
            let before = vm.cycles();
            let result = execute(vm);
            let cycles = vm.cycles().wrapping_sub(before);
            let (line, passes) = self.settle(vm, cycles, calls.context, recording);
            if matches!(result, RET_DECODE_TRACE | RET_PAUSE) && passes > 0 {
                follow(vm, calls, recording, line, passes);
            }
            match result {
                RET_DECODE_TRACE => self.next(vm, calls.program, recording)?,
                RET_ECALL => ecall(vm, calls, recording)?,
                RET_EBREAK => vm.ebreak()?,
                RET_DYNAMIC_JUMP => {}
                RET_SLOWPATH => execute_slowly(vm, &mut self.decoder)?,
                other => return Err(error(other, vm)),
            }
        }
        Ok(vm.exit_code())
    }

    /// Counts what the active trace did, and takes it away. Gives its line, and how often it ran.
    fn settle(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        cycles: u64,
        context: u32,
        recording: &mut Recording,
    ) -> (Option<u32>, u64) {
        let Some(index) = self.active.take() else {
            recording.spend_unknown(cycles);
            return (None, 0);
        };
        vm.inner_mut().as_mut().traces[index].length = 0;
        let slot = self.slots[index];
        // An instruction costs at least a cycle, and a trace has one.
        let passes = cycles / slot.cycles.max(1);
        if passes > 0 {
            recording.count(context, slot.line, passes, passes * slot.cycles);
        }
        recording.spend_unknown(cycles - passes * slot.cycles);
        (slot.line, passes)
    }

    /// Lets the trace at the machine's pc run next.
    fn next(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        program: u32,
        recording: &mut Recording,
    ) -> Result<(), Error> {
        let pc = *vm.pc();
        // Before version 2 the assembly compares the lower half.
        let compared = if vm.version() < VERSION2 { pc & u64::from(u32::MAX) } else { pc };
        let index = calculate_slot(pc);
        let slot = &mut self.slots[index];
        if slot.length == 0 || slot.address != compared {
            let trace = decode_trace(vm, &mut self.decoder)?;
            let line = recording.line(program, &trace);
            *slot = Slot { address: pc, cycles: trace.cycles, length: trace.length, line };
            vm.inner_mut().as_mut().traces[index] = trace;
        }
        vm.inner_mut().as_mut().traces[index].length = slot.length;
        self.active = Some(index);
        Ok(())
    }

    /// A system call has put another program into the machine, and has cleared all traces.
    fn replaced(
        &mut self,
        vm: &DefaultMachine<Core>,
        calls: &mut Calls,
        recording: &mut Recording,
        execs: &mut u32,
    ) {
        self.decoder.reset_instructions_cache();
        self.slots.fill(Slot::default());
        self.active = None;
        *execs += 1;
        let context = above(recording, Some(calls), Place::Exec(*execs));
        let program = recording.program(Recorded::new(None, vm.version(), vm.isa()));
        calls.replace(context, program);
    }
}

/// Follows the jump at the end of a line that ran `passes` times.
fn follow(
    vm: &DefaultMachine<Core>,
    calls: &mut Calls,
    recording: &mut Recording,
    line: Option<u32>,
    passes: u64,
) {
    let sp = vm.registers()[SP];
    match recording.end(line) {
        End::Falls => {}
        End::Jumps => calls.jump(*vm.pc(), sp),
        End::Calls { site, return_pc, link } => {
            for _ in 0..passes.min(RECORDED_CALLS_MAX as u64) {
                calls.call(recording, site, return_pc, link, sp);
            }
        }
    }
}

/// Makes the system call before the machine's pc. What it costs counts for it even if it fails.
fn ecall(vm: &mut DefaultMachine<Core>, calls: &mut Calls, recording: &mut Recording) -> Result<(), Error> {
    let number = vm.registers()[A7];
    let context = calls.syscall(recording, vm.pc().wrapping_sub(4), number);
    let before = vm.cycles();
    let result = vm.ecall();
    recording.spend(context, vm.cycles().saturating_sub(before));
    calls.waiting = Some(context);
    result
}
