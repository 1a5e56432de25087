//! Runs backwards: replays forwards from an earlier image.

use ckb_script::types::VmId;

use super::{
    error::DebugError,
    history::History,
    lane::Lane,
    limits::NEAR_CYCLES,
    replay::{Hit, Mind, Reached, Replay},
    stops::{Stop, Stops},
    tape::Moment,
};

/// Distances in cycles at which to search for an instruction's start before its end, in order.
const BACK: [u64; 4] = [1_024, 65_536, 4_194_304, u64::MAX];

/// All VMs at one moment, and images of earlier ones.
pub(crate) struct Timeline {
    pub(crate) replay: Replay,
    pub(crate) history: History,
}

impl Timeline {
    /// Goes to `moment`, or to the first valid moment after it.
    fn go(&mut self, stops: &Stops, moment: Moment) -> Result<(), DebugError> {
        let Self { replay, history } = self;
        if replay.now() == moment {
            return Ok(());
        }
        if let Some(kept) = history.until(moment) {
            kept.put(replay);
        }
        for near in NEAR_CYCLES {
            let cycles = moment.cycles.saturating_sub(near);
            if cycles > 0 && replay.now() < (Moment { cycles, ..moment }) {
                replay.run(Moment { cycles, ..moment }, stops, Mind::Nothing)?;
                if replay.now() < moment {
                    history.keep_near(replay);
                }
            }
        }
        replay.run(moment, stops, Mind::Nothing)?;
        Ok(())
    }

    /// Moves back to the last moment before now at which `stops` stop, or to the beginning if there is none.
    pub(crate) fn back(
        &mut self,
        stops: &Stops,
        is_interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Hit>, DebugError> {
        let (begin, stops) = (self.replay.now(), stops.backwards());
        let mut end = begin;
        while let Some(kept) = self.history.before(end) {
            let replay = &mut self.replay;
            kept.put(replay);
            let mut last = None;
            let mut mind = Mind::All;
            while let Reached::Hit(hit) = replay.run(end, &stops, mind)? {
                let is_here = hit.before == replay.now();
                // Another stop may have the same moment as the suspension of a program.
                let is_known = matches!(hit.met, Stop::Program(_))
                    && last.as_ref().is_some_and(|last: &Hit| last.before == hit.before);
                if hit.before < end && !is_known {
                    last = Some(hit);
                }
                mind = if is_here { Mind::NotHere } else { Mind::All };
            }
            if let Some(hit) = last {
                self.go(&stops, hit.before)?;
                return Ok(Some(hit));
            }
            if is_interrupted() {
                self.go(&stops, begin)?;
                return Ok(None);
            }
            end = kept.at;
        }
        self.go(&stops, end)?;
        Ok(None)
    }

    /// Moves back before the last instruction of `vm`. Returns whether there was one.
    pub(crate) fn step_back(&mut self, stops: &Stops, vm: VmId) -> Result<bool, DebugError> {
        if self.replay.vm() == vm && self.undo() {
            return Ok(true);
        }
        let Some((slice, first, end)) = self.replay.last_slice_of(vm) else { return Ok(false) };
        let end = Moment { slice, cycles: end };
        for back in BACK {
            let cycles = end.cycles.saturating_sub(back).max(first);
            self.go(stops, Moment { slice, cycles })?;
            let Self { replay, history } = self;
            let mut last = None;
            while replay.now() < end && replay.now().slice == slice {
                let now = replay.now();
                last = Some(now);
                let undo = replay.lane_mut().and_then(Lane::next_undo);
                let next = Moment { cycles: now.cycles + 1, ..now };
                let is_done = matches!(replay.run(next, stops, Mind::Nothing)?, Reached::Bound);
                let is_here = is_done && replay.now().slice == slice;
                history.undos.record(undo.filter(|_| is_here), now, replay.now());
                if !is_done {
                    break;
                }
            }
            if let Some(last) = last {
                if self.replay.now() != end || !self.undo() {
                    self.go(stops, last)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Undoes the last instruction, if it was recorded.
    fn undo(&mut self) -> bool {
        let found = self.history.undos.take(self.replay.now());
        self.replay.lane_mut().zip(found).map(|(lane, undo)| lane.undo(&undo)).is_some()
    }
}
