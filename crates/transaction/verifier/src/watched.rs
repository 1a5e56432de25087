//! Runs the VMs of a script group step by step and observes them. It records each program with its cycles,
//! excluding loads and system calls. For one VM, it also records the calls, the reached instructions, and the
//! registers.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_hosted::job::{StoppedVm, Watch, Watched, WatchedVm};
use ckb_script::types::Machine;
use ckb_types::bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachine, DefaultMachineRunner, Error, ISA_MOP, Register, SupportMachine, Syscalls,
    cost_model::estimate_cycles,
    decoder::{Decoder, build_decoder},
    elf::ProgramMetadata,
    instructions::execute,
    machine::VERSION0,
    registers::{A0, A1, A3, A7, SP},
};

use crate::{calls::Calls, host_calls::Parent};

/// Numbers of the system calls that start a program.
const EXEC: u64 = 2043;
const SPAWN: u64 = 2601;
/// ckb-script's number of the list of cell deps.
const CELL_DEP: u64 = 3;
/// Maximum nodes of the call tree in one message.
const PART: usize = 1 << 16;
/// Bytes of the step log in one message.
const STEPS_BYTES: usize = 1 << 20;

/// Registers and memory in the form of ckb-script's own machine.
type Core = <Machine as DefaultMachineRunner>::Inner;

thread_local! {
    static CURRENT: RefCell<Option<Arc<WatchSession>>> = const { RefCell::new(None) };
}

/// The location of a program.
#[derive(Clone, Copy, Default)]
struct Located {
    source: u64,
    index: u64,
    offset: u64,
    length: u64,
}

/// The shared state of a script group's machines.
pub(crate) struct WatchSession {
    watch: Watch,
    state: Mutex<State>,
}

struct State {
    parent: Arc<Parent>,
    vms: Vec<WatchedVm>,
    /// The VM whose machine is created next.
    next: u64,
    /// Location of the program that a VM requested by a system call.
    pending: BTreeMap<u64, Located>,
    spawning: Option<u64>,
    root: Located,
    close: Close,
    stopped: Option<StoppedVm>,
}

/// The detailed observations of one VM.
#[derive(Default)]
struct Close {
    calls: Option<Calls>,
    reached: BTreeSet<u64>,
    steps: String,
}

impl WatchSession {
    /// Creates an empty session.
    pub(crate) fn new(watch: Watch, parent: Arc<Parent>) -> Arc<Self> {
        let root = Located { source: CELL_DEP, ..Located::default() };
        let state = State {
            parent,
            vms: Vec::new(),
            next: 0,
            pending: BTreeMap::new(),
            spawning: None,
            root,
            close: Close::default(),
            stopped: None,
        };
        Arc::new(Self { watch, state: Mutex::new(state) })
    }

    /// Runs `run`, whose machines report to this session.
    pub(crate) fn during<T>(self: &Arc<Self>, run: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let done = run();
        CURRENT.set(before);
        done
    }

    /// Sends what was observed in detail. Returns the programs that ran, in the order of their start, and the
    /// state at the end of the observation, if that was before the VM's end.
    pub(crate) fn end(&self) -> (Vec<WatchedVm>, Option<StoppedVm>) {
        let mut state = self.lock();
        let Close { calls, reached, steps } = mem::take(&mut state.close);
        state.parent.watched(Watched::Steps(steps));
        for part in calls.map(Calls::into_tree).unwrap_or_default().chunks(PART) {
            state.parent.watched(Watched::Calls(part.to_vec()));
        }
        if self.watch.reached {
            state.parent.watched(Watched::Reached(reached.into_iter().collect()));
        }
        (mem::take(&mut state.vms), state.stopped.take())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the cell dep index of the first program in the current session.
pub(crate) fn begin_with(dep: u64) {
    if let Some(session) = CURRENT.with_borrow(Option::clone) {
        session.lock().root.index = dep;
    }
}

/// A handler that observes the system calls of `vm` that start programs; empty without a session. Also
/// records that the machine of `vm` is created next.
pub(crate) fn watching<M: SupportMachine>(vm: u64) -> Vec<Box<dyn Syscalls<M>>> {
    let session = CURRENT.with_borrow(Option::clone);
    session.inspect(|session| session.lock().next = vm).map_or_else(Vec::new, |session| {
        let watching: Box<dyn Syscalls<M>> = Box::new(Watching { vm, session });
        vec![watching]
    })
}

struct Watching {
    vm: u64,
    session: Arc<WatchSession>,
}

impl<M: SupportMachine> Syscalls<M> for Watching {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        let [index, source, bounds, number] =
            [A0, A1, A3, A7].map(|register| machine.registers()[register].to_u64());
        if matches!(number, EXEC | SPAWN) {
            let located = Located { source, index, offset: bounds >> 32, length: 0 };
            let mut state = self.session.lock();
            state.pending.insert(self.vm, located);
            state.spawning = (number == SPAWN).then_some(self.vm);
        }
        Ok(false)
    }
}

/// A machine for ckb-script's `Scheduler` that reports to the [`WatchSession`] current at its creation.
pub(crate) struct WatchedMachine {
    vm: DefaultMachine<Core>,
    session: Option<Arc<WatchSession>>,
    id: u64,
    decoder: Option<Decoder>,
}

impl DefaultMachineRunner for WatchedMachine {
    type Inner = Core;

    fn new(vm: DefaultMachine<Core>) -> Self {
        let session = CURRENT.with_borrow(Option::clone);
        let id = session.as_ref().map_or(0, |session| session.lock().next);
        Self { vm, session, id, decoder: None }
    }

    fn machine(&self) -> &DefaultMachine<Core> {
        &self.vm
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Core> {
        &mut self.vm
    }

    fn run(&mut self) -> Result<i8, Error> {
        let Some(session) = self.session.clone() else { return Err(Error::Unimplemented) };
        let ended = self.steps(&session);
        if let (Ok(code), Some(entry)) = (&ended, session.lock().entry(self.id)) {
            entry.exit_code = Some(*code);
        }
        ended
    }

    fn load_program_with_metadata(
        &mut self,
        program: &Bytes,
        metadata: &ProgramMetadata,
        args: impl ExactSizeIterator<Item = Result<Bytes, Error>>,
    ) -> Result<u64, Error> {
        let loaded = self.vm.load_program_with_metadata(program, metadata, args)?;
        if let Some(session) = &self.session {
            session.lock().begin(self.id, program, session.watch, *self.vm.pc());
        }
        Ok(loaded)
    }
}

impl WatchedMachine {
    fn steps(&mut self, session: &WatchSession) -> Result<i8, Error> {
        let Self { vm, id, decoder, .. } = self;
        if vm.isa() & ISA_MOP != 0 && vm.version() == VERSION0 {
            return Err(Error::InvalidVersion);
        }
        let decoder = decoder.get_or_insert_with(|| build_decoder::<u64>(vm.isa(), vm.version()));
        vm.set_running(true);
        while vm.running() {
            if vm.reset_signal() {
                decoder.reset_instructions_cache();
                session.lock().replace(*id);
            }
            let pc = *vm.pc();
            let instruction = decoder.decode(vm.memory_mut(), pc)?;
            let cycles = estimate_cycles(instruction);
            session.lock().step(&session.watch, vm, (*id, instruction, cycles));
            vm.add_cycles(cycles)?;
            execute(instruction, vm)?;
        }
        Ok(vm.exit_code())
    }
}

impl Located {
    /// The entry of a VM that starts the program.
    fn program(self, vm: u64, generation: u64, parent: Option<(u64, u64)>) -> WatchedVm {
        let Self { source, index, offset, length } = self;
        WatchedVm { vm, generation, parent, source, index, offset, length, cycles: 0, exit_code: None }
    }
}

impl State {
    /// The current program of a VM.
    fn entry(&mut self, vm: u64) -> Option<&mut WatchedVm> {
        self.vms.iter_mut().rev().find(|entry| entry.vm == vm)
    }

    fn begin(&mut self, vm: u64, program: &[u8], watch: Watch, pc: u64) {
        let before = self.entry(vm).map(|entry| (vm, entry.generation));
        let spawning = self.spawning.take().filter(|_| before.is_none());
        let by = before.or_else(|| {
            let parent = spawning?;
            self.entry(parent).map(|entry| (parent, entry.generation))
        });
        let asked = by.and_then(|(by, _)| self.pending.remove(&by)).unwrap_or(self.root);
        let located = Located { length: program.len() as u64, ..asked };
        let generation = before.map_or(0, |(_, generation)| generation + 1);
        self.vms.push(located.program(vm, generation, by));
        if vm == watch.vm && generation == 0 && (watch.calls || watch.reached) {
            let functions = self.parent.functions(program);
            self.close.calls = watch.calls.then(|| Calls::new(functions, pc));
        }
    }

    /// Handles a system call that loaded another program into the machine of `vm`.
    fn replace(&mut self, vm: u64) {
        let by = self.entry(vm).map(|entry| (vm, entry.generation));
        let located = self.pending.remove(&vm).unwrap_or_default();
        let generation = by.map_or(0, |(_, generation)| generation + 1);
        self.vms.push(located.program(vm, generation, by));
    }

    fn step(&mut self, watch: &Watch, vm: &DefaultMachine<Core>, (id, instruction, cycles): (u64, u64, u64)) {
        let is_stopped = self.stopped.is_some();
        let Some(entry) = self.entry(id) else { return };
        let is_close = id == watch.vm && entry.generation == 0;
        if !is_close {
            entry.cycles += cycles;
            return;
        }
        if is_stopped {
            return;
        }
        let is_over = entry.cycles + cycles > watch.cycles_max;
        if !is_over {
            entry.cycles += cycles;
        }
        let (pc, registers, sp) = (*vm.pc(), vm.registers(), vm.registers()[SP]);
        let mut error = is_over.then_some(Error::CyclesExceeded);
        if watch.reached {
            self.close.reached.insert(pc);
        }
        if let Some(calls) = &mut self.close.calls {
            calls.step(pc, instruction, cycles, registers);
            let heap = calls.heap();
            if watch.overlap && sp < heap {
                error = Some(Error::External(format!("Heap and stack overlapping sp={sp} heap={heap}")));
            }
        }
        if watch.steps {
            // Writing to a string cannot fail.
            let _ = write!(self.close.steps, "{vm}");
            if self.close.steps.len() > STEPS_BYTES {
                let steps = mem::take(&mut self.close.steps);
                self.parent.watched(Watched::Steps(steps));
            }
        }
        if let Some(error) = error {
            let stack = self.close.calls.as_ref().map_or_else(|| vec![0, 0], Calls::stack);
            let (name, registers) = (format!("{error:?}"), vm.to_string());
            self.stopped = Some(StoppedVm { error: error.to_string(), name, stack, registers });
        }
    }
}
