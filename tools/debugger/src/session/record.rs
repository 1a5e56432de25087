//! The recorder: runs ckb-script's scheduler with ckb-vm's `AsmMachine` in advance, and records events of its
//! VMs on the tape.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use antares_verifier::{CellName, Cells, GroupKind, Prepared, scheduler};
use antares_vm::Steppable;
use ckb_script::{
    RunMode, Scheduler,
    types::{Message, SgData, VmContext, VmId},
};
use ckb_vm::{
    Bytes, CoreMachine as _, DefaultMachine, DefaultMachineRunner, Error, Memory as _, SupportMachine as _,
    Syscalls,
    elf::ProgramMetadata,
    machine::asm::{AsmCoreMachine, AsmMachine},
    registers::A0,
};

use super::{
    error::DebugError,
    image::{Image, Registers},
    limits::RECORDED_CYCLES,
    printed::{Calls, calls},
    tape::{Begin, End, Slice, Tape, Written},
};

/// The machine of ckb-vm's assembly.
type Core = Box<AsmCoreMachine>;

thread_local! {
    /// Owner of the machine that is created next.
    static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Next {
    vm: VmId,
    messages: Arc<Mutex<Vec<Message>>>,
    base: Arc<AtomicU64>,
    tape: Tape,
}

/// The recorder's context for system calls.
#[derive(Clone)]
pub(crate) struct Context {
    tape: Tape,
    calls: Calls,
}

fn generate(
    vm: &VmId,
    group: &SgData<Cells>,
    context: &VmContext<Cells>,
    ours: &Context,
) -> Vec<Box<dyn Syscalls<Core>>> {
    let (messages, base) = (context.message_box.clone(), context.base_cycles.clone());
    NEXT.set(Some(Next { vm: *vm, messages, base, tape: ours.tape.clone() }));
    calls(*vm, group, context, &ours.calls)
}

/// Runs a script group, some cycles at a time.
pub(crate) struct Recorder {
    scheduler: Scheduler<Cells, Context, RecordedMachine>,
    pub(crate) tape: Tape,
    cycles_max: u64,
    /// The end of the run: the first VM's exit code, or the error of a VM or the scheduler; and the cycles.
    pub(crate) ended: Option<(Result<i8, Error>, u64)>,
}

impl Recorder {
    pub(crate) fn new(
        prepared: Prepared,
        (kind, cell): (GroupKind, CellName),
        args: Vec<Bytes>,
        cycles_max: u64,
        calls: Calls,
    ) -> Result<Self, DebugError> {
        let tape = Tape::default();
        let context = Context { tape: tape.clone(), calls };
        let scheduled = scheduler(prepared, (kind, cell), generate, context)?;
        let mut scheduler = scheduled.map_err(DebugError::NotBegun)?;
        scheduler.set_root_vm_args(args);
        Ok(Self { scheduler, tape, cycles_max, ended: None })
    }

    pub(crate) fn group(&self) -> &SgData<Cells> {
        self.scheduler.sg_data()
    }

    /// Runs some cycles, unless the run has ended.
    pub(crate) fn go_on(&mut self) -> Result<(), DebugError> {
        if self.ended.is_some() {
            return Ok(());
        }
        self.tape.lock().budget = RECORDED_CYCLES;
        let left = self.cycles_max.saturating_sub(self.scheduler.consumed_cycles());
        let ended = self.scheduler.run(RunMode::LimitCycles(left));
        if let Some(what) = self.tape.lock().is_full {
            return Err(DebugError::TooLong(what));
        }
        self.ended = match ended {
            Err(Error::Pause) => None,
            Err(error) if self.tape.lock().slices.is_empty() => {
                return Err(DebugError::NotBegun(error.to_string()));
            }
            ended => Some((ended.map(|ended| ended.exit_code), self.scheduler.consumed_cycles())),
        };
        Ok(())
    }
}

/// A machine that records its events on the tape.
pub(crate) struct RecordedMachine {
    inner: AsmMachine,
    own: Option<Next>,
    /// The program that was just loaded.
    fresh: Option<usize>,
}

impl DefaultMachineRunner for RecordedMachine {
    type Inner = Core;

    fn new(machine: DefaultMachine<Core>) -> Self {
        Self { inner: AsmMachine::new(machine), own: NEXT.take(), fresh: None }
    }

    fn machine(&self) -> &DefaultMachine<Core> {
        self.inner.machine()
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Core> {
        self.inner.machine_mut()
    }

    fn load_program_with_metadata(
        &mut self,
        program: &Bytes,
        metadata: &ProgramMetadata,
        args: impl ExactSizeIterator<Item = Result<Bytes, Error>>,
    ) -> Result<u64, Error> {
        let loaded = self.inner.load_program_with_metadata(program, metadata, args)?;
        if let Some(own) = &self.own {
            self.fresh = Some(own.tape.lock().program(program));
        }
        Ok(loaded)
    }

    fn run(&mut self) -> Result<i8, Error> {
        let Some(own) = self.own.clone() else { return Err(Error::Unimplemented) };
        let budget = own.tape.lock().budget;
        if budget == 0 {
            return Err(Error::Pause);
        }
        let answered = own.tape.lock().pending.remove(&own.vm);
        let vm = self.inner.machine_mut();
        let begin = match (self.fresh.take(), answered) {
            (Some(program), _) => Begin::Program(Arc::new(Image::of(vm, None)), program),
            (None, Some(written)) => Begin::Answered(read_all(vm, &written), vm.registers()[A0]),
            (None, None) => Begin::Same,
        };
        let (first, limit) = (vm.cycles(), vm.max_cycles());
        let rest = first.saturating_add(budget);
        vm.inner_mut().set_max_cycles(rest.min(limit));
        let ended = self.inner.run();
        let vm = self.inner.machine_mut();
        vm.inner_mut().set_max_cycles(limit);
        let last = vm.cycles();
        // The assembly stops before a trace, and after a system call.
        let rests = ended == Err(Error::CyclesExceeded) && rest < limit && last <= limit;
        let ended = if rests { Err(Error::Pause) } else { ended };
        let end = match &ended {
            Ok(code) => End::Exit(*code),
            Err(Error::Pause) => End::Rest,
            Err(Error::Yield) => End::Yield,
            Err(error) => End::Error(error.clone()),
        };
        let mut tape = own.tape.lock();
        if end == End::Yield {
            let written = own.messages.lock().unwrap_or_else(PoisonError::into_inner);
            let written = written.iter().flat_map(|message| writes(message, vm));
            tape.pending.insert(own.vm, written.collect());
        }
        tape.budget = if rests { 0 } else { budget.saturating_sub(last - first).max(1) };
        let base = own.base.load(Ordering::Acquire);
        let place = Registers::of(vm.inner_mut());
        tape.push(Slice { vm: own.vm, begin, base, cycles: (first, last), end, place });
        if tape.is_full.is_some() { Err(Error::Pause) } else { ended }
    }
}

/// The memory that the answer to `message` writes in the VM that sent it.
fn writes(message: &Message, vm: &mut Steppable) -> Vec<Written> {
    match message {
        Message::Spawn(_, args) => vec![Written::Bytes(args.process_id_addr, 8)],
        Message::Wait(_, args) => vec![Written::Bytes(args.exit_code_addr, 1)],
        Message::Pipe(_, args) => vec![Written::Bytes(args.fd1_addr, 8), Written::Bytes(args.fd2_addr, 8)],
        Message::FdRead(_, args) => vec![
            Written::Counted(args.buffer_addr, 1, args.length_addr, args.length),
            Written::Bytes(args.length_addr, 8),
        ],
        Message::FdWrite(_, args) => vec![Written::Bytes(args.length_addr, 8)],
        Message::InheritedFileDescriptor(_, args) => {
            let room = vm.memory_mut().load64(&args.length_addr).unwrap_or(0);
            vec![
                Written::Counted(args.buffer_addr, 8, args.length_addr, room),
                Written::Bytes(args.length_addr, 8),
            ]
        }
        Message::Close(..) | Message::ExecV2(..) => Vec::new(),
    }
}

/// The content of written memory.
fn read_all(vm: &mut Steppable, written: &[Written]) -> Vec<(u64, Bytes)> {
    let memory = vm.memory_mut();
    let read = written.iter().filter_map(|written| {
        let (address, bytes) = match *written {
            Written::Bytes(address, bytes) => (address, bytes),
            Written::Counted(address, unit, at, most) => {
                (address, memory.load64(&at).ok()?.min(most).checked_mul(unit)?)
            }
        };
        // Memory that could not be written is omitted.
        Some((address, memory.load_bytes(address, bytes).ok()?))
    });
    read.collect()
}
