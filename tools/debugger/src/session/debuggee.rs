//! A debugged script group.

use std::{
    ops::Range,
    sync::mpsc::{Receiver, sync_channel},
};

use antares_transaction::{Environment, Mock};
use antares_verifier::{CellName, GroupKind, Prepared};
use bytes::Bytes;
use ckb_vm::Error;
use gdbstub::common::Signal;

use super::{
    error::DebugError,
    history::History,
    image::Registers,
    limits::{HEARD_CYCLES, LINES_MAX},
    loaded::LoadedFile,
    printed::{Calls, Line},
    record::Recorder,
    replay::{Hit, Mind, Reached, Replay},
    scan::Timeline,
    stops::{Stop, Stops},
    tape::Moment,
};

/// The script group to debug.
#[derive(Clone)]
pub struct Target {
    /// The transaction.
    pub mock: Mock,
    /// Its environment.
    pub environment: Environment,
    /// Lock or type.
    pub kind: GroupKind,
    /// A cell of the group.
    pub cell: CellName,
    /// Arguments of the first VM; on the chain, it has none.
    pub args: Vec<Bytes>,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Whether printing is its only system call, as for a script without a transaction.
    pub only_prints: bool,
    /// Whether to stop before a nonzero exit.
    pub breaks_on_error: bool,
}

/// How to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Executes the next instruction of this VM.
    Step(u64),
    /// Executes this VM until it leaves these addresses.
    StepRange(u64, u64, u64),
    /// Runs forwards.
    Continue,
    /// Goes back before the last instruction of this VM.
    StepBack(u64),
    /// Runs backwards.
    ContinueBack,
}

/// Receives lines of debug output, with the VM that wrote each.
pub type LineSink = Box<dyn FnMut(u64, &str)>;

/// A debugged script group.
pub struct Debuggee {
    time: Timeline,
    /// Conditions for stopping.
    pub stops: Stops,
    breaks_on_error: bool,
    printed: Receiver<Line>,
    sink: LineSink,
    /// Up to where debug output was told.
    reported: Moment,
    /// The end that was told.
    ended_at: Option<Moment>,
}

impl Debuggee {
    /// Starts at the first instruction of the script. Passes each of its debug output lines to `sink` once.
    ///
    /// # Errors
    /// There is no such group, or its script cannot start.
    pub fn new(target: Target, sink: LineSink) -> Result<Self, DebugError> {
        let prepared = Prepared::new(&target.mock, &target.environment)?;
        let (to, printed) = sync_channel(LINES_MAX);
        let only_prints = target.only_prints;
        let silent = Calls { only_prints, ..Calls::default() };
        let loud = Calls { printed: Some(to), ..silent.clone() };
        let group = (target.kind, target.cell);
        let recorder = Recorder::new(prepared, group, target.args, target.cycles_max, silent)?;
        let mut replay = Replay::new(recorder, loud)?;
        let (history, reported) = (History::new(&mut replay), replay.now());
        let time = Timeline { replay, history };
        let stops = Stops::default();
        let breaks_on_error = target.breaks_on_error;
        Ok(Self { time, stops, breaks_on_error, printed, sink, reported, ended_at: None })
    }

    /// Resumes according to `how`. Polls `is_interrupted` periodically.
    ///
    /// # Errors
    /// The run cannot be recorded further, or replay diverged because of a bug.
    pub fn resume(
        &mut self,
        how: Resume,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Stop, DebugError> {
        let stop = self.go(how, is_interrupted)?;
        if !matches!(stop, Stop::Program(_)) {
            self.stops.changes = 0;
        }
        Ok(stop)
    }

    fn go(&mut self, how: Resume, is_interrupted: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        match how {
            Resume::Continue => self.go_on(is_interrupted),
            // Stepping one VM ignores the programs of others.
            Resume::Step(vm) => self.alone(|own| own.step(vm, is_interrupted)),
            Resume::StepRange(vm, start, end) => {
                self.alone(|own| own.step_range(vm, start..end, is_interrupted))
            }
            Resume::ContinueBack => {
                let begin = self.time.replay.now();
                let hit = self.time.back(&self.stops, is_interrupted);
                let stop = match hit? {
                    Some(hit) => self.met(hit),
                    None if self.time.replay.now() == begin && is_interrupted() => Stop::Interrupted,
                    None => Stop::Beginning,
                };
                self.went_back();
                Ok(stop)
            }
            Resume::StepBack(vm) => {
                let is_there = self.time.step_back(&self.stops, vm)?;
                self.went_back();
                Ok(if is_there { Stop::Stepped } else { Stop::Beginning })
            }
        }
    }

    /// Goes to the first instruction of this VM; returns whether it ever has one.
    ///
    /// # Errors
    /// Those of [`Debuggee::resume`].
    pub fn begin_at(&mut self, vm: u64) -> Result<bool, DebugError> {
        if vm == self.vm() {
            return Ok(true);
        }
        let is_there = self.resume(Resume::Step(vm), &mut || false)? == Stop::Stepped;
        Ok(is_there && self.resume(Resume::StepBack(vm), &mut || false)? == Stop::Stepped)
    }

    /// The VMs, in the order of their start.
    pub fn vms(&self) -> impl Iterator<Item = u64> {
        self.time.replay.lanes.keys().copied()
    }

    /// The VM that runs.
    #[must_use]
    pub fn vm(&self) -> u64 {
        self.time.replay.vm()
    }

    /// Registers of a VM.
    pub fn registers(&mut self, vm: u64) -> Option<Registers> {
        Some(self.time.replay.lanes.get_mut(&vm)?.registers())
    }

    /// Reads memory of a VM; returns the number of bytes.
    pub fn read(&mut self, vm: u64, address: u64, into: &mut [u8]) -> usize {
        self.time.replay.lanes.get_mut(&vm).map_or(0, |lane| lane.read(address, into))
    }

    /// Cycles of all VMs so far, as returned by the system call for cycles.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.time.replay.cycles()
    }

    /// The next instruction's system call, if it is one.
    pub fn next_call(&mut self, vm: u64) -> Option<u64> {
        self.time.replay.lanes.get_mut(&vm)?.next_call()
    }

    /// Files from which a VM has loaded code: the address of each first segment, and the bytes.
    pub(crate) fn loaded(&self, vm: u64) -> Vec<LoadedFile> {
        let Some(lane) = self.time.replay.lanes.get(&vm) else { return Vec::new() };
        self.time.replay.calls.loaded.until(vm, lane.program, lane.cycles())
    }

    /// The number of the program that a VM runs among all loaded ones.
    #[must_use]
    pub fn program_number(&self, vm: u64) -> Option<usize> {
        self.time.replay.lanes.get(&vm).map(|lane| lane.program)
    }

    /// A program by its number.
    #[must_use]
    pub fn program_at(&self, number: usize) -> Option<Bytes> {
        self.time.replay.recorder.tape.lock().programs.get(number).cloned()
    }

    /// From now on stops when a VM with a program other than that of `vm` resumes. Steps do not.
    pub fn stop_at_programs(&mut self, vm: u64) {
        self.stops.know(self.program_number(vm).unwrap_or(0));
    }

    /// Whether the program of `vm` is the one set by `stop_at_programs`.
    #[must_use]
    pub fn is_known_program(&self, vm: u64) -> bool {
        let number = self.program_number(vm);
        number.is_none() || self.stops.program.is_none_or(|known| Some(known) == number)
    }

    fn went_back(&mut self) {
        self.printed.try_iter().for_each(drop);
        self.ended_at = None;
    }

    /// Runs `steps` without stops at programs.
    fn alone(
        &mut self,
        steps: impl FnOnce(&mut Self) -> Result<Stop, DebugError>,
    ) -> Result<Stop, DebugError> {
        let program = self.stops.program.take();
        let stop = steps(self);
        self.stops.program = program;
        stop
    }

    /// Runs at most to `bound`, and reports no output twice.
    fn run(&mut self, bound: Moment, mind: Mind) -> Result<Reached, DebugError> {
        let from = self.time.replay.now();
        let bound = if from < self.reported { bound.min(self.reported) } else { bound };
        let reached = self.time.replay.run(bound, &self.stops, mind)?;
        for (vm, line) in self.printed.try_iter() {
            if from >= self.reported {
                (self.sink)(vm, &line);
            }
        }
        self.reported = self.reported.max(self.time.replay.now());
        self.time.history.keep(&mut self.time.replay);
        Ok(reached)
    }

    /// Like [`Debuggee::run`]; returns the stop, if there is one before `bound`.
    fn advance(
        &mut self,
        bound: Moment,
        mind: Mind,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Stop>, DebugError> {
        Ok(match self.run(bound, mind)? {
            Reached::Hit(hit) => Some(self.met(hit)),
            Reached::End => Some(self.end()?),
            Reached::Bound => is_interrupted().then_some(Stop::Interrupted),
        })
    }

    fn go_on(&mut self, is_interrupted: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        let mut mind = Mind::NotHere;
        loop {
            let bound = self.time.replay.now().after(HEARD_CYCLES);
            if let Some(stop) = self.advance(bound, mind, is_interrupted)? {
                return Ok(stop);
            }
            mind = Mind::All;
        }
    }

    fn step(&mut self, vm: u64, is_interrupted: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        let mut mind = Mind::NotHere;
        let mut is_done = false;
        while !(is_done && self.time.replay.vm() == vm) {
            let (now, is_next) = (self.time.replay.now(), self.time.replay.vm() == vm);
            is_done |= is_next;
            // Other VMs run until this one is next.
            let stop = match is_next {
                true => self.advance(now.after(1), mind, &mut || false)?,
                false => self.advance(now.after(HEARD_CYCLES), mind, is_interrupted)?,
            };
            if let Some(stop) = stop {
                return Ok(stop);
            }
            mind = if self.time.replay.vm() == vm { Mind::NotHere } else { Mind::All };
        }
        Ok(Stop::Stepped)
    }

    fn step_range(
        &mut self,
        vm: u64,
        range: Range<u64>,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Stop, DebugError> {
        loop {
            let stop = self.step(vm, is_interrupted)?;
            if stop != Stop::Stepped || !self.is_at(vm, &range) {
                return Ok(stop);
            }
            // Run up to the end of the range at once, unless another VM resumes.
            self.stops.stay_within(Some(range.clone()));
            let stop = self.advance(self.time.replay.now().after(HEARD_CYCLES), Mind::All, is_interrupted);
            self.stops.stay_within(None);
            match stop? {
                // Another VM is outside of the range.
                Some(Stop::Stepped) if self.time.replay.vm() != vm => {}
                Some(stop) => return Ok(stop),
                None => {}
            }
            if !self.is_at(vm, &range) {
                return Ok(Stop::Stepped);
            }
        }
    }

    fn is_at(&mut self, vm: u64, range: &Range<u64>) -> bool {
        self.registers(vm).is_some_and(|registers| range.contains(&registers.pc))
    }

    fn met(&mut self, hit: Hit) -> Stop {
        match hit.met {
            Stop::Program(program) => self.stops.know(program),
            Stop::Cycles => self.stops.cycles = None,
            _ => {}
        }
        hit.met
    }

    /// Handles the end of the run.
    fn end(&mut self) -> Result<Stop, DebugError> {
        let now = self.time.replay.now();
        let again = self.ended_at.replace(now) == Some(now);
        let ended = self.time.replay.recorder.ended.clone();
        match ended {
            Some((Ok(code), _)) if code != 0 && self.breaks_on_error && !again => {
                let vm = self.time.replay.vm();
                self.time.step_back(&self.stops, vm)?;
                Ok(Stop::FailingExit(code))
            }
            Some((Ok(code), _)) => Ok(Stop::Exited(code)),
            Some((Err(error), _)) => {
                let fault = signal_of(&error);
                Ok(Stop::Failed { error: error.to_string(), fault, again })
            }
            None => Err(DebugError::Diverged("an end that is none".to_owned())),
        }
    }
}

/// Linux's signal for the error of a VM.
fn signal_of(error: &Error) -> Signal {
    match error {
        Error::CyclesExceeded | Error::CyclesOverflow => Signal::SIGXCPU,
        Error::MemOutOfBound
        | Error::MemOutOfStack
        | Error::MemPageUnalignedAccess
        | Error::MemWriteOnExecutablePage
        | Error::MemWriteOnFreezedPage => Signal::SIGSEGV,
        Error::InvalidInstruction { .. } | Error::InvalidOp(_) => Signal::SIGILL,
        Error::InvalidEcall(_) => Signal::SIGSYS,
        _ => Signal::SIGABRT,
    }
}
