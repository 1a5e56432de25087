//! ckb-vm's assembly interpreter, left wherever there is native code for what comes next.
//!
//! The assembly runs from trace to trace (straight lines of up to 16 instructions) and asks for those that it
//! has not met. Where there is native code it is given none: so it stops there, each time.
//!
//! For VM version 2 alone: in earlier versions what the assembly does for a pc beyond 2^32 depends on the
//! traces that it has (ckb-vm issue 425).

use ckb_vm::ckb_vm_definitions::instructions::{Instruction, OP_CUSTOM_TRACE_END};
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, Machine as _, SupportMachine,
    ckb_vm_definitions::asm::{
        RET_CYCLES_OVERFLOW, RET_DECODE_TRACE, RET_DYNAMIC_JUMP, RET_EBREAK, RET_ECALL,
        RET_INVALID_PERMISSION, RET_MAX_CYCLES_EXCEEDED, RET_OUT_OF_BOUND, RET_PAUSE, RET_SLOWPATH,
        TRACE_ITEM_LENGTH, Trace, calculate_slot,
    },
    decoder::{Decoder, build_decoder},
    instructions::{
        blank_instruction, execute_instruction, extract_opcode, instruction_length,
        is_basic_block_end_instruction,
    },
    machine::asm::{AsmCoreMachineRevealer, ckb_vm_asm_labels, ckb_vm_x64_execute},
};

use crate::{
    code::{Code, call},
    memory::Core,
    observed::Observed,
};

/// Why the interpreter stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The script exited.
    Exited,
    /// There is native code for the pc.
    Native,
}

/// The interpreter of one machine.
pub(crate) struct Interpreter {
    decoder: Decoder,
    /// Slots of the machine that it has put traces into.
    slots: Vec<usize>,
}

impl Interpreter {
    pub(crate) fn new(machine: &DefaultMachine<Core>) -> Self {
        Self { decoder: build_decoder::<u64>(machine.isa(), machine.version()), slots: Vec::new() }
    }

    /// Takes its traces out of the machine.
    pub(crate) fn store_traces(self, core: &mut Core) {
        let traces = &mut core.as_mut().traces;
        self.slots.into_iter().for_each(|slot| traces[slot] = Trace::default());
    }

    /// Interprets from the machine's pc, for which there is no native code, and notes where that leads.
    ///
    /// # Errors
    /// Those of ckb-vm. Yield and Pause leave the machine ready to go on; where cycles and registers stand
    /// after others depends on the traces, and is not the same as without native code.
    pub(crate) fn run(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        code: &mut dyn Code,
        mut observed: Option<&mut Observed>,
    ) -> Result<Stop, Error> {
        vm.set_running(true);
        while vm.running() {
            let result = execute(vm);
            match result {
                RET_DECODE_TRACE if code.thunk(*vm.pc()).is_some() => return Ok(Stop::Native),
                RET_DECODE_TRACE => self.add_trace(vm, observed.as_deref_mut())?,
                RET_ECALL => _ = call(vm, code)?,
                RET_EBREAK => vm.ebreak()?,
                RET_DYNAMIC_JUMP => {}
                RET_SLOWPATH => execute_slowly(vm, &mut self.decoder)?,
                other => return Err(error(other, vm)),
            }
        }
        Ok(Stop::Exited)
    }

    /// Decodes the trace at the machine's pc.
    fn add_trace(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        observed: Option<&mut Observed>,
    ) -> Result<(), Error> {
        let trace = decode_trace(vm, &mut self.decoder)?;
        if let Some(observed) = observed {
            observed.note(vm, &trace);
        }
        let slot = calculate_slot(trace.address);
        let traces = &mut vm.inner_mut().as_mut().traces;
        if traces[slot].length == 0 {
            self.slots.push(slot);
        }
        traces[slot] = trace;
        Ok(())
    }
}

/// Runs traces until one is missing or something else is to be done: one of ckb-vm's `RET_` numbers.
pub(crate) fn execute<R: AsmCoreMachineRevealer>(vm: &mut DefaultMachine<R>) -> u8 {
    let pause = vm.pause();
    // SAFETY: the machine is a whole AsmCoreMachine, and the byte lives as long as `pause`.
    unsafe { ckb_vm_x64_execute(&raw mut **vm.inner_mut().as_mut(), pause.get_raw_ptr()) }
}

/// Executes the instruction before the machine's pc, which the assembly leaves to others.
pub(crate) fn execute_slowly<R: AsmCoreMachineRevealer>(
    vm: &mut DefaultMachine<R>,
    decoder: &mut Decoder,
) -> Result<(), Error> {
    let pc = vm.pc().wrapping_sub(4);
    let instruction = decoder.decode(vm.memory_mut(), pc)?;
    execute_instruction(instruction, vm)
}

/// The trace at the machine's pc, as ckb-vm's `AsmMachine` cuts it.
pub(crate) fn decode_trace(vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<Trace, Error> {
    let start = *vm.pc();
    let (mut trace, mut pc, mut count) = (Trace::default(), start, 0);
    while count < TRACE_ITEM_LENGTH {
        let instruction = decoder.decode(vm.memory_mut(), pc)?;
        pc += u64::from(instruction_length(instruction));
        trace.cycles += vm.instruction_cycle_func()(instruction);
        set(&mut trace, count, instruction);
        count += 1;
        if is_basic_block_end_instruction(instruction) {
            break;
        }
    }
    set(&mut trace, count, blank_instruction(OP_CUSTOM_TRACE_END));
    trace.address = start;
    // ckb-vm keeps the lowest byte, and goes on at the start and that; it only refuses 0.
    trace.length = (pc - start).to_le_bytes()[0];
    if trace.length == 0 {
        return Err(Error::TraceLengthError);
    }
    Ok(trace)
}

/// Whether the trace at the machine's pc can run.
///
/// # Errors
/// There is no code, or the limit is passed.
pub(crate) fn check_next_trace(vm: &mut DefaultMachine<Core>) -> Result<(), Error> {
    let mut decoder = build_decoder::<u64>(vm.isa(), vm.version());
    let trace = decode_trace(vm, &mut decoder)?;
    let is_within = vm.cycles().saturating_add(trace.cycles) <= vm.max_cycles();
    if is_within { Ok(()) } else { Err(Error::CyclesExceeded) }
}

/// Puts an instruction and the address of the assembly for it into a trace.
pub(crate) fn set(trace: &mut Trace, index: usize, instruction: Instruction) {
    let labels = ckb_vm_asm_labels as *const () as *const u32;
    let opcode = usize::from(extract_opcode(instruction) & 0xff);
    // SAFETY: ckb-vm's table has a distance from its own start for each of the 256 opcodes that a byte can
    // name.
    let distance = unsafe { labels.add(opcode).read() };
    trace.instructions[index] = instruction;
    trace.thread[index] = labels as u64 + u64::from(distance);
}

/// What ckb-vm makes of a number that ends a run.
pub(crate) fn error<R: AsmCoreMachineRevealer>(result: u8, vm: &DefaultMachine<R>) -> Error {
    match result {
        RET_MAX_CYCLES_EXCEEDED => Error::CyclesExceeded,
        RET_CYCLES_OVERFLOW => Error::CyclesOverflow,
        RET_OUT_OF_BOUND => Error::MemOutOfBound,
        RET_INVALID_PERMISSION => Error::MemWriteOnExecutablePage,
        RET_PAUSE => {
            vm.pause().free();
            Error::Pause
        }
        other => Error::Asm(other),
    }
}
