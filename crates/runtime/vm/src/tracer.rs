//! Runs ckb-vm's assembly interpreter one trace at a time, so that everything can be counted.
//!
//! It runs the same traces as `AsmMachine`, found and replaced by the same rules, so outcome, cycles and
//! errors are equal. But each trace stays enabled only while it is the next one to run. So the assembly
//! returns after each trace, or after consecutive passes of the same trace.

use ckb_vm::{
    CoreMachine, DefaultMachine, Error, ISA_MOP, Machine as _, SupportMachine,
    ckb_vm_definitions::{
        asm::{
            RET_DECODE_TRACE, RET_DYNAMIC_JUMP, RET_EBREAK, RET_ECALL, RET_MAX_CYCLES_EXCEEDED, RET_PAUSE,
            RET_SLOWPATH, TRACE_SIZE, calculate_slot,
        },
        instructions::{OP_CUSTOM_TRACE_END, OP_EBREAK, OP_ECALL},
    },
    decoder::{Decoder, build_decoder},
    instructions::{execute as execute_one, extract_opcode, instruction_length},
    machine::{VERSION0, VERSION2},
    registers::{A7, SP},
};

use crate::{
    calls::{Calls, above},
    interpreter::{decode_trace, error, execute, execute_slowly},
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

/// Recording targets of a run.
pub(crate) struct Into<'a> {
    pub(crate) recording: &'a mut Recording,
    pub(crate) execs: &'a mut u32,
    pub(crate) watch: Option<&'a mut Watch>,
}

/// The interpreter of a profiled machine.
pub(crate) struct Tracer {
    decoder: Decoder,
    slots: Vec<Slot>,
    /// The slot of the enabled trace.
    active: Option<usize>,
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
    pub(crate) fn run(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        calls: &mut Calls,
        Into { recording, execs, watch }: &mut Into<'_>,
    ) -> Result<i8, Error> {
        if vm.isa() & ISA_MOP != 0 && vm.version() == VERSION0 {
            return Err(Error::InvalidVersion);
        }
        vm.set_running(true);
        while vm.running() {
            if vm.reset_signal() {
                self.replaced(vm, calls, recording, execs);
                if let Some(watch) = watch.as_deref_mut() {
                    watch.forget_running();
                }
            }
            if let Some(watch) = watch.as_deref_mut().filter(|watch| watch.is_following()) {
                self.follow(vm, calls, recording, watch)?;
                continue;
            }
            let before = vm.cycles();
            let result = execute_until(vm, watch.as_deref_mut());
            let cycles = vm.cycles().wrapping_sub(before);
            let (line, passes) = self.settle(vm, cycles, calls.context, recording);
            if matches!(result, RET_DECODE_TRACE | RET_PAUSE) && passes > 0 {
                follow(vm, calls, recording, line, passes);
            }
            match result {
                RET_DECODE_TRACE => self.next(vm, calls.program, recording)?,
                RET_ECALL => ecall(vm, calls, recording, watch.as_deref_mut())?,
                RET_MAX_CYCLES_EXCEEDED if has_come_to(vm, watch.as_deref_mut()) => {}
                RET_EBREAK => vm.ebreak()?,
                RET_DYNAMIC_JUMP => {}
                RET_SLOWPATH => execute_slowly(vm, &mut self.decoder)?,
                other => return Err(error(other, vm)),
            }
        }
        Ok(vm.exit_code())
    }

    /// Runs the next trace like the assembly, one instruction after another.
    fn follow(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        calls: &mut Calls,
        recording: &mut Recording,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        watch.arrive();
        if vm.pause().has_interrupted() {
            return Err(error(RET_PAUSE, vm));
        }
        self.next(vm, calls.program, recording)?;
        let Some(index) = self.active.take() else { return Ok(()) };
        let instructions = vm.inner_mut().as_mut().traces[index].instructions;
        vm.inner_mut().as_mut().traces[index].length = 0;
        let slot = self.slots[index];
        let cycles = vm.cycles().checked_add(slot.cycles).ok_or(Error::CyclesOverflow)?;
        if cycles > vm.max_cycles() {
            return Err(Error::CyclesExceeded);
        }
        vm.set_cycles(cycles);
        recording.count(calls.context, slot.line, 1, slot.cycles);
        for instruction in instructions {
            let (pc, opcode) = (*vm.pc(), extract_opcode(instruction));
            if opcode == OP_CUSTOM_TRACE_END {
                break;
            }
            watch.step(calls, pc, instruction);
            if matches!(opcode, OP_ECALL | OP_EBREAK) {
                vm.update_pc(pc.wrapping_add(u64::from(instruction_length(instruction))));
                vm.commit_pc();
                return if opcode == OP_ECALL {
                    ecall(vm, calls, recording, Some(watch))
                } else {
                    vm.ebreak()
                };
            }
            let before = *vm.memory().guest_registers();
            execute_one(instruction, vm)?;
            watch.stepped(vm, calls.program, &before);
        }
        follow(vm, calls, recording, slot.line, 1);
        Ok(())
    }

    /// Counts the passes of the enabled trace and disables it. Returns its number and passes.
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
        // Each instruction costs at least one cycle, and a trace is not empty.
        let passes = cycles / slot.cycles.max(1);
        if passes > 0 {
            recording.count(context, slot.line, passes, passes * slot.cycles);
        }
        recording.spend_unknown(cycles - passes * slot.cycles);
        (slot.line, passes)
    }

    /// Enables the trace at the machine's pc.
    fn next(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        program: u32,
        recording: &mut Recording,
    ) -> Result<(), Error> {
        let pc = *vm.pc();
        // Before version 2 the assembly compares only the lower half.
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

    /// Handles a system call that loaded another program into the machine and cleared all traces.
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
        let context = above(recording, Some(calls), StackLocation::Exec(*execs));
        let program = recording.program(Recorded::new(None, vm.version(), vm.isa()));
        calls.replace(context, program);
    }
}

/// Follows the jump at the end of a trace that ran `passes` times.
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

/// Runs traces up to the cycles at which `watch` starts to follow instructions.
fn execute_until(vm: &mut DefaultMachine<Core>, watch: Option<&mut Watch>) -> u8 {
    let max = vm.max_cycles();
    let limit = watch.map_or(max, |watch| watch.limit().min(max));
    vm.set_max_cycles(limit);
    let result = execute(vm);
    vm.set_max_cycles(max);
    result
}

/// Whether the exceeded limit is where `watch` starts to follow instructions. If so, starts following.
fn has_come_to(vm: &DefaultMachine<Core>, watch: Option<&mut Watch>) -> bool {
    let is_it = |watch: &&mut Watch| watch.limit() < vm.max_cycles();
    watch.filter(is_it).map(Watch::follow).is_some()
}

/// Makes the system call before the machine's pc. Its cycles count even if it fails.
fn ecall(
    vm: &mut DefaultMachine<Core>,
    calls: &mut Calls,
    recording: &mut Recording,
    watch: Option<&mut Watch>,
) -> Result<(), Error> {
    let number = vm.registers()[A7];
    let pc = vm.pc().wrapping_sub(4);
    let context = calls.syscall(recording, pc, number);
    let watched = watch.map(|watch| (watch.call(vm, calls, pc), watch));
    let before = vm.cycles();
    let result = vm.ecall();
    let cost = vm.cycles().saturating_sub(before);
    recording.spend(context, cost);
    calls.waiting = Some(context);
    if let Some((index, watch)) = watched {
        watch.called(vm, index, cost, &result);
    }
    result
}
