//! The machine that ckb-script drives: native code where there is some, the interpreter for the rest, one
//! state.
//!
//! ```text
//!           thunk for the pc                      registers known, no thunk
//!   run ──> native code ──────────────────────────────────> interpreter (VM version 2)
//!             │  ^  \                                          │
//!   Yield,    │  │   gives up: the session is to start again   │ a pc with a thunk
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

/// Text of the error that ends an attempt whose result means nothing.
const GAVE_UP: &str = "antares: native code gave up";

/// A machine for ckb-script's `TransactionScriptsVerifier` and `Scheduler`. It belongs to the
/// [`MachineSession`] that is current when it is made; without one it interprets.
pub struct NativeMachine {
    pub(crate) vm: AsmMachine<Core>,
    pub(crate) session: Arc<MachineSession>,
    /// The program that was loaded last.
    pub(crate) loaded: Option<Arc<Program>>,
    /// The same, once it is recognised.
    pub(crate) program: Option<Arc<Program>>,
    /// The same, if there is no native code for it.
    pub(crate) unknown: Option<Bytes>,
    /// Pages that were executable at its start.
    pub(crate) own: Pages,
    /// Cycles that were interpreted since.
    pub(crate) interpreted: u64,
    pub(crate) programs: Programs,
    pub(crate) phase: Phase,
    pub(crate) stack: Option<NativeStack>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) interpreter: Option<Interpreter>,
    pub(crate) stays: Stays,
    /// Native code may have written pages that are not marked.
    pub(crate) has_unmarked: bool,
    /// Calls of `inner_mut` since the last run.
    looks: u32,
    /// The number of the VM that this machine is, once it was asked for.
    pub(crate) id: Option<u64>,
    /// It was put aside and is back: no program was loaded into it.
    pub(crate) is_resumed: bool,
    /// Cycles of the machine at which the session wants a pause.
    pause_at: u64,
    pub(crate) aside: Aside,
    /// Its own number among the machines of its session.
    pub(crate) number: u64,
    /// ckb-vm's own loop has run, whose traces nobody knows.
    pub(crate) has_run_alone: bool,
}

impl NativeMachine {
    /// One turn: native code or the interpreter, until the script exits (its exit code) or the other one is
    /// next.
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
            // ckb-vm looks at the flags, and its exec loads another program over everything.
            self.vm.machine.inner_mut().unprotect();
            return Ok(None);
        }
        let mut observed = self.take_observed();
        let stop = self.counted(|machine| {
            let Self { vm, programs, interpreter, .. } = machine;
            let interpreter = interpreter.get_or_insert_with(|| Interpreter::new(&vm.machine));
            interpreter.run(&mut vm.machine, programs, observed.as_mut())
        });
        self.give_observed(observed);
        match stop {
            Ok(Stop::Exited) => Ok(Some(self.vm.machine.exit_code())),
            Ok(Stop::Native) => Ok(None),
            Err(error) => Err(self.judged(error)),
        }
    }

    /// Runs ckb-vm's own loop to the end; where native code was left before, it is noted where that leads.
    fn interpret(&mut self) -> Result<i8, Error> {
        self.has_run_alone = true;
        let is_left = self.stays.count > 0 || self.session.is_astray();
        let observed = (self.phase == Phase::Interpreted && is_left).then(|| self.take_observed()).flatten();
        let Some(mut observed) = observed else { return self.vm.run() };
        let result = observed::run(&mut self.vm.machine, &mut observed);
        self.give_observed(Some(observed));
        result
    }

    /// What is known of where the program goes, which is about to go somewhere that native code does not
    /// know.
    fn take_observed(&mut self) -> Option<Observed> {
        let mut observed = self.session.take_observed(self.program.as_ref()?)?;
        // Of a run that began again, it is not.
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

    /// An error of the interpreter, if it is the script's own: after native code, which error it is may
    /// depend on which code the interpreter met before.
    fn judged(&self, error: Error) -> Error {
        match error {
            Error::Yield | Error::Pause => error,
            _ if self.stays.count == 0 => {
                self.session.note_failed();
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

    /// Finds out which native code there is for what is in memory.
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

    /// Notes which pages are executable before the program runs.
    fn begin(&mut self) {
        (self.own, self.interpreted) = (self.vm.machine.inner_mut().executable(), 0);
    }

    /// Tells which code was loaded since then, if the program is at its end and took its time in the
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

    /// Where native code can start or go on now.
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
        self.session.note_ran(self.at_work());
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
            // The machine is to go on later, but its registers are not known: a message is on the way, or a
            // syscall asks for a pause itself, as one of ckb-script's tests does.
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

    /// What a stay needs to be sampled, if the session is.
    fn take_sampled(&mut self) -> Option<Sampled> {
        let mut sampler = self.session.take_sampler()?;
        let root = sampler.lineage().root(self.id());
        let (vm_version, isa) = (self.vm.machine.version(), self.vm.machine.isa());
        let recorded = self.programs.recorded(vm_version, isa);
        let programs = recorded.map(|program| sampler.program(program)).collect();
        Some(Sampled::new(sampler, root, programs))
    }

    /// The number of the VM that this machine is.
    pub(crate) fn id(&mut self) -> u64 {
        let machine = &mut self.vm.machine;
        *self.id.get_or_insert_with(|| process_id(machine))
    }

    /// Tells the profile, if there is one, that a program was loaded.
    fn report_loaded(&mut self) {
        if self.session.is_sampled() {
            let id = self.id();
            self.session.with_sampler(|sampler| sampler.load(id));
        }
    }

    /// The stack for native code, on a thread that can run it.
    fn prepare(&mut self) -> Result<NativeStack, crate::VmError> {
        prepare_thread()?;
        match self.stack.take().or_else(|| STACKS.take()) {
            Some(stack) => stack.opened(),
            None => NativeStack::map(NATIVE_STACK_BYTES),
        }
    }

    /// Runs until the script exits or has to wait.
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

    /// As [`Self::give_up`]; where native code was left for is remembered.
    fn give_up_for(&mut self, bailout: &Bailout) -> Error {
        let observed = bailout.target.and_then(|_| self.session.take_observed(self.program.as_ref()?));
        if let Some(mut observed) = observed {
            observed.note_bailout(bailout);
            self.give_observed(Some(observed));
        }
        self.give_up(bailout.reason)
    }

    fn give_up(&self, reason: BailoutReason) -> Error {
        self.session.give_up(reason, self.at_work());
        Error::External(GAVE_UP.to_owned())
    }

    /// The programs whose native code it runs: the one that was loaded, or, if that has none, what it has
    /// loaded itself.
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

    /// ckb-script calls this once after each run, to take the cycles; and then to change the machine or to
    /// put it aside, which only happens to one of many and copies the pages that are marked as changed.
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
        // What is put aside again after a few instructions is not worth the way to native code.
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
            // Whoever copied the machine's registers has stale ones.
            self.session.lose_registers();
        }
        self.stack.take().into_iter().for_each(NativeStack::give_back);
        self.session.machine_gone(self.vm.machine.inner_mut());
    }
}

impl std::fmt::Debug for NativeMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeMachine").field("phase", &self.phase).finish_non_exhaustive()
    }
}
