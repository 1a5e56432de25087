//! The machine that ckb-script drives: native code where available, otherwise the interpreter, on one state.
//!
//! ```text
//!           thunk for the pc                      registers known, no thunk
//!   run ──> native code ──────────────────────────────────> interpreter (VM version 2)
//!             │  ^  \                                          │
//!   Yield,    │  │   bailout: the attempt restarts             │ a pc with a thunk
//!   Pause     v  │                                             v
//!           native code waits on its stack                  native code
//! ```

use std::sync::Arc;

use antares_abi::{BailoutReason, LoadedCode};
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachine, DefaultMachineRunner, Error, ISA_MOP, RISCV_PAGESIZE, SupportMachine,
    elf::ProgramMetadata,
    machine::{VERSION0, VERSION2, asm::AsmMachine},
    registers::{A0, SP},
};

use crate::{
    Program,
    bailout::Bailout,
    budget::{lower_limit, raise_limit},
    code::Code,
    host::{self, Attempted, Start},
    interpreter::{Interpreter, Stop},
    limits::{LOADED_CODE_BYTES_MAX, MACHINES_CROWDED, NATIVE_STACK_BYTES},
    loader,
    memory::Core,
    observed::{self, Observed},
    pages::Pages,
    parked::Aside,
    phase::{Phase, Stays, Waiting},
    prepare_thread,
    profiled::process_id,
    program::Programs,
    sampler::Sampled,
    session::MachineSession,
    sources,
    stack::{NativeStack, STACKS},
};

/// Text of the error that ends an attempt with an invalid result.
const GAVE_UP: &str = "antares: native code gave up";

/// A machine for ckb-script's `TransactionScriptsVerifier` and `Scheduler`. It belongs to the
/// [`MachineSession`] current at its creation; without a session it interprets.
pub struct NativeMachine {
    pub(crate) vm: AsmMachine<Core>,
    pub(crate) session: Arc<MachineSession>,
    /// The native program that was loaded last.
    pub(crate) loaded: Option<Arc<Program>>,
    /// The loaded program, once `recognise` has found its native code.
    pub(crate) program: Option<Arc<Program>>,
    /// The ELF of the loaded program, if it has no native code.
    pub(crate) unknown: Option<Bytes>,
    /// Pages that were executable at the program's start.
    pub(crate) own: Pages,
    /// Cycles that were interpreted since the program's start.
    pub(crate) interpreted: u64,
    pub(crate) programs: Programs,
    pub(crate) phase: Phase,
    pub(crate) stack: Option<NativeStack>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) interpreter: Option<Interpreter>,
    pub(crate) stays: Stays,
    /// Whether native code may have written to unmarked pages.
    pub(crate) has_unmarked: bool,
    /// Calls of `inner_mut` since the last run.
    looks: u32,
    /// The number of this machine's VM, once queried.
    pub(crate) id: Option<u64>,
    /// Whether the machine resumes a suspended VM: no program was loaded into it.
    pub(crate) is_resumed: bool,
    /// Cycle count at which the session requests a pause.
    pause_at: u64,
    pub(crate) aside: Aside,
    /// The machine's number in its session.
    pub(crate) number: u64,
    /// Whether ckb-vm's own loop ran, whose traces are not tracked.
    pub(crate) has_run_alone: bool,
}

impl NativeMachine {
    /// Runs one tier until the script exits (returns its exit code) or the other tier is next.
    fn turn(&mut self) -> Result<Option<i8>, Error> {
        if self.phase == Phase::New {
            self.recognise();
        }
        if matches!(self.phase, Phase::Interpreted | Phase::Short) {
            let result = self.counted(|machine| machine.interpret().map(Some));
            return result.map_err(|error| self.judged(error));
        }
        let is_wanted = !self.stays.are_too_short();
        if let Some(start) = self.start().filter(|start| is_wanted || matches!(start, Start::Waiting)) {
            return self.native(start);
        }
        if self.vm.machine.version() < VERSION2 || self.programs.is_empty() || !is_wanted {
            self.phase = Phase::Interpreted;
            // ckb-vm checks the flags itself, and its exec may load another program over all pages.
            self.vm.machine.inner_mut().unprotect();
            return Ok(None);
        }
        let mut observed = self.take_observed();
        let stop = self.counted(|machine| {
            let Self { vm, programs, interpreter, .. } = machine;
            let interpreter = interpreter.get_or_insert_with(|| Interpreter::new(&vm.machine));
            interpreter.run(&mut vm.machine, Some(programs), observed.as_mut())
        });
        self.give_observed(observed);
        match stop {
            Ok(Stop::Exited) => Ok(Some(self.vm.machine.exit_code())),
            Ok(Stop::Observer) => Ok(None),
            Err(error) => Err(self.judged(error)),
        }
    }

    /// Runs ckb-vm's own loop to the end; after a bailout, records jump targets.
    fn interpret(&mut self) -> Result<i8, Error> {
        self.has_run_alone = true;
        let is_left = self.stays.count > 0 || self.session.is_astray();
        let observed = (self.phase == Phase::Interpreted && is_left).then(|| self.take_observed()).flatten();
        let Some(mut observed) = observed else { return self.vm.run() };
        let result = observed::run(&mut self.vm.machine, &mut observed);
        self.give_observed(Some(observed));
        result
    }

    /// Takes the observed jump targets of the program, which is about to go somewhere unknown to native code.
    fn take_observed(&mut self) -> Option<Observed> {
        let mut observed = self.session.take_observed(self.program.as_ref()?)?;
        // A restarted run has no such location.
        if !self.session.is_interpreting() {
            observed.come_to(&self.vm.machine);
        }
        Some(observed)
    }

    fn give_observed(&self, observed: Option<Observed>) {
        if let (Some(program), Some(observed)) = (&self.program, observed) {
            self.session.give_observed(program, observed);
        }
    }

    /// Filters an error of the interpreter. It is the script's own only if no native code ran: afterwards,
    /// the error may depend on the cached traces.
    fn judged(&self, error: Error) -> Error {
        match error {
            Error::Yield | Error::Pause => error,
            _ if self.stays.count == 0 => {
                self.session.record_failed();
                error
            }
            Error::CyclesExceeded => self.give_up(BailoutReason::OutOfCycles),
            _ => self.give_up(BailoutReason::Unsupported),
        }
    }

    /// Runs `work` and counts its cycles as interpreted.
    fn counted<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let before = self.vm.machine.cycles();
        let limit = lower_limit(&mut self.vm.machine, self.pause_at);
        let result = raise_limit(work(self), &mut self.vm.machine, limit);
        let cycles = self.vm.machine.cycles().saturating_sub(before);
        self.session.count(0, cycles);
        self.interpreted = self.interpreted.saturating_add(cycles);
        if let Some(elf) = &self.unknown {
            self.session.count_unknown(elf, cycles);
        }
        result
    }

    /// Finds the native code for the programs in memory.
    fn recognise(&mut self) {
        let (isa, vm_version) = (self.vm.machine.isa(), self.vm.machine.version());
        // ckb-vm refuses this pair when it starts to run, whatever the code.
        let is_refused = vm_version == VERSION0 && isa & ISA_MOP != 0;
        self.program.clone_from(&self.loaded);
        self.begin();
        if self.session.is_interpreting() || is_refused {
            self.phase = Phase::Interpreted;
            return;
        }
        let core = self.vm.machine.inner_mut();
        self.programs.find(self.session.programs(), self.loaded.take(), core);
        self.phase = Phase::Mixed;
    }

    /// Records the executable pages before the program runs.
    fn begin(&mut self) {
        (self.own, self.interpreted) = (self.vm.machine.inner_mut().executable(), 0);
    }

    /// Reports code that was loaded since `begin`, if the program ended and spent enough cycles in the
    /// interpreter.
    fn report_loaded_code(&mut self, result: &Result<i8, Error>) {
        let is_over = !matches!(result, Err(Error::Yield | Error::Pause));
        if !is_over || !self.session.hears_of_loaded_code(self.interpreted) {
            return;
        }
        let kind = (self.vm.machine.version(), self.vm.machine.isa());
        let core = self.vm.machine.inner_mut();
        for range in core.executable().minus(self.own).ranges() {
            let (start, end) = (range.start * RISCV_PAGESIZE, range.end * RISCV_PAGESIZE);
            let code = core.bytes().get(start..end).and_then(|bytes| LoadedCode::new(start as u64, bytes));
            if let Some(code) = code.filter(|code| code.code.len() <= LOADED_CODE_BYTES_MAX) {
                self.session.meet(&code, self.program.as_ref(), kind, self.interpreted);
            }
        }
    }

    /// Where native code can start or resume now.
    fn start(&mut self) -> Option<Start> {
        let core = self.vm.machine.inner_mut();
        match self.waiting.take() {
            Some(Waiting::Pause) => return Some(Start::Waiting),
            Some(Waiting::Syscall { mut registers, pc }) => {
                registers[A0] = core.guest_registers()[A0];
                if *registers == *core.guest_registers() && pc == *core.pc() {
                    return Some(Start::Waiting);
                }
            }
            None => {}
        }
        self.programs.thunk(*core.pc()).map(Start::Thunk)
    }

    fn native(&mut self, start: Start) -> Result<Option<i8>, Error> {
        let Ok(stack) = self.prepare() else { return Err(self.give_up(BailoutReason::StackOverflow)) };
        self.vm.machine.inner_mut().find_filled();
        self.session.record_ran(self.at_work());
        let (before, pause_at) = (self.vm.machine.cycles(), self.pause_at);
        let mut sampled = self.take_sampled();
        let (vm, programs) = (&mut self.vm.machine, &mut self.programs);
        let attempted = host::attempt(vm, &stack, programs, start, pause_at, sampled.as_mut());
        if let Some(sampled) = sampled {
            self.session.give_sampler(sampled.sampler);
        }
        self.stack = Some(stack);
        self.has_unmarked = true;
        let cycles = self.vm.machine.cycles().saturating_sub(before);
        self.session.count(cycles, 0);
        self.stays.count += 1;
        self.stays.cycles = self.stays.cycles.saturating_add(cycles);
        match attempted {
            Attempted::Exited => Ok(Some(self.vm.machine.exit_code())),
            Attempted::Done | Attempted::Outdated => Ok(None),
            Attempted::Replaced => {
                (self.phase, self.unknown, self.program) = (Phase::New, None, None);
                self.report_loaded();
                Ok(None)
            }
            Attempted::Yielded => {
                let core = self.vm.machine.inner_mut();
                let registers = Box::new(*core.guest_registers());
                self.waiting = Some(Waiting::Syscall { registers, pc: *core.pc() });
                Err(Error::Yield)
            }
            Attempted::Paused => {
                self.waiting = Some(Waiting::Pause);
                Err(Error::Pause)
            }
            // The machine must resume later, but its registers are unknown. Either a message is pending, or a
            // syscall requested the pause itself, as in one of ckb-script's tests.
            Attempted::Failed(Error::Yield | Error::Pause) => Err(self.give_up(BailoutReason::Ecall)),
            Attempted::Failed(error) => Err(error),
            Attempted::Bailout(bailout) => {
                if bailout.reason == BailoutReason::StackOverflow
                    && let Some(stack) = &mut self.stack
                {
                    stack.clear();
                }
                Err(self.give_up_for(&bailout))
            }
        }
    }

    /// Creates the sampling state of a stay, if the session is sampled.
    fn take_sampled(&mut self) -> Option<Sampled> {
        let mut sampler = self.session.take_sampler()?;
        let root = sampler.lineage().root(self.id());
        let (vm_version, isa) = (self.vm.machine.version(), self.vm.machine.isa());
        let recorded = self.programs.recorded(vm_version, isa);
        let programs = recorded.map(|program| sampler.program(program)).collect();
        Some(Sampled::new(sampler, root, programs))
    }

    /// The number of this machine's VM.
    pub(crate) fn id(&mut self) -> u64 {
        let machine = &mut self.vm.machine;
        *self.id.get_or_insert_with(|| process_id(machine))
    }

    /// Reports the load of a program to the profile, if there is one.
    fn report_loaded(&mut self) {
        if self.session.is_sampled() {
            let id = self.id();
            self.session.with_sampler(|sampler| sampler.load(id));
        }
    }

    /// Takes or maps the native stack, and prepares the thread for native code.
    fn prepare(&mut self) -> Result<NativeStack, crate::VmError> {
        prepare_thread()?;
        match self.stack.take().or_else(|| STACKS.take()) {
            Some(stack) => stack.opened(),
            None => NativeStack::map(NATIVE_STACK_BYTES),
        }
    }

    /// Runs until the script exits or must wait.
    fn run_on(&mut self) -> Result<i8, Error> {
        if self.session.is_sampled() {
            let id = self.id();
            self.session.with_sampler(|sampler| sampler.lineage().run(id));
        }
        if !matches!(self.phase, Phase::Interpreted | Phase::Short) && self.session.has_lost_registers() {
            return Err(self.give_up(BailoutReason::Ecall));
        }
        let before = self.vm.machine.cycles();
        self.pause_at = self.session.budget.end(before);
        let result = loop {
            if let Some(result) = self.turn().transpose() {
                break result;
            }
            if self.vm.machine.cycles() >= self.pause_at {
                break Err(Error::Pause);
            }
        };
        self.session.budget.spend(self.vm.machine.cycles().saturating_sub(before));
        self.report_loaded_code(&result);
        result
    }

    /// Like [`Self::give_up`]; also records the unknown target.
    fn give_up_for(&mut self, bailout: &Bailout) -> Error {
        let observed = bailout.target.and_then(|_| self.session.take_observed(self.program.as_ref()?));
        if let Some(mut observed) = observed {
            observed.record_bailout(bailout);
            self.give_observed(Some(observed));
        }
        self.give_up(bailout.reason)
    }

    fn give_up(&self, reason: BailoutReason) -> Error {
        self.session.give_up(reason, self.at_work());
        Error::External(GAVE_UP.to_owned())
    }

    /// The programs whose native code the machine runs: the loaded one, or, if it has no native code, the
    /// code that it loaded itself.
    fn at_work(&self) -> impl Iterator<Item = &Arc<Program>> {
        let others = if self.program.is_none() { self.programs.in_memory() } else { &[] };
        self.program.iter().chain(others)
    }
}

impl DefaultMachineRunner for NativeMachine {
    type Inner = Core;

    fn new(mut machine: DefaultMachine<Core>) -> Self {
        let session = MachineSession::current();
        session.machine_made(machine.inner_mut());
        Self {
            vm: AsmMachine::new(machine),
            session,
            loaded: None,
            program: None,
            unknown: None,
            own: Pages::default(),
            interpreted: 0,
            programs: Programs::default(),
            phase: Phase::New,
            stack: None,
            waiting: None,
            interpreter: None,
            stays: Stays::default(),
            has_unmarked: false,
            looks: 0,
            id: None,
            is_resumed: true,
            pause_at: u64::MAX,
            aside: Aside::New,
            number: 0,
            has_run_alone: false,
        }
    }

    fn machine(&self) -> &DefaultMachine<Core> {
        &self.vm.machine
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Core> {
        &mut self.vm.machine
    }

    /// ckb-script calls this once after each run to read the cycles. Further calls change or suspend the
    /// machine. Suspension requires several machines, and copies the pages that are marked as changed.
    fn inner_mut(&mut self) -> &mut Core {
        self.come_back();
        self.looks += 1;
        let is_crowded = self.looks > 1 && self.session.machines() >= MACHINES_CROWDED;
        if self.has_unmarked && is_crowded && !self.hide_changes() {
            self.vm.machine.inner_mut().mark_changes();
            self.has_unmarked = false;
        }
        self.vm.machine.inner_mut()
    }

    fn run(&mut self) -> Result<i8, Error> {
        self.looks = 0;
        self.show_changes();
        if !self.is_resumed {
            let result = self.run_on();
            self.end_parking(&result);
            return result;
        }
        // Native code does not pay off for a VM that is suspended again after a few instructions.
        let is_wanted = self.session.resumed().are_worth_it();
        match self.phase {
            Phase::New if !is_wanted => self.phase = Phase::Short,
            Phase::Short if is_wanted => self.phase = Phase::New,
            _ => {}
        }
        let before = self.vm.machine.cycles();
        let result = self.run_on();
        self.end_parking(&result);
        self.session.count_resumed(self.vm.machine.cycles().saturating_sub(before));
        result
    }

    fn load_program_with_metadata(
        &mut self,
        program: &Bytes,
        metadata: &ProgramMetadata,
        args: impl ExactSizeIterator<Item = Result<Bytes, Error>>,
    ) -> Result<u64, Error> {
        self.come_anew();
        let lean = loader::without_zeros(self.vm.machine.inner_mut(), metadata);
        let bytes = self.vm.machine.load_program_with_metadata(program, &lean, args)?;
        let (vm_version, isa) = (self.vm.machine.version(), self.vm.machine.isa());
        self.report_loaded();
        self.begin();
        let core = self.vm.machine.inner_mut();
        let filled = sources::filled(metadata, core.guest_registers()[SP]);
        core.set_filled(filled.unwrap_or_default());
        if filled.is_none() && vm_version >= VERSION2 {
            self.phase = Phase::Interpreted;
            return Ok(bytes);
        }
        self.is_resumed = false;
        self.loaded = self.session.find(program, vm_version, isa);
        self.unknown = self.loaded.is_none().then(|| program.clone());
        self.phase = Phase::New;
        Ok(bytes)
    }
}

impl Drop for NativeMachine {
    fn drop(&mut self) {
        self.park();
        if let Some(Waiting::Pause) = self.waiting {
            // A copy of the machine's registers is stale.
            self.session.lose_registers();
        }
        self.stack.take().into_iter().for_each(NativeStack::give_back);
        self.session.machine_gone(self.vm.machine.inner_mut());
    }
}
