//! Replays all VMs from the tape, forwards from one moment to another.

use std::collections::BTreeMap;

use ckb_script::types::VmId;
use ckb_vm::Error;

use super::{
    error::DebugError,
    lane::{Lane, Went},
    printed::Calls,
    record::Recorder,
    stops::{Stop, Stops, WatchRange},
    tape::{Begin, End, Moment, Slice},
};

/// A stop during a run.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) met: Stop,
    /// The moment before the instruction that caused it.
    pub(crate) before: Moment,
}

/// How far a run went.
#[derive(Clone, Debug)]
pub(crate) enum Reached {
    /// To its bound.
    Bound,
    /// To a stop.
    Hit(Hit),
    /// To the end of the whole run.
    End,
}

/// How a run treats stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mind {
    /// Ignores all.
    Nothing,
    /// Stops, but not at the start.
    NotHere,
    /// Stops, even at the start.
    All,
}

/// All VMs at one moment.
pub(crate) struct Replay {
    pub(crate) recorder: Recorder,
    pub(crate) lanes: BTreeMap<VmId, Lane>,
    pub(crate) slice: usize,
    pub(crate) calls: Calls,
}

impl Replay {
    /// Starts at the first instruction.
    pub(crate) fn new(recorder: Recorder, calls: Calls) -> Result<Self, DebugError> {
        let mut replay = Self { recorder, lanes: BTreeMap::new(), slice: 0, calls };
        replay.enter(0, &Stops::default())?;
        Ok(replay)
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { slice: self.slice, cycles: self.lane().map_or(0, Lane::cycles) }
    }

    /// The VM that runs.
    pub(crate) fn vm(&self) -> VmId {
        self.recorder.tape.lock().slices.get(self.slice).map_or(0, |slice| slice.vm)
    }

    fn lane(&self) -> Option<&Lane> {
        self.lanes.get(&self.vm())
    }

    /// Cycles of all VMs.
    pub(crate) fn cycles(&self) -> u64 {
        let tape = self.recorder.tape.lock();
        let (vm, base) = tape.slices.get(self.slice).map_or((0, 0), |slice| (slice.vm, slice.base));
        base.saturating_add(self.lanes.get(&vm).map_or(0, Lane::cycles))
    }

    /// The VM with this number, created if necessary.
    pub(crate) fn lane_of(&mut self, vm: VmId) -> &mut Lane {
        let (group, calls) = (self.recorder.group(), &self.calls);
        self.lanes.entry(vm).or_insert_with(|| Lane::new(vm, group, calls))
    }

    /// Sets the previous cycles of all VMs in the VM that runs.
    pub(crate) fn renew_base(&mut self) {
        if let Some(slice) = self.recorder.tape.slice(self.slice)
            && let Some(lane) = self.lanes.get(&slice.vm)
        {
            lane.set_base(slice.base);
        }
    }

    /// The VM that runs, if there is one.
    pub(crate) fn lane_mut(&mut self) -> Option<&mut Lane> {
        let vm = self.vm();
        self.lanes.get_mut(&vm)
    }

    /// The last slice of `vm` before now: its number, its first cycles, and the cycles at its end or now.
    pub(crate) fn last_slice_of(&self, vm: VmId) -> Option<(usize, u64, u64)> {
        let now = self.now();
        let tape = self.recorder.tape.lock();
        let of_vm = tape.slices.iter().enumerate().take(now.slice + 1).rev();
        let mut of_vm = of_vm.filter(|(_, slice)| slice.vm == vm).map(|(index, slice)| {
            let end = if index == now.slice { now.cycles } else { slice.cycles.1 };
            (index, slice.cycles.0, end)
        });
        of_vm.find(|(_, first, end)| end > first)
    }

    /// The slice with this number, recorded if necessary; `None` after the end of the run.
    fn slice_at(&mut self, index: usize) -> Result<Option<Slice>, DebugError> {
        loop {
            if let Some(slice) = self.recorder.tape.slice(index) {
                return Ok(Some(slice));
            }
            if self.recorder.ended.is_some() {
                return Ok(None);
            }
            self.recorder.go_on()?;
        }
    }

    /// Enters the slice with this number, if it exists; returns a stop caused by that.
    fn enter(&mut self, index: usize, stops: &Stops) -> Result<Option<Option<Stop>>, DebugError> {
        let Some(slice) = self.slice_at(index)? else { return Ok(None) };
        let lane = match &slice.begin {
            Begin::Program(image, program) => {
                let lane = Lane::new(slice.vm, self.recorder.group(), &self.calls);
                let lane = self.lanes.entry(slice.vm).insert_entry(lane).into_mut();
                lane.put(image);
                lane.program = *program;
                Some(lane)
            }
            Begin::Answered(..) | Begin::Same => self.lanes.get_mut(&slice.vm),
        };
        let lane = lane.ok_or_else(|| lost(Error::Unexpected("no such VM".to_owned())))?;
        let changes = match &slice.begin {
            Begin::Answered(changes, a0) => Some((changes.as_slice(), *a0)),
            _ => None,
        };
        lane.begin(&slice, changes).map_err(lost)?;
        self.slice = index;
        let meets = |watch: &&WatchRange| {
            let (changes, _) = changes.unwrap_or_default();
            changes.iter().any(|(address, bytes)| watch.meets(*address, bytes.len() as u64))
        };
        let program = lane.program;
        let program = (!stops.is_back && !stops.knows(program)).then_some(Stop::Program(program));
        Ok(Some(program.or_else(|| stops.written().find(meets).copied().map(Stop::Watch))))
    }

    /// Runs to `bound`, the end, or a stop.
    pub(crate) fn run(&mut self, bound: Moment, stops: &Stops, mind: Mind) -> Result<Reached, DebugError> {
        let (is_minded, mut first) = (mind != Mind::Nothing, mind == Mind::NotHere);
        loop {
            if self.now() >= bound {
                return Ok(Reached::Bound);
            }
            let Some(slice) = self.slice_at(self.slice)? else { return Ok(Reached::End) };
            let mut to = if bound.slice == self.slice { bound.cycles } else { u64::MAX };
            to = to.min(slice.cycles.1);
            let by_cycles =
                stops.cycles.filter(|_| is_minded).map(|cycles| cycles.saturating_sub(slice.base));
            let Some(lane) = self.lanes.get_mut(&slice.vm) else { return Ok(Reached::End) };
            if by_cycles.is_some_and(|cycles| lane.cycles() >= cycles && !first) {
                return Ok(Reached::Hit(self.hit(Stop::Cycles)));
            }
            let went = lane.run(
                by_cycles.unwrap_or(to).max(lane.cycles() + 1).min(to),
                &slice,
                stops,
                (is_minded, &mut first),
            );
            match went {
                Went::Reached => {}
                Went::Met(met) => return Ok(Reached::Hit(self.hit(met))),
                Went::Failed => return self.fail(&slice),
                Went::Lost(error) => return Err(lost(error)),
            }
            if self.now().cycles < slice.cycles.1 {
                continue;
            }
            match self.leave(&slice, stops)? {
                None => return Ok(Reached::End),
                Some(Some(met)) if is_minded => return Ok(Reached::Hit(met)),
                Some(_) => {}
            }
        }
    }

    /// A stop of the VM that runs.
    fn hit(&self, met: Stop) -> Hit {
        let now = self.now();
        let before = match met {
            Stop::Watch(_) => Moment { cycles: self.lane().map_or(0, |lane| lane.before), ..now },
            _ => now,
        };
        Hit { met, before }
    }

    /// Checks that the failure of the VM that runs matches the recording.
    fn fail(&self, slice: &Slice) -> Result<Reached, DebugError> {
        match slice.end {
            End::Error(_) => Ok(Reached::End),
            _ => Err(DebugError::Diverged(format!("VM {} fails at {:?}", slice.vm, self.now()))),
        }
    }

    /// Continues from a slice's end with the next slice, if there is one.
    fn leave(&mut self, slice: &Slice, stops: &Stops) -> Result<Option<Option<Hit>>, DebugError> {
        let now = self.now();
        let Some(lane) = self.lanes.get_mut(&slice.vm) else { return Ok(None) };
        let before = Moment { cycles: lane.before, ..now };
        let is_error = matches!(slice.end, End::Error(_));
        if !is_error && (now.cycles != slice.cycles.1 || lane.registers() != slice.place) {
            return Err(DebugError::Diverged(format!("VM {} at {now:?}, not {:?}", slice.vm, slice.cycles)));
        }
        let left = lane.program;
        let Some(mut met) = self.enter(self.slice + 1, stops)? else { return Ok(None) };
        let is_known = self.lane().is_some_and(|lane| stops.knows(lane.program));
        if stops.is_back && is_known && !stops.knows(left) {
            met = met.or(Some(Stop::Program(left)));
        }
        if matches!(slice.end, End::Exit(_)) {
            self.lanes.remove(&slice.vm);
        }
        Ok(Some(met.map(|met| Hit { met, before })))
    }
}

fn lost(error: Error) -> DebugError {
    DebugError::Diverged(error.to_string())
}
