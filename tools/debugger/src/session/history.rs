//! Images of all VMs: along the run, some million cycles apart, and near locations visited backwards.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
};

use ckb_script::types::VmId;

use super::{
    image::Image,
    limits::{IMAGE_BYTES_MAX, IMAGE_CYCLES, IMAGES_MAX, NEAR_IMAGES_MAX},
    replay::Replay,
    tape::Moment,
    undo::Undos,
};

/// All VMs at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) at: Moment,
    /// Cycles of all VMs.
    cycles: u64,
    lanes: BTreeMap<VmId, (Arc<Image>, usize, u64)>,
}

impl Snapshot {
    fn of(replay: &mut Replay) -> Self {
        let (at, cycles) = (replay.now(), replay.cycles());
        let lanes = replay.lanes.iter_mut();
        let lanes = lanes.map(|(vm, lane)| (*vm, (lane.image(), lane.program, lane.before))).collect();
        Self { at, cycles, lanes }
    }

    /// Sets `replay` to this moment.
    pub(crate) fn put(&self, replay: &mut Replay) {
        replay.slice = self.at.slice;
        replay.lanes.retain(|vm, _| self.lanes.contains_key(vm));
        for (vm, (image, program, before)) in &self.lanes {
            let lane = replay.lane_of(*vm);
            lane.put(image);
            (lane.program, lane.before) = (*program, *before);
        }
        replay.renew_base();
    }

    fn own_bytes(&self) -> usize {
        self.lanes.values().map(|(image, ..)| image.own_bytes).sum()
    }
}

/// The stored images.
pub(crate) struct History {
    way: Vec<Snapshot>,
    near: VecDeque<Snapshot>,
    /// Instructions that can be undone without an image.
    pub(crate) undos: Undos,
    apart: u64,
    bytes: usize,
}

impl History {
    /// Starts with the current moment of `replay`.
    pub(crate) fn new(replay: &mut Replay) -> Self {
        let first = Snapshot::of(replay);
        let bytes = first.own_bytes();
        Self { way: vec![first], near: VecDeque::new(), undos: Undos::default(), apart: IMAGE_CYCLES, bytes }
    }

    /// Stores the current moment of `replay`, if it is far enough after all others.
    pub(crate) fn keep(&mut self, replay: &mut Replay) {
        let last = self.way.last().map_or((Moment::default(), 0), |last| (last.at, last.cycles));
        if replay.now() <= last.0 || replay.cycles() < last.1.saturating_add(self.apart) {
            return;
        }
        let kept = Snapshot::of(replay);
        self.bytes += kept.own_bytes();
        self.way.push(kept);
        if self.way.len() > IMAGES_MAX || self.bytes > IMAGE_BYTES_MAX {
            // The first image remains. Pages shared with a removed image are not counted any more.
            self.way = mem::take(&mut self.way).into_iter().step_by(2).collect();
            self.apart *= 2;
            self.bytes = self.way.iter().map(Snapshot::own_bytes).sum();
        }
    }

    /// Stores the current moment of `replay` temporarily.
    pub(crate) fn keep_near(&mut self, replay: &mut Replay) {
        let now = replay.now();
        if self.way.iter().chain(&self.near).any(|kept| kept.at == now) {
            return;
        }
        if self.near.len() >= NEAR_IMAGES_MAX {
            self.near.pop_front();
        }
        self.near.push_back(Snapshot::of(replay));
    }

    /// The last image at or before `moment`.
    pub(crate) fn until(&self, moment: Moment) -> Option<Snapshot> {
        self.last(|kept| kept.at <= moment)
    }

    /// The last image before `moment`.
    pub(crate) fn before(&self, moment: Moment) -> Option<Snapshot> {
        self.last(|kept| kept.at < moment)
    }

    fn last(&self, is_it: impl Fn(&Snapshot) -> bool) -> Option<Snapshot> {
        let found = self.way.iter().chain(&self.near).filter(|kept| is_it(kept));
        found.max_by_key(|kept| kept.at).cloned()
    }
}
