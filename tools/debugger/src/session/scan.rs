//! Runs backwards: replays forwards from an earlier image.

use ckb_script::types::VmId;

use super::{
    error::DebugError,
    history::History,
    lane::Met,
    limits::NEAR_CYCLES,
    replay::{Hit, Mind, Reached, Replay},
    stops::Stops,
    tape::Moment,
};

/// Distances in cycles at which to search for an instruction's start before its end, in order.
const BACK: [u64; 4] = [1_024, 65_536, 4_194_304, u64::MAX];

/// Sets `replay` to `moment`, or to the first valid moment after it.
pub(crate) fn go(
    replay: &mut Replay,
    history: &mut History,
    stops: &Stops,
    moment: Moment,
) -> Result<(), DebugError> {
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

/// Moves `replay` back to the last moment before now at which `stops` stop, or to the beginning if there is
/// none.
pub(crate) fn back(
    replay: &mut Replay,
    history: &mut History,
    stops: &Stops,
    is_interrupted: &mut dyn FnMut() -> bool,
) -> Result<Option<Hit>, DebugError> {
    let (begin, stops) = (replay.now(), stops.backwards());
    let mut end = begin;
    while let Some(kept) = history.before(end) {
        kept.put(replay);
        let mut last = None;
        let mut mind = Mind::All;
        while let Reached::Hit(hit) = replay.run(end, &stops, mind)? {
            let is_here = hit.before == replay.now();
            // Another stop may have the same moment as the suspension of a program.
            let is_known = matches!(hit.met, Met::Program(_))
                && last.as_ref().is_some_and(|last: &Hit| last.before == hit.before);
            if hit.before < end && !is_known {
                last = Some(hit);
            }
            mind = if is_here { Mind::NotHere } else { Mind::All };
        }
        if let Some(hit) = last {
            go(replay, history, &stops, hit.before)?;
            return Ok(Some(hit));
        }
        if is_interrupted() {
            go(replay, history, &stops, begin)?;
            return Ok(None);
        }
        end = kept.at;
    }
    go(replay, history, &stops, end)?;
    Ok(None)
}

/// Moves `replay` back before the last instruction of `vm`. Returns whether there was one.
pub(crate) fn step_back(
    replay: &mut Replay,
    history: &mut History,
    stops: &Stops,
    vm: VmId,
) -> Result<bool, DebugError> {
    if replay.vm() == vm && undo(replay, history) {
        return Ok(true);
    }
    let Some((slice, first, end)) = replay.last_slice_of(vm) else { return Ok(false) };
    let end = Moment { slice, cycles: end };
    for back in BACK {
        let cycles = end.cycles.saturating_sub(back).max(first);
        go(replay, history, stops, Moment { slice, cycles })?;
        let mut last = None;
        while replay.now() < end && replay.now().slice == slice {
            let now = replay.now();
            last = Some(now);
            let undo = replay.next_undo();
            let next = Moment { cycles: now.cycles + 1, ..now };
            let is_done = matches!(replay.run(next, stops, Mind::Nothing)?, Reached::Bound);
            let is_here = is_done && replay.now().slice == slice;
            history.undos.record(undo.filter(|_| is_here), now, replay.now());
            if !is_done {
                break;
            }
        }
        if let Some(last) = last {
            if replay.now() != end || !undo(replay, history) {
                go(replay, history, stops, last)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Undoes the last instruction, if it was recorded.
fn undo(replay: &mut Replay, history: &mut History) -> bool {
    let found = history.undos.take(replay.now());
    found.inspect(|undo| replay.undo(undo)).is_some()
}
