//! What the machines of one transaction share: native code, the tier, counters, whether all starts again.
//!
//! ckb-script makes machines itself and passes nothing of ours to them, so they take the session that is
//! current on their thread.

use std::{
    cell::RefCell,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use antares_abi::{BailoutReason, LoadedCode, Seen};
use bytes::Bytes;

use crate::{
    Program, Recording, Sampler, Sampling, Tier,
    budget::Budget,
    counters::{Counters, without_counted},
    limits::{LOADED_CYCLES_MIN, OBSERVED_PROGRAMS_MAX},
    memory::Core,
    observed::Observed,
    parked::Parking,
    resumed::ResumedRuns,
    unknown::{Unknown, count_unknown},
};

thread_local! {
    static CURRENT: RefCell<Option<Arc<MachineSession>>> = const { RefCell::new(None) };
}

/// Finds a program by its ELF, VM version and ISA.
pub type Finder = dyn Fn(&Bytes, u32, u8) -> Option<Arc<Program>> + Send + Sync;

/// What ran where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles in native code.
    pub native_cycles: u64,
    /// Cycles in the interpreter.
    pub interpreted_cycles: u64,
    /// Why everything was run again in the interpreter, if it was; the counts then are of that run.
    pub restarted: Option<BailoutReason>,
    /// Programs that were met without native code; at most
    /// [`UNKNOWN_PROGRAMS_MAX`](crate::limits::UNKNOWN_PROGRAMS_MAX).
    pub unknown: Vec<Unknown>,
}

/// What the machines of one transaction share.
pub struct MachineSession {
    finder: Option<Box<Finder>>,
    machines: AtomicUsize,
    state: Mutex<State>,
    /// How attempts are sampled.
    sampling: Option<Sampling>,
    /// Cycles that a machine has interpreted from which on it says which code it has loaded.
    loaded_cycles_min: u64,
    /// What native code has counted; none in a session whose programs do not.
    pub(crate) counters: Option<Counters>,
    pub(crate) budget: Budget,
    pub(crate) parking: Parking,
    /// Whether VMs that are put aside are copied, though they could stay.
    copies: bool,
}

struct State {
    programs: Vec<Arc<Program>>,
    is_interpreting: bool,
    /// Whether a machine is gone whose native code waited with registers that nobody knows.
    has_lost_registers: bool,
    counts: Counts,
    /// The profile of the attempt under way, while no machine has it.
    sampler: Option<Sampler>,
    /// Attempts so far: each has sample points of its own.
    attempts: u64,
    /// Of this attempt.
    resumed: ResumedRuns,
    /// Where programs went that their native code does not know; none while a machine has it.
    observed: Vec<(Arc<Program>, Option<Observed>)>,
    /// Where code went that was loaded at run time and has native code, which does not know of it.
    loaded: Vec<(Arc<Program>, Seen)>,
    /// Programs whose native code ran in the attempt under way, and those that made it start again.
    at_work: Vec<Arc<Program>>,
    to_blame: Vec<Arc<Program>>,
    /// Whether a script ended in an error since the attempt began.
    has_failed: bool,
    /// Programs whose native code ran, in all attempts: whether to the end.
    ran: Vec<(Arc<Program>, bool)>,
}

impl MachineSession {
    /// A session that may use `programs`, of any VM version.
    #[must_use]
    pub fn new(tier: Tier, programs: Vec<Arc<Program>>) -> Arc<Self> {
        Arc::new(Self::make(tier, programs, None))
    }

    /// A session that asks `finder` for each program that is loaded.
    #[must_use]
    pub fn with_finder(tier: Tier, finder: Box<Finder>) -> Arc<Self> {
        Arc::new(Self::make(tier, Vec::new(), Some(finder)))
    }

    fn make(tier: Tier, programs: Vec<Arc<Program>>, finder: Option<Box<Finder>>) -> Self {
        Self::make_of(tier, without_counted(programs), finder)
    }

    pub(crate) fn make_of(tier: Tier, programs: Vec<Arc<Program>>, finder: Option<Box<Finder>>) -> Self {
        let is_interpreting = tier == Tier::Interpreter;
        let state = State {
            programs,
            is_interpreting,
            has_lost_registers: false,
            counts: Counts::default(),
            sampler: None,
            resumed: ResumedRuns::default(),
            attempts: 0,
            observed: Vec::new(),
            loaded: Vec::new(),
            at_work: Vec::new(),
            to_blame: Vec::new(),
            has_failed: false,
            ran: Vec::new(),
        };
        Self {
            finder,
            machines: AtomicUsize::new(0),
            state: Mutex::new(state),
            sampling: None,
            loaded_cycles_min: LOADED_CYCLES_MIN,
            counters: None,
            budget: Budget::default(),
            parking: Parking::default(),
            copies: false,
        }
    }

    /// The same session, which hears of code that is loaded at run time from so many interpreted cycles on.
    #[must_use]
    pub fn reporting_loaded_code_from(self: Arc<Self>, cycles: u64) -> Arc<Self> {
        match Arc::try_unwrap(self) {
            Ok(session) => Arc::new(Self { loaded_cycles_min: cycles, ..session }),
            // Somebody uses it already.
            Err(session) => session,
        }
    }

    /// The same session, whose VMs are copied when they are put aside, as where they cannot stay mapped.
    #[must_use]
    pub fn copying(self: Arc<Self>) -> Arc<Self> {
        match Arc::try_unwrap(self) {
            Ok(session) => Arc::new(Self { copies: true, ..session }),
            // Somebody uses it already.
            Err(session) => session,
        }
    }

    /// Whether a machine that has interpreted `cycles` is to say which code it has loaded, if it counts.
    pub(crate) fn hears_of_loaded_code(&self, cycles: u64) -> bool {
        let state = self.lock();
        cycles >= self.loaded_cycles_min && (state.counts.restarted.is_none() || state.is_interpreting)
    }

    /// The same session, whose attempts are sampled; libraries need [frames](crate::Library::with_frames).
    #[must_use]
    pub fn sampled(self: Arc<Self>, sampling: Sampling) -> Arc<Self> {
        match Arc::try_unwrap(self) {
            Ok(session) => Arc::new(Self { sampling: Some(sampling), ..session }),
            // Somebody uses it already.
            Err(session) => session,
        }
    }

    /// What was sampled of the last attempt, which took `cycles`; none if it was not sampled.
    pub fn take_samples(&self, cycles: u64) -> Option<Recording> {
        let sampling = self.sampling?;
        let mut state = self.lock();
        let sampler = state.sampler.take().filter(|_| state.counts.restarted.is_none());
        Some(sampler.unwrap_or_else(|| Sampler::new(sampling)).finish(cycles))
    }

    /// The profile, for a machine that is about to run.
    pub(crate) fn take_sampler(&self) -> Option<Sampler> {
        self.lock().sampler.take()
    }

    /// The profile back.
    pub(crate) fn give_sampler(&self, sampler: Sampler) {
        self.lock().sampler = Some(sampler);
    }

    /// Whether attempts are sampled.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampling.is_some()
    }

    /// Lets `change` see the profile of the attempt under way, if it is sampled and no machine has it.
    pub(crate) fn with_sampler(&self, change: impl FnOnce(&mut Sampler)) {
        if let Some(sampler) = &mut self.lock().sampler {
            change(sampler);
        }
    }

    /// The session that is current on this thread; without one, a session without native code.
    pub(crate) fn current() -> Arc<Self> {
        let current = CURRENT.with_borrow(Option::clone);
        current.unwrap_or_else(|| Self::new(Tier::Interpreter, Vec::new()))
    }

    /// Runs `work` with this session as the current one of this thread.
    pub fn enter<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<MachineSession>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// Runs `attempt` with this session as the current one. If native code had to give up meanwhile, the
    /// result means nothing, and `attempt` runs again with the interpreter alone. It must make all that
    /// scripts can change anew each time. Afterwards the session runs native code again.
    pub fn attempt<T>(self: &Arc<Self>, mut attempt: impl FnMut() -> T) -> T {
        self.begin();
        // Machines that count are asked when they are dropped.
        self.parking.set_open(self.counters.is_none() && !self.copies);
        let mut result = self.enter(&mut attempt);
        self.parking.set_open(false);
        if self.restarted().is_some() {
            drop(result);
            self.interpret();
            result = self.enter(&mut attempt);
            self.lock().is_interpreting = false;
        }
        self.lock().judge();
        result
    }

    fn begin(&self) {
        let mut state = self.lock();
        state.has_lost_registers = false;
        state.at_work.clear();
        state.to_blame.clear();
        state.has_failed = false;
        state.resumed = ResumedRuns::default();
        state.counts.restarted = None;
        let attempt = state.attempts;
        state.attempts += 1;
        state.sampler = self
            .sampling
            .map(|sampling| Sampler::new(Sampling { seed: sampling.seed.wrapping_add(attempt), ..sampling }));
    }

    /// Why native code gave up, if it did: what ran since is to be thrown away.
    #[must_use]
    pub fn restarted(&self) -> Option<BailoutReason> {
        self.lock().counts.restarted
    }

    /// Lets machines made from now on use the interpreter alone, and counts anew.
    pub fn interpret(&self) {
        let mut state = self.lock();
        state.is_interpreting = true;
        let restarted = state.counts.restarted;
        state.counts = Counts { restarted, ..Counts::default() };
    }

    /// What was counted since the last call.
    pub fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.lock().counts)
    }

    /// What was found out of programs whose native code was left for places that it does not know, since the
    /// last call.
    pub fn take_seen(&self) -> Vec<(Arc<Program>, Seen)> {
        let (observed, loaded) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.observed), std::mem::take(&mut state.loaded))
        };
        let seen = |(program, observed): (Arc<Program>, Option<Observed>)| {
            let seen = seen_of(&program, &observed?);
            Some((program, seen))
        };
        let seen = observed.into_iter().filter_map(seen).chain(loaded);
        seen.filter(|(_, seen)| !seen.hints.is_empty()).collect()
    }

    /// Notes that a machine that ran `caller` had loaded `code` and interpreted `cycles`, perhaps in there.
    pub(crate) fn meet(
        &self,
        code: &LoadedCode<'_>,
        caller: Option<&Arc<Program>>,
        (vm_version, isa): (u32, u8),
        cycles: u64,
    ) {
        let file = Bytes::from(code.to_bytes());
        let mut state = self.lock();
        let mut observed =
            state.observed.iter().filter(|(program, _)| caller.is_some_and(|it| Arc::ptr_eq(it, program)));
        let observed = observed.find_map(|(_, observed)| observed.as_ref());
        let mut programs = state.programs.iter();
        let known = programs.find(|program| program.is_for(vm_version, isa) && program.is(&file)).cloned();
        match known {
            Some(program) => {
                let seen = observed.map(|observed| seen_of(&program, observed));
                if let Some(seen) = seen.filter(|_| state.loaded.len() < OBSERVED_PROGRAMS_MAX) {
                    state.loaded.push((program, seen));
                }
            }
            None => {
                let is_code = |address| (code.start..code.end).contains(&address);
                let seen =
                    observed.map(|observed| observed.seen_of_loaded(is_code, |_| false)).unwrap_or_default();
                count_unknown(&mut state.counts.unknown, Unknown { elf: file, cycles, seen });
            }
        }
    }

    /// What is known of where `program` goes, for a machine that is about to run it; none if that is of too
    /// many programs.
    pub(crate) fn take_observed(&self, program: &Arc<Program>) -> Option<Observed> {
        let observed = &mut self.lock().observed;
        if let Some((_, observed)) = observed.iter_mut().find(|(other, _)| Arc::ptr_eq(other, program)) {
            return observed.take();
        }
        let has_space = observed.len() < OBSERVED_PROGRAMS_MAX;
        has_space.then(|| {
            observed.push((program.clone(), None));
            Observed::new()
        })
    }

    /// The same back.
    pub(crate) fn give_observed(&self, program: &Arc<Program>, back: Observed) {
        let observed = &mut self.lock().observed;
        if let Some((_, observed)) = observed.iter_mut().find(|(other, _)| Arc::ptr_eq(other, program)) {
            *observed = Some(back);
        }
    }

    /// Whether all runs again in the interpreter because native code was left for a place that it does not
    /// know.
    pub(crate) fn is_astray(&self) -> bool {
        let state = self.lock();
        let reason = state.counts.restarted;
        state.is_interpreting
            && matches!(reason, Some(BailoutReason::UnknownTarget | BailoutReason::Unsupported))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_interpreting(&self) -> bool {
        self.lock().is_interpreting
    }

    /// Notes that native code of `programs` gave up; the first reason of an attempt is kept.
    pub(crate) fn give_up<'a>(
        &self,
        reason: BailoutReason,
        programs: impl Iterator<Item = &'a Arc<Program>>,
    ) {
        let mut state = self.lock();
        if state.counts.restarted.is_none() {
            state.counts.restarted = Some(reason);
            state.to_blame.extend(programs.cloned());
            // What follows in this attempt is no script's end.
            state.has_failed = false;
        }
    }

    /// Notes that a script ended in an error or at a limit: native code that was left before could not have
    /// gone further.
    pub(crate) fn note_failed(&self) {
        self.lock().has_failed = true;
    }

    /// Notes that native code of `programs` runs.
    pub(crate) fn note_ran<'a>(&self, programs: impl Iterator<Item = &'a Arc<Program>>) {
        let at_work = &mut self.lock().at_work;
        for program in programs {
            if !at_work.iter().any(|other| Arc::ptr_eq(other, program)) {
                at_work.push(program.clone());
            }
        }
    }

    /// What each attempt since the last call says of native code: the programs that it ran to the end (true);
    /// or those that made it begin again (false), if the scripts went on from there and ended without an
    /// error. Of others it says nothing.
    pub fn take_ran(&self) -> Vec<(Arc<Program>, bool)> {
        std::mem::take(&mut self.lock().ran)
    }

    /// Notes that a machine is gone in the middle of native code. That is the end of an attempt, unless
    /// another machine runs after it: perhaps in its place.
    pub(crate) fn lose_registers(&self) {
        self.lock().has_lost_registers = true;
    }

    pub(crate) fn has_lost_registers(&self) -> bool {
        self.lock().has_lost_registers
    }

    /// How far VMs ran that were put aside.
    pub(crate) fn resumed(&self) -> ResumedRuns {
        self.lock().resumed
    }

    /// Notes that such a VM has run for `cycles`.
    pub(crate) fn count_resumed(&self, cycles: u64) {
        self.lock().resumed.add(cycles);
    }

    pub(crate) fn programs(&self) -> Vec<Arc<Program>> {
        self.lock().programs.clone()
    }

    /// The program with this ELF.
    pub(crate) fn find(&self, elf: &Bytes, vm_version: u32, isa: u8) -> Option<Arc<Program>> {
        let programs = self.programs();
        let known = programs.iter().find(|program| program.is_for(vm_version, isa) && program.is(elf));
        if let Some(program) = known {
            return Some(program.clone());
        }
        let found = self.finder.as_ref()?(elf, vm_version, isa)?;
        self.lock().programs.push(found.clone());
        Some(found)
    }

    pub(crate) fn count(&self, native_cycles: u64, interpreted_cycles: u64) {
        let counts = &mut self.lock().counts;
        counts.native_cycles = counts.native_cycles.saturating_add(native_cycles);
        counts.interpreted_cycles = counts.interpreted_cycles.saturating_add(interpreted_cycles);
    }

    pub(crate) fn count_unknown(&self, elf: &Bytes, cycles: u64) {
        let one = Unknown { elf: elf.clone(), cycles, seen: Seen::default() };
        count_unknown(&mut self.lock().counts.unknown, one);
    }

    pub(crate) fn machine_made(&self, machine: &mut Core) {
        self.prepare_counters(machine);
        self.machines.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn machine_gone(&self, machine: &mut Core) {
        self.add_counters(machine);
        self.machines.fetch_sub(1, Ordering::Relaxed);
    }

    /// Machines alive.
    pub(crate) fn machines(&self) -> usize {
        self.machines.load(Ordering::Relaxed)
    }
}

impl State {
    /// Notes what the attempt that is over says of native code.
    fn judge(&mut self) {
        let is_whole = self.counts.restarted.is_none();
        let programs = if is_whole { &mut self.at_work } else { &mut self.to_blame };
        let programs = std::mem::take(programs);
        if is_whole || !self.has_failed {
            self.ran.extend(programs.into_iter().map(|program| (program, is_whole)));
        }
    }
}

/// Where `program` went, by what was observed, that its native code does not know. What it calls elsewhere is
/// not its own.
fn seen_of(program: &Program, observed: &Observed) -> Seen {
    let is_known = |address| program.library().entry(address).is_some();
    let is_code = |address| program.is_code(address);
    if program.is_loaded_code() {
        observed.seen_of_loaded(is_code, is_known)
    } else {
        observed.seen(is_code, is_known)
    }
}

impl fmt::Debug for MachineSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Session")
            .field("programs", &state.programs.len())
            .field("counts", &state.counts)
            .finish_non_exhaustive()
    }
}
