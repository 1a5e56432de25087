//! Runs ckb-vm's assembly interpreter, accompanied by an observer.
//!
//! The assembly runs from trace to trace (straight-line code of up to 16 instructions) and requests unknown
//! traces. Where the observer gives none, such as at an address with native code, it stops each time.
//!
//! Only VM version 2 has such addresses: in earlier versions, the assembly's behavior for a pc beyond 2^32
//! depends on its cached traces (ckb-vm issue 425).

use ckb_vm::ckb_vm_definitions::instructions::{Instruction, OP_CUSTOM_TRACE_END};
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, ISA_MOP, Machine as _, SupportMachine,
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
    machine::{
        VERSION0,
        asm::{AsmCoreMachineRevealer, ckb_vm_asm_labels, ckb_vm_x64_execute},
    },
};

use crate::{
    code::{Code, call},
    memory::Core,
    observed::Observed,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The script exited.
    Exited,
    /// The observer stopped the run before the pc.
    Observer,
}

/// What accompanies a run in the assembly. It is a type parameter, so that it costs nothing where it does
/// nothing.
pub(crate) trait Observer<R: AsmCoreMachineRevealer> {
    /// Adds the trace at the machine's pc. Returns false to stop the run there.
    fn add_trace(&mut self, vm: &mut DefaultMachine<R>, decoder: &mut Decoder) -> Result<bool, Error>;

    /// Another program was loaded into the machine.
    fn replace(&mut self, _vm: &DefaultMachine<R>) {}

    /// Runs traces as [`execute`].
    fn execute(&mut self, vm: &mut DefaultMachine<R>, _decoder: &mut Decoder) -> Result<u8, Error> {
        Ok(execute(vm))
    }

    /// Makes the system call before the machine's pc.
    fn ecall(&mut self, vm: &mut DefaultMachine<R>) -> Result<(), Error> {
        vm.ecall()
    }
}

/// Runs the machine until its script exits or `observer` stops it.
///
/// # Errors
/// Those of `AsmMachine::run`.
pub(crate) fn run<R: AsmCoreMachineRevealer>(
    vm: &mut DefaultMachine<R>,
    decoder: &mut Decoder,
    observer: &mut impl Observer<R>,
) -> Result<Stop, Error> {
    if vm.isa() & ISA_MOP != 0 && vm.version() == VERSION0 {
        return Err(Error::InvalidVersion);
    }
    vm.set_running(true);
    while vm.running() {
        if vm.reset_signal() {
            decoder.reset_instructions_cache();
            observer.replace(vm);
        }
        match observer.execute(vm, decoder)? {
            RET_DECODE_TRACE if observer.add_trace(vm, decoder)? => {}
            RET_DECODE_TRACE => return Ok(Stop::Observer),
            RET_ECALL => observer.ecall(vm)?,
            RET_EBREAK => vm.ebreak()?,
            RET_DYNAMIC_JUMP => {}
            RET_SLOWPATH => execute_slowly(vm, decoder)?,
            other => return Err(error(other, vm)),
        }
    }
    Ok(Stop::Exited)
}

/// The interpreter of a machine that may have native code.
pub(crate) struct Interpreter {
    decoder: Decoder,
    /// Slots of the machine that contain traces of this interpreter.
    slots: Vec<usize>,
}

impl Interpreter {
    pub(crate) fn new(machine: &DefaultMachine<Core>) -> Self {
        Self { decoder: build_decoder::<u64>(machine.isa(), machine.version()), slots: Vec::new() }
    }

    /// Removes its traces from the machine.
    pub(crate) fn store_traces(self, core: &mut Core) {
        let traces = &mut core.as_mut().traces;
        self.slots.into_iter().for_each(|slot| traces[slot] = Trace::default());
    }

    /// Interprets from the machine's pc up to an address with native code, and records jump targets.
    ///
    /// # Errors
    /// Those of ckb-vm. After Yield and Pause the machine can resume. After others, cycles and registers
    /// depend on the cached traces, and differ from a run without native code.
    pub(crate) fn run(
        &mut self,
        vm: &mut DefaultMachine<Core>,
        code: Option<&mut dyn Code>,
        observed: Option<&mut Observed>,
    ) -> Result<Stop, Error> {
        let Self { decoder, slots } = self;
        run(vm, decoder, &mut Mixed { slots, code, observed })
    }
}

/// Stops at native code.
struct Mixed<'a, 'c> {
    slots: &'a mut Vec<usize>,
    code: Option<&'a mut (dyn Code + 'c)>,
    observed: Option<&'a mut Observed>,
}

impl Observer<Core> for Mixed<'_, '_> {
    fn add_trace(&mut self, vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<bool, Error> {
        if self.code.as_ref().is_some_and(|code| code.thunk(*vm.pc()).is_some()) {
            return Ok(false);
        }
        let trace = decode_trace(vm, decoder)?;
        if let Some(observed) = self.observed.as_deref_mut() {
            observed.record(vm, &trace);
        }
        let slot = calculate_slot(trace.address);
        let traces = &mut vm.inner_mut().as_mut().traces;
        if traces[slot].length == 0 {
            self.slots.push(slot);
        }
        traces[slot] = trace;
        Ok(true)
    }

    fn replace(&mut self, _vm: &DefaultMachine<Core>) {
        self.observed = None;
    }

    fn ecall(&mut self, vm: &mut DefaultMachine<Core>) -> Result<(), Error> {
        match &mut self.code {
            Some(code) => call(vm, *code).map(drop),
            None => vm.ecall(),
        }
    }
}

/// Runs traces until one is missing or the host must act. Returns one of ckb-vm's `RET_` numbers.
pub(crate) fn execute<R: AsmCoreMachineRevealer>(vm: &mut DefaultMachine<R>) -> u8 {
    let pause = vm.pause();
    // SAFETY: the machine is a whole AsmCoreMachine, and the byte lives as long as `pause`.
    unsafe { ckb_vm_x64_execute(&raw mut **vm.inner_mut().as_mut(), pause.get_raw_ptr()) }
}

/// Executes the instruction before the machine's pc, which the assembly does not implement.
fn execute_slowly<R: AsmCoreMachineRevealer>(
    vm: &mut DefaultMachine<R>,
    decoder: &mut Decoder,
) -> Result<(), Error> {
    let pc = vm.pc().wrapping_sub(4);
    let instruction = decoder.decode(vm.memory_mut(), pc)?;
    execute_instruction(instruction, vm)
}

/// Decodes the trace at the machine's pc with the same bounds as ckb-vm's `AsmMachine`.
pub(crate) fn decode_trace(vm: &mut DefaultMachine<Core>, decoder: &mut Decoder) -> Result<Trace, Error> {
    decode_trace_until(vm, decoder, |_, _| false)
}

/// Like [`decode_trace`], but the trace ends before the first instruction that `is_stop` and may be empty.
pub(crate) fn decode_trace_until<R: AsmCoreMachineRevealer>(
    vm: &mut DefaultMachine<R>,
    decoder: &mut Decoder,
    is_stop: impl Fn(u64, &Result<Instruction, Error>) -> bool,
) -> Result<Trace, Error> {
    let start = *vm.pc();
    let (mut trace, mut pc, mut count) = (Trace::default(), start, 0);
    while count < TRACE_ITEM_LENGTH {
        let decoded = decoder.decode(vm.memory_mut(), pc);
        if is_stop(pc, &decoded) {
            break;
        }
        let instruction = decoded?;
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
    // ckb-vm stores only the lowest byte and resumes at the start plus that byte; it refuses only 0.
    trace.length = (pc - start).to_le_bytes()[0];
    if trace.length == 0 && count > 0 { Err(Error::TraceLengthError) } else { Ok(trace) }
}

/// Whether the trace at the machine's pc can run.
///
/// # Errors
/// If there is no code, or the limit is exceeded.
pub(crate) fn check_next_trace(vm: &mut DefaultMachine<Core>) -> Result<(), Error> {
    let mut decoder = build_decoder::<u64>(vm.isa(), vm.version());
    let trace = decode_trace(vm, &mut decoder)?;
    let is_within = vm.cycles().saturating_add(trace.cycles) <= vm.max_cycles();
    if is_within { Ok(()) } else { Err(Error::CyclesExceeded) }
}

/// Writes an instruction and the address of its assembly code into a trace.
fn set(trace: &mut Trace, index: usize, instruction: Instruction) {
    let labels = ckb_vm_asm_labels as *const () as *const u32;
    let opcode = usize::from(extract_opcode(instruction) & 0xff);
    // SAFETY: ckb-vm's table has an offset from its own start for each of the 256 possible opcode bytes.
    let distance = unsafe { labels.add(opcode).read() };
    trace.instructions[index] = instruction;
    trace.thread[index] = labels as u64 + u64::from(distance);
}

/// Converts an assembly result that ends a run to ckb-vm's error.
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
