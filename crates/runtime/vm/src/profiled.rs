//! The machine that ckb-script drives when a transaction is profiled, and what the machines of one script
//! group share.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt, mem,
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
    memory::Core,
    recording::{ROOT, Recorded, Recording, StackLocation},
    tracer::{Into, Tracer},
    watch::{End, Watch, Watching},
};

/// Number of the syscall that tells a VM its number.
const PROCESS_ID: u64 = 2603;

thread_local! {
    static CURRENT: RefCell<Option<Arc<ProfileSession>>> = const { RefCell::new(None) };
}

/// What the machines of one script group share while they are profiled.
#[derive(Default)]
pub struct ProfileSession {
    state: Mutex<State>,
    /// What is kept of attempts beside their recording.
    watching: Option<Watching>,
}

#[derive(Default)]
struct State {
    recording: Recording,
    watch: Option<Watch>,
    /// By the number of the VM: those that run, wait, or are put aside.
    calls: BTreeMap<u64, Calls>,
    /// The VM that ran last.
    last: Option<u64>,
    spawns: u32,
    execs: u32,
    generations: u32,
    switches: u64,
    /// The group is decided, and its VMs go away.
    has_ended: bool,
}

/// What was seen of a script group.
#[derive(Debug, Default)]
pub struct GroupRecording {
    /// All that its VMs did.
    pub recording: Recording,
    /// How often a VM was put aside or brought back, which costs cycles that no VM has.
    pub switches: u64,
    /// How its VMs ended, if they were watched.
    pub evidence: Option<Evidence>,
}

impl ProfileSession {
    /// A session that has seen nothing.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A session that also keeps evidence.
    #[must_use]
    pub fn watching(watching: Watching) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), watching: Some(watching) })
    }

    /// Runs `attempt`, whose machines record here what they do. What was recorded before is forgotten.
    pub fn attempt<T>(self: &Arc<Self>, attempt: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<ProfileSession>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        *self.lock() = State { watch: self.watching.map(Watch::new), ..State::default() };
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        attempt()
    }

    /// What was recorded since the last attempt began.
    pub fn take(&self) -> GroupRecording {
        let State { recording, switches, watch, .. } = mem::take(&mut *self.lock());
        let evidence = watch.map(|watch| watch.finish(&recording));
        GroupRecording { recording, switches, evidence }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProfileSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileSession").field("calls", &self.lock().calls.len()).finish_non_exhaustive()
    }
}

/// A machine for ckb-script's `Scheduler` that interprets, and records what it does in the [`ProfileSession`]
/// that is current when it is made.
pub struct ProfiledMachine {
    vm: DefaultMachine<Core>,
    session: Arc<ProfileSession>,
    tracer: Option<Tracer>,
    id: Option<u64>,
    /// Of the [`Calls`] that are this machine's, once that is known.
    generation: Option<u32>,
    /// A machine that is not loaded is one that was put aside before.
    is_loaded: bool,
    has_exited: bool,
}

impl ProfiledMachine {
    /// The number of the VM that this machine is. Before version 2 there is one alone.
    fn id(&mut self) -> u64 {
        if let Some(id) = self.id {
            return id;
        }
        let id = process_id(&mut self.vm);
        self.id = Some(id);
        id
    }
}

/// Asks the syscall for the number of the VM that a machine is, and leaves its registers as they were.
pub(crate) fn process_id(vm: &mut DefaultMachine<Core>) -> u64 {
    let (a0, a7) = (vm.registers()[A0], vm.registers()[A7]);
    vm.set_register(A0, 0);
    vm.set_register(A7, PROCESS_ID);
    // It changes nothing but a0. It fails where it does not exist, and, behind its work, where the cycle
    // limit is already passed.
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
        // One that nobody loaded was brought back, and left its calls behind when it was put aside.
        let calls = calls.entry(id).or_insert_with(|| Calls::new(ROOT, 0, 0));
        self.generation = Some(calls.generation);
        let tracer = self.tracer.get_or_insert_with(|| Tracer::new(&self.vm));
        calls.begin(recording, self.vm.cycles());
        if let Some(watch) = watch.as_mut() {
            watch.begin(&self.vm, id, *switches);
        }
        let into = &mut Into { recording, execs, watch: watch.as_mut() };
        let result = tracer.run(&mut self.vm, calls, into);
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
        // The error of a load ends the group.
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
        // Who goes before the end, has not exited, and whose place nobody took, is put aside.
        let current = state.calls.get(&id).map(|calls| calls.generation);
        let is_replaced = self.generation.is_some_and(|generation| Some(generation) != current);
        if !state.has_ended && !self.has_exited && !is_replaced {
            state.switches += 1;
            let State { recording, watch, calls, last, .. } = &mut *state;
            // What it waits for may have been refused: if it goes on, it was not.
            if let (Some(watch), Some(calls)) = (watch, calls.get(&id).filter(|_| *last == Some(id))) {
                watch.end(&self.vm, &End { id, calls, result: &Err(Error::Yield) }, recording);
            }
        }
    }
}

impl fmt::Debug for ProfiledMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfiledMachine").field("id", &self.id).finish_non_exhaustive()
    }
}
