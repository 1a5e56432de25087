//! The machine that ckb-script drives in a profiled transaction, and the state that a script group's machines
//! share.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_profile::evidence::Evidence;
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachine, DefaultMachineRunner, Error, Machine as _, SupportMachine,
    elf::ProgramMetadata,
    registers::{A0, A7},
};

use crate::{
    calls::{Calls, above},
    current::{self, Current},
    memory::Core,
    recording::{ROOT, Recorded, Recording, StackLocation},
    tracer::{Into, Tracer},
    watch::{End, Watch, Watching},
};

/// Number of the syscall that returns the number of the calling VM.
const PROCESS_ID: u64 = 2603;

thread_local! {
    static CURRENT: Current<ProfileSession> = const { RefCell::new(None) };
}

/// Shared state of a script group's machines during profiling.
#[derive(Default)]
pub struct ProfileSession {
    state: Mutex<State>,
    /// Evidence to collect in addition to the recording.
    watching: Option<Watching>,
}

#[derive(Default)]
struct State {
    recording: Recording,
    watch: Option<Watch>,
    /// By VM number: VMs that run, wait, or are suspended.
    calls: BTreeMap<u64, Calls>,
    last: Option<u64>,
    spawns: u32,
    execs: u32,
    generations: u32,
    switches: u64,
    /// The group's result is final, and its VMs are being dropped.
    has_ended: bool,
}

/// The recording of a script group.
#[derive(Debug, Default)]
pub struct GroupRecording {
    /// Activity of all its VMs.
    pub recording: Recording,
    /// How often a VM was suspended or resumed, which costs cycles that belong to no VM.
    pub switches: u64,
    /// How its VMs ended, if the session collects evidence.
    pub evidence: Option<Evidence>,
}

impl ProfileSession {
    /// Creates an empty session.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A session that also collects evidence.
    #[must_use]
    pub fn watching(watching: Watching) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), watching: Some(watching) })
    }

    /// Runs `attempt`, whose machines record into this session. Discards the previous recording.
    pub fn attempt<T>(self: &Arc<Self>, attempt: impl FnOnce() -> T) -> T {
        *self.lock() = State { watch: self.watching.map(Watch::new), ..State::default() };
        current::enter(&CURRENT, self, attempt)
    }

    /// Returns the recording since the last attempt began.
    pub fn take(&self) -> GroupRecording {
        let State { recording, switches, watch, .. } = mem::take(&mut *self.lock());
        let evidence = watch.map(|watch| watch.finish(&recording));
        GroupRecording { recording, switches, evidence }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine for ckb-script's `Scheduler` that interprets, and records into the [`ProfileSession`] current at
/// its creation.
pub struct ProfiledMachine {
    vm: DefaultMachine<Core>,
    session: Arc<ProfileSession>,
    tracer: Option<Tracer>,
    id: Option<u64>,
    /// Generation of this machine's [`Calls`], once known.
    generation: Option<u32>,
    /// False if the machine was created to resume a suspended VM.
    is_loaded: bool,
    has_exited: bool,
}

impl ProfiledMachine {
    /// The number of this machine's VM. Before version 2 there is only one VM.
    fn id(&mut self) -> u64 {
        if let Some(id) = self.id {
            return id;
        }
        let id = process_id(&mut self.vm);
        self.id = Some(id);
        id
    }
}

/// Queries the number of a machine's VM by syscall, and preserves its registers.
pub(crate) fn process_id(vm: &mut DefaultMachine<Core>) -> u64 {
    let (a0, a7) = (vm.registers()[A0], vm.registers()[A7]);
    vm.set_register(A0, 0);
    vm.set_register(A7, PROCESS_ID);
    // The syscall changes only a0. It fails if it does not exist, or, after its work, if the cycle limit is
    // already exceeded.
    let _ = vm.ecall();
    let id = vm.registers()[A0];
    vm.set_register(A0, a0);
    vm.set_register(A7, a7);
    id
}

impl DefaultMachineRunner for ProfiledMachine {
    type Inner = Core;

    fn new(vm: DefaultMachine<Core>) -> Self {
        let session = CURRENT.with_borrow(Option::clone).unwrap_or_default();
        Self { vm, session, tracer: None, id: None, generation: None, is_loaded: false, has_exited: false }
    }

    fn machine(&self) -> &DefaultMachine<Core> {
        &self.vm
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Core> {
        &mut self.vm
    }

    fn run(&mut self) -> Result<i8, Error> {
        let id = self.id();
        let session = self.session.clone();
        let mut state = session.lock();
        let State { recording, watch, calls, last, execs, switches, .. } = &mut *state;
        *last = Some(id);
        // A machine without a load resumes a suspended VM, whose calls are still recorded.
        let calls = calls.entry(id).or_insert_with(|| Calls::new(ROOT, 0, 0));
        self.generation = Some(calls.generation);
        let tracer = self.tracer.get_or_insert_with(|| Tracer::new(&self.vm));
        calls.begin(recording, self.vm.cycles());
        if let Some(watch) = watch.as_mut() {
            watch.begin(&self.vm, id, *switches);
        }
        let into = Into { calls, recording, execs, watch: watch.as_mut() };
        let result = tracer.run(&mut self.vm, into);
        if let Some(watch) = watch {
            if !matches!(result, Err(Error::Yield)) {
                watch.end(&self.vm, &End { id, calls, result: &result }, recording);
            }
            watch.stop(&self.vm);
        }
        self.has_exited = result.is_ok();
        state.has_ended = match &result {
            Ok(_) => id == 0,
            Err(error) => *error != Error::Yield,
        };
        result
    }

    fn load_program_with_metadata(
        &mut self,
        program: &Bytes,
        metadata: &ProgramMetadata,
        args: impl ExactSizeIterator<Item = Result<Bytes, Error>>,
    ) -> Result<u64, Error> {
        self.is_loaded = true;
        let loaded = self.vm.load_program_with_metadata(program, metadata, args);
        let id = self.id();
        let session = self.session.clone();
        let mut state = session.lock();
        // A load error ends the group.
        state.has_ended |= loaded.is_err();
        let bytes = loaded?;
        let State { recording, watch, calls, last, spawns, execs, generations, .. } = &mut *state;
        if let Some(watch) = watch.as_mut() {
            watch.forget(id);
        }
        let place = if calls.contains_key(&id) {
            *execs += 1;
            StackLocation::Exec(*execs)
        } else if last.is_some() {
            *spawns += 1;
            StackLocation::Spawn(*spawns)
        } else {
            StackLocation::Root
        };
        let context = match place {
            StackLocation::Root => ROOT,
            place => above(recording, last.and_then(|last| calls.get(&last)), place),
        };
        let (vm_version, isa) = (self.vm.version(), self.vm.isa());
        let recorded = recording.program(Recorded::new(Some(program.clone()), vm_version, isa));
        *generations += 1;
        self.generation = Some(*generations);
        calls.insert(id, Calls::new(context, recorded, *generations));
        Ok(bytes)
    }
}

impl Drop for ProfiledMachine {
    fn drop(&mut self) {
        let id = self.id();
        let mut state = self.session.lock();
        if !self.is_loaded {
            state.switches += 1;
        }
        // A machine that is dropped before the end, without exit or replacement, is suspended.
        let current = state.calls.get(&id).map(|calls| calls.generation);
        let is_replaced = self.generation.is_some_and(|generation| Some(generation) != current);
        if !state.has_ended && !self.has_exited && !is_replaced {
            state.switches += 1;
            let State { recording, watch, calls, last, .. } = &mut *state;
            // The syscall that it waits in may have been refused; if the VM resumes, it was not.
            if let (Some(watch), Some(calls)) = (watch, calls.get(&id).filter(|_| *last == Some(id))) {
                watch.end(&self.vm, &End { id, calls, result: &Err(Error::Yield) }, recording);
            }
        }
    }
}
