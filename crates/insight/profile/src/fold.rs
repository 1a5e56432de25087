//! Folds profiles that exceed a node limit: executed code keeps its share of cycles, and cheap callers are
//! removed.

use std::collections::{BTreeMap, HashMap};

use crate::{Frame, NodeId, Profile};

/// Initial threshold below which callers are folded, as a power-of-two fraction of all cycles.
const FOLD_SHARE: u32 = 16;

impl Profile {
    /// Folds the cheapest nodes until at most `nodes_max` remain, if possible. Returns for each old node the
    /// new node that has its own cost; `None` for nodes without own cost, unless they are in `held`.
    ///
    /// Callers are folded into the nodes below them: executed code keeps its address and cycles, and loses
    /// its nearest callers. If the addresses alone exceed a quarter of the nodes, neighbouring addresses are
    /// first merged into the costliest of them. Each merge moves at most four in `nodes_max` of all cycles
    /// across either edge of a function.
    pub fn fold(&mut self, nodes_max: usize, held: &[NodeId]) -> Vec<Option<NodeId>> {
        let subtree: Vec<u64> = self.subtree().iter().map(|value| value.cycles).collect();
        let total = self.sum().cycles;
        let mut is_leaf: Vec<bool> = self.nodes.iter().map(|node| !node.value.is_zero()).collect();
        for id in held {
            if let Some(is_leaf) = is_leaf.get_mut(id.0 as usize) {
                *is_leaf = true;
            }
        }
        let frames = self.neighbours(nodes_max / 4, total, &is_leaf);
        let mut least = (total >> FOLD_SHARE).max(1);
        loop {
            let is_last = least > total;
            let retained = self.retained(&subtree, least);
            let (folded, places) = self.folded(&retained, &frames, &is_leaf);
            if is_last || folded.nodes.len() <= nodes_max {
                *self = folded;
                return places;
            }
            least = least.saturating_mul(2);
        }
    }

    /// Maps each address with a cost to the address that replaces it, so that about `addresses_max` remain.
    /// Empty if there are no more than that.
    fn neighbours(&self, addresses_max: usize, total: u64, is_leaf: &[bool]) -> HashMap<Frame, Frame> {
        let mut addresses: BTreeMap<Frame, u64> = BTreeMap::new();
        for (node, _) in self.nodes.iter().zip(is_leaf).filter(|(_, is_leaf)| **is_leaf) {
            if node.frame.code().is_some() {
                let cycles = addresses.entry(node.frame).or_default();
                *cycles = cycles.saturating_add(node.value.cycles);
            }
        }
        if addresses.len() <= addresses_max {
            return HashMap::new();
        }
        let enough = total / (addresses_max as u64).max(1);
        let mut all = HashMap::with_capacity(addresses.len());
        let mut group: Vec<(Frame, u64)> = Vec::new();
        let mut sum = 0_u64;
        for (frame, cycles) in addresses {
            let program = |frame: Frame| frame.code().map(|(program, _)| program);
            if sum > enough || group.last().is_some_and(|(last, _)| program(*last) != program(frame)) {
                close(&mut group, &mut all);
                sum = 0;
            }
            group.push((frame, cycles));
            sum = sum.saturating_add(cycles);
        }
        close(&mut group, &mut all);
        all
    }

    /// Whether each node remains as a caller: it is not code, costs at least `least`, or has such a
    /// descendant.
    fn retained(&self, subtree: &[u64], least: u64) -> Vec<bool> {
        let both = self.nodes.iter().zip(subtree);
        let mut retained: Vec<bool> =
            both.map(|(node, cycles)| *cycles >= least || node.frame.code().is_none()).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                retained[parent.0 as usize] |= retained[index];
            }
        }
        retained
    }

    fn folded(
        &self,
        retained: &[bool],
        frames: &HashMap<Frame, Frame>,
        is_leaf: &[bool],
    ) -> (Self, Vec<Option<NodeId>>) {
        let mut folded = Self { programs: self.programs.clone(), ..Self::default() };
        let is_caller = self.callers();
        // For each node, the new parent of its callees.
        let mut homes: Vec<Option<NodeId>> = Vec::with_capacity(self.nodes.len());
        let mut places = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let below = node.parent.and_then(|parent| homes[parent.0 as usize]);
            let stays = retained[index] && is_caller[index];
            homes.push(if stays { folded.child(below, node.frame) } else { below });
            let place = is_leaf[index].then(|| {
                let frame = frames.get(&node.frame).copied().unwrap_or(node.frame);
                folded.child(below, frame)
            });
            let place = place.flatten();
            if let Some(id) = place {
                folded.spend(id, node.value);
            }
            places.push(place);
        }
        folded.nodes_max = self.nodes_max;
        (folded, places)
    }

    /// Whether each node has children.
    fn callers(&self) -> Vec<bool> {
        let mut is_caller = vec![false; self.nodes.len()];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            is_caller[parent.0 as usize] = true;
        }
        is_caller
    }
}

/// Maps all frames of `group` to the costliest one.
fn close(group: &mut Vec<(Frame, u64)>, all: &mut HashMap<Frame, Frame>) {
    if let Some((costliest, _)) = group.iter().max_by_key(|(_, cycles)| *cycles).copied() {
        all.extend(group.drain(..).map(|(frame, _)| (frame, costliest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfiledProgram, ProgramId, Value};

    /// Cycles by function; each function has 64 addresses.
    fn by_function(profile: &Profile) -> BTreeMap<u64, u64> {
        let mut functions = BTreeMap::new();
        for node in profile.nodes() {
            let Frame::Code { pc, .. } = node.frame else { continue };
            *functions.entry(pc / 64).or_default() += node.value.cycles;
        }
        functions.retain(|_, cycles| *cycles > 0);
        functions
    }

    fn with_program() -> (Profile, ProgramId) {
        let mut profile = Profile::default();
        let program = profile.program(&ProfiledProgram { elf: None, vm_version: 2, isa: 3 }).unwrap();
        (profile, program)
    }

    #[test]
    fn what_runs_keeps_its_cycles_and_costly_callers_stay() {
        let (mut profile, program) = with_program();
        let code = |pc| Frame::Code { program, pc };
        for caller in 0..1000 {
            // One caller has half of the cycles.
            let cycles = if caller == 7 { 100_000 } else { 100 };
            let stack = [code(1 << 20), code((1 << 16) + caller), code(64 * (caller % 5))];
            profile.add(&stack, Value::cycles(cycles));
        }
        let functions = by_function(&profile);
        let whole = profile.clone();
        let places = profile.fold(20, &[]);
        assert!(profile.nodes().len() <= 20, "{}", profile.nodes().len());
        assert_eq!(by_function(&profile), functions);
        let stack = [code(1 << 20), code((1 << 16) + 7), code(128)];
        let retained = (0..).map(NodeId).take(profile.nodes().len()).find(|id| profile.stack(*id) == stack);
        assert_eq!(profile.node(retained.unwrap()).unwrap().value.cycles, 100_000);
        for (node, place) in whole.nodes().iter().zip(places) {
            assert_eq!(place.is_some(), !node.value.is_zero());
            assert!(place.is_none_or(|id| profile.node(id).unwrap().frame == node.frame));
        }
    }

    #[test]
    fn too_many_addresses_count_as_their_costliest_neighbours() {
        let (mut profile, program) = with_program();
        let mut cycles = 1;
        for _ in 0..8 {
            for pc in 0..6400 {
                cycles = (cycles * 25) % 101;
                let stack = [1 << 20, pc].map(|pc| Frame::Code { program, pc });
                profile.add(&stack, Value::cycles(cycles));
            }
            profile.fold(1000, &[]);
        }
        assert!(profile.nodes().len() <= 1000, "{}", profile.nodes().len());
        let total = profile.sum().cycles as f64;
        assert_eq!(profile.sum().cycles, {
            let mut cycles = 1;
            (0..8 * 6400).fold(0, |sum, _| {
                cycles = (cycles * 25) % 101;
                sum + cycles
            })
        });
        for (function, cycles) in by_function(&profile) {
            let share = cycles as f64 / total;
            assert!((share - 0.01).abs() < 0.008, "{function}: {share}");
        }
    }

    #[test]
    fn held_nodes_and_those_that_are_no_code_stay() {
        let (mut profile, program) = with_program();
        let group = profile.child(None, Frame::Group { is_type: false, index: 0 });
        let spawn = |index| Frame::Spawn { index };
        for index in 0..10 {
            let call = profile.child(group, Frame::Code { program, pc: 4 }).unwrap();
            let spawned = profile.child(Some(call), spawn(index)).unwrap();
            let leaf = profile.child(Some(spawned), Frame::Code { program, pc: 8 }).unwrap();
            profile.spend(leaf, Value::cycles(1));
        }
        let held = profile.child(group, Frame::Code { program, pc: 12 }).unwrap();
        let places = profile.fold(5, &[held]);
        assert!(places[held.0 as usize].is_some());
        for index in 0..10 {
            assert!(profile.nodes().iter().any(|node| node.frame == spawn(index)));
        }
        assert_eq!(profile.sum().cycles, 10);
    }
}
