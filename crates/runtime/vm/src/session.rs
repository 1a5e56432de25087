//! Shared state of a transaction's machines: native code, tier, counters, and whether the attempt must
//! restart.

use std::{
    cell::RefCell,
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
    cell_cache,
    counters::{Counters, without_counted},
    current::{self, Current},
    limits::{LOADED_CYCLES_MIN, OBSERVED_PROGRAMS_MAX},
    memory::Core,
    observed::Observed,
    parked::Parking,
    resumed::ResumedRuns,
    unknown::{Unknown, count_unknown},
};

thread_local! {
    static CURRENT: Current<MachineSession> = const { RefCell::new(None) };
}

/// Finds a program by its ELF, VM version and ISA.
pub type Finder = dyn Fn(&Bytes, u32, u8) -> Option<Arc<Program>> + Send + Sync;

/// Cycles by tier, and programs without native code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles in native code.
    pub native_cycles: u64,
    /// Cycles in the interpreter.
    pub interpreted_cycles: u64,
    /// Why the attempt restarted in the interpreter, if it did; the counts are then those of the second run.
    pub restarted: Option<BailoutReason>,
    /// Programs that ran without native code; at most
    /// [`UNKNOWN_PROGRAMS_MAX`](crate::limits::UNKNOWN_PROGRAMS_MAX).
    pub unknown: Vec<Unknown>,
}

/// Shared state of a transaction's machines.
pub struct MachineSession {
    finder: Option<Box<Finder>>,
    machines: AtomicUsize,
    state: Mutex<State>,
    /// How to sample attempts, if at all.
    sampling: Option<Sampling>,
    /// Interpreted cycles of a machine from which it reports the code it loaded.
    loaded_cycles_min: u64,
    /// Counters of native code; `None` unless the session counts.
    pub(crate) counters: Option<Counters>,
    pub(crate) budget: Budget,
    pub(crate) parking: Parking,
    /// Whether suspended VMs are copied even if they could stay mapped.
    copies: bool,
}

#[derive(Default)]
struct State {
    programs: Vec<Arc<Program>>,
    is_interpreting: bool,
    /// Whether a machine was dropped while its native code waited with unknown registers.
    has_lost_registers: bool,
    counts: Counts,
    /// The profile of the current attempt, unless a machine holds it.
    sampler: Option<Sampler>,
    /// Number of attempts so far, which varies the sample points.
    attempts: u64,
    /// Resumed runs of the current attempt.
    resumed: ResumedRuns,
    /// Observed jump targets of programs, unknown to their native code; `None` while a machine holds them.
    observed: Vec<(Arc<Program>, Option<Observed>)>,
    /// Observed jump targets of loaded code that has native code, but not for these targets.
    loaded: Vec<(Arc<Program>, Seen)>,
    /// Programs whose native code ran in the current attempt, and those that made it restart.
    at_work: Vec<Arc<Program>>,
    to_blame: Vec<Arc<Program>>,
    /// Whether a script ended in an error since the attempt began.
    has_failed: bool,
    /// Programs whose native code ran, in all attempts, and whether it completed.
    ran: Vec<(Arc<Program>, bool)>,
}

impl MachineSession {
    /// Creates a session that may use `programs`, of any VM version.
    #[must_use]
    pub fn new(tier: Tier, programs: Vec<Arc<Program>>) -> Arc<Self> {
        Arc::new(Self::make_of(tier, without_counted(programs), None))
    }

    /// Creates a session that queries `finder` for each loaded program.
    #[must_use]
    pub fn with_finder(tier: Tier, finder: Box<Finder>) -> Arc<Self> {
        Arc::new(Self::make_of(tier, Vec::new(), Some(finder)))
    }

    pub(crate) fn make_of(tier: Tier, programs: Vec<Arc<Program>>, finder: Option<Box<Finder>>) -> Self {
        let is_interpreting = tier == Tier::Interpreter;
        let state = State { programs, is_interpreting, ..State::default() };
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

    /// As `change` makes it, unless the session is already shared.
    fn changed(self: Arc<Self>, change: impl FnOnce(Self) -> Self) -> Arc<Self> {
        Arc::try_unwrap(self).map_or_else(|session| session, |session| Arc::new(change(session)))
    }

    /// Makes the session report code that is loaded at run time, from this number of interpreted cycles.
    #[must_use]
    pub fn reporting_loaded_code_from(self: Arc<Self>, cycles: u64) -> Arc<Self> {
        self.changed(|session| Self { loaded_cycles_min: cycles, ..session })
    }

    /// Makes the session copy suspended VMs, as if they could not stay mapped.
    #[must_use]
    pub fn copying(self: Arc<Self>) -> Arc<Self> {
        self.changed(|session| Self { copies: true, ..session })
    }

    /// Whether a machine that interpreted `cycles` must report the code it loaded, if its run counts.
    pub(crate) fn hears_of_loaded_code(&self, cycles: u64) -> bool {
        let state = self.lock();
        cycles >= self.loaded_cycles_min && (state.counts.restarted.is_none() || state.is_interpreting)
    }

    /// Makes the session sample attempts; libraries need [frames](crate::Library::with_frames).
    #[must_use]
    pub fn sampled(self: Arc<Self>, sampling: Sampling) -> Arc<Self> {
        self.changed(|session| Self { sampling: Some(sampling), ..session })
    }

    /// Returns the samples of the last attempt, which took `cycles`; `None` if the session is not sampled.
    pub fn take_samples(&self, cycles: u64) -> Option<Recording> {
        let sampling = self.sampling?;
        let mut state = self.lock();
        let sampler = state.sampler.take().filter(|_| state.counts.restarted.is_none());
        Some(sampler.unwrap_or_else(|| Sampler::new(sampling)).finish(cycles))
    }

    /// Takes the profile, for a machine that is about to run.
    pub(crate) fn take_sampler(&self) -> Option<Sampler> {
        self.lock().sampler.take()
    }

    /// Returns the profile to the session.
    pub(crate) fn give_sampler(&self, sampler: Sampler) {
        self.lock().sampler = Some(sampler);
    }

    pub(crate) fn is_sampled(&self) -> bool {
        self.sampling.is_some()
    }

    /// Passes the profile of the current attempt to `change`, if it is sampled and no machine holds the
    /// profile.
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
        current::enter(&CURRENT, self, work)
    }

    /// Runs `attempt` with this session as the current one. If native code bails out, the result is invalid,
    /// and `attempt` runs again with only the interpreter. Each call must recreate all state that scripts can
    /// change. Afterwards the session runs native code again.
    pub fn attempt<T>(self: &Arc<Self>, mut attempt: impl FnMut() -> T) -> T {
        /// Temporary changes of an attempt, undone even if it panics.
        struct Changed<'a>(&'a MachineSession);
        impl Drop for Changed<'_> {
            fn drop(&mut self) {
                self.0.parking.set_open(false);
                let mut state = self.0.lock();
                state.is_interpreting &= state.counts.restarted.is_none();
            }
        }
        self.begin();
        let _changed = Changed(self);
        // Counting machines report their counters when they are dropped.
        self.parking.set_open(self.counters.is_none() && !self.copies);
        let mut result = cell_cache::enabled(|| self.enter(&mut attempt));
        self.parking.set_open(false);
        if self.restarted().is_some() {
            drop(result);
            self.interpret();
            result = self.enter(&mut attempt);
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

    /// Why native code bailed out, if it did: the results since then must be discarded.
    #[must_use]
    pub fn restarted(&self) -> Option<BailoutReason> {
        self.lock().counts.restarted
    }

    /// Makes machines created from now on use only the interpreter, and resets the counts.
    pub fn interpret(&self) {
        let mut state = self.lock();
        state.is_interpreting = true;
        let restarted = state.counts.restarted;
        state.counts = Counts { restarted, ..Counts::default() };
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.lock().counts)
    }

    /// Returns the observed jump targets of programs whose native code did not know them, since the last
    /// call.
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

    /// Records that a machine running `caller` loaded `code` and interpreted `cycles`, possibly in that code.
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

    /// Takes the observed jump targets of `program`, for a machine that is about to run it. `None` if a
    /// machine holds them, or at the limit of observed programs.
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

    /// Returns the observed jump targets to the session.
    pub(crate) fn give_observed(&self, program: &Arc<Program>, back: Observed) {
        let observed = &mut self.lock().observed;
        if let Some((_, observed)) = observed.iter_mut().find(|(other, _)| Arc::ptr_eq(other, program)) {
            *observed = Some(back);
        }
    }

    /// Whether the attempt runs again in the interpreter because of an unknown jump target or unsupported
    /// code.
    pub(crate) fn is_astray(&self) -> bool {
        let state = self.lock();
        let reason = state.counts.restarted;
        state.is_interpreting
            && matches!(reason, Some(BailoutReason::UnknownTarget | BailoutReason::Unsupported))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_interpreting(&self) -> bool {
        self.lock().is_interpreting
    }

    /// Records that native code of `programs` bailed out; the first reason of an attempt is retained.
    pub(crate) fn give_up<'a>(
        &self,
        reason: BailoutReason,
        programs: impl Iterator<Item = &'a Arc<Program>>,
    ) {
        let mut state = self.lock();
        if state.counts.restarted.is_none() {
            state.counts.restarted = Some(reason);
            state.to_blame.extend(programs.cloned());
            // Errors after the bailout are not those of a script.
            state.has_failed = false;
        }
    }

    /// Records that a script ended in an error or at a limit: native code that bailed out earlier could not
    /// have continued.
    pub(crate) fn record_failed(&self) {
        self.lock().has_failed = true;
    }

    /// Records that native code of `programs` runs.
    pub(crate) fn record_ran<'a>(&self, programs: impl Iterator<Item = &'a Arc<Program>>) {
        let at_work = &mut self.lock().at_work;
        for program in programs {
            if !at_work.iter().any(|other| Arc::ptr_eq(other, program)) {
                at_work.push(program.clone());
            }
        }
    }

    /// Returns the verdicts on native code of the attempts since the last call. Programs whose native code
    /// completed have `true`. Programs that caused a restart have `false`, if the scripts then ended without
    /// an error. Other programs have no entry.
    pub fn take_ran(&self) -> Vec<(Arc<Program>, bool)> {
        std::mem::take(&mut self.lock().ran)
    }

    /// Records that a machine was dropped while its native code waited. Normally the attempt is over. If
    /// another machine runs afterwards, possibly its replacement, the attempt restarts in the interpreter.
    pub(crate) fn lose_registers(&self) {
        self.lock().has_lost_registers = true;
    }

    pub(crate) fn has_lost_registers(&self) -> bool {
        self.lock().has_lost_registers
    }

    /// Statistics of resumed VMs.
    pub(crate) fn resumed(&self) -> ResumedRuns {
        self.lock().resumed
    }

    /// Records that a resumed VM ran for `cycles`.
    pub(crate) fn count_resumed(&self, cycles: u64) {
        self.lock().resumed.add(cycles);
    }

    /// The programs with native code.
    #[must_use]
    pub fn programs(&self) -> Vec<Arc<Program>> {
        self.lock().programs.clone()
    }

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

    pub(crate) fn machines(&self) -> usize {
        self.machines.load(Ordering::Relaxed)
    }
}

impl State {
    /// Records the verdict of the completed attempt on native code.
    fn judge(&mut self) {
        let is_whole = self.counts.restarted.is_none();
        let programs = if is_whole { &mut self.at_work } else { &mut self.to_blame };
        let programs = std::mem::take(programs);
        if is_whole || !self.has_failed {
            self.ran.extend(programs.into_iter().map(|program| (program, is_whole)));
        }
    }
}

/// The jump targets of `program` that were observed and that its native code does not know. Calls into other
/// code are excluded.
fn seen_of(program: &Program, observed: &Observed) -> Seen {
    let is_known = |address| program.library().entry(address).is_some();
    let is_code = |address| program.is_code(address);
    if program.is_loaded_code() {
        observed.seen_of_loaded(is_code, is_known)
    } else {
        observed.seen(is_code, is_known)
    }
}

#[cfg(test)]
mod tests;
