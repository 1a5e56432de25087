//! Converts recordings to profiles.

use antares_profile::{Frame, NodeId, Profile, ProfiledProgram, ProgramId, Value, limits::NODES_MAX};

use crate::recording::{ROOT, Recording, StackLocation, Step};

/// Initial fold threshold as a share of all cycles, in powers of two.
const FOLD_SHARE: u32 = 20;

impl Recording {
    /// Converts the recording to a profile in canonical order: equal runs give equal profiles. Its sum is
    /// [`Recording::cycles`].
    ///
    /// If there are more stacks than a profile can hold, the cheapest contexts are folded into their parents:
    /// code there retains its address, but loses its nearest callers.
    #[must_use]
    pub fn to_profile(&self) -> Profile {
        self.to_profile_within(NODES_MAX)
    }

    /// Like [`Recording::to_profile`], with at most `nodes_max` stacks if folding achieves that.
    #[must_use]
    pub fn to_profile_within(&self, nodes_max: usize) -> Profile {
        // Sorted, so that the result does not depend on hash table order.
        let mut steps: Vec<Step> = self.steps().collect();
        steps.sort_unstable();
        let subtree = self.subtree(&steps);
        let mut least = 0;
        loop {
            let homes = self.homes(&subtree, least);
            if least >= subtree[0] || self.nodes(&homes, &steps) <= nodes_max {
                return self.build(&homes, &steps).canonical();
            }
            least = (least * 2).max(subtree[0] >> FOLD_SHARE).max(1);
        }
    }

    /// The claim of the last sample on other runs: a profile of one stack, or an empty one.
    #[must_use]
    pub fn claims(&self) -> Profile {
        let mut profile = Profile::default();
        let Some((mut at, cycles)) = self.claimed() else { return profile };
        let mut stack = Vec::new();
        while at != ROOT {
            let context = &self.contexts()[at as usize];
            stack.push(context.place);
            at = context.parent;
        }
        let programs = self.add_programs(&mut profile);
        let frames = stack.into_iter().rev().map(|place| frame_of(place, &programs));
        // A claim whose program exceeds the limit is dropped.
        if let Some(frames) = frames.collect::<Option<Vec<Frame>>>().filter(|frames| !frames.is_empty()) {
            profile.add(&frames, Value::cycles(cycles));
        }
        profile
    }

    /// Cycles of each context including all contexts above it.
    fn subtree(&self, steps: &[Step]) -> Vec<u64> {
        let mut subtree: Vec<u64> = self.contexts().iter().map(|context| context.cycles).collect();
        for step in steps {
            let own = &mut subtree[step.context as usize];
            *own = own.saturating_add(step.cost.saturating_mul(step.count));
        }
        for (index, context) in self.contexts().iter().enumerate().skip(1).rev() {
            let below = context.parent as usize;
            subtree[below] = subtree[below].saturating_add(subtree[index]);
        }
        subtree
    }

    /// For each context, the context that it is folded into. It is the context itself, unless it is a call
    /// that cost less than `least`, and no context above it is retained.
    fn homes(&self, subtree: &[u64], least: u64) -> Vec<u32> {
        let contexts = self.contexts();
        let mut is_kept: Vec<bool> = contexts
            .iter()
            .zip(subtree)
            .map(|(context, cycles)| *cycles >= least || !matches!(context.place, StackLocation::Code { .. }))
            .collect();
        for (index, context) in contexts.iter().enumerate().rev() {
            is_kept[context.parent as usize] |= is_kept[index];
        }
        let mut homes: Vec<u32> = Vec::with_capacity(contexts.len());
        for ((context, is_kept), index) in contexts.iter().zip(is_kept).zip(0..) {
            // A context follows its parent.
            homes.push(if is_kept { index } else { homes[context.parent as usize] });
        }
        homes
    }

    /// Maximum number of nodes of the profile.
    fn nodes(&self, homes: &[u32], steps: &[Step]) -> usize {
        let kept = homes.iter().zip(0..).filter(|(home, index)| **home == *index).count();
        let mut leaves: Vec<(u32, u32, u64)> =
            steps.iter().map(|step| (homes[step.context as usize], step.program, step.pc)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        kept + leaves.len()
    }

    /// Adds the programs to `profile`; returns their ids by recording number.
    fn add_programs(&self, profile: &mut Profile) -> Vec<Option<ProgramId>> {
        let programs = self.programs().iter().map(|recorded| {
            let elf = recorded.digest();
            profile.program(&ProfiledProgram { elf, vm_version: recorded.vm_version, isa: recorded.isa })
        });
        programs.collect()
    }

    fn build(&self, homes: &[u32], steps: &[Step]) -> Profile {
        let mut profile = Profile::default();
        let programs = self.add_programs(&mut profile);
        // The node of each context: `None` for the root, an error for what does not fit.
        let mut nodes: Vec<Result<Option<NodeId>, ()>> = Vec::with_capacity(self.contexts().len());
        for ((context, home), index) in self.contexts().iter().zip(homes).zip(0..) {
            let frame = frame_of(context.place, &programs);
            let node = match (nodes.get(context.parent as usize).copied(), frame) {
                _ if context.place == StackLocation::Root => Ok(None),
                _ if *home != index => nodes[*home as usize],
                (Some(Ok(below)), Some(frame)) => profile.child(below, frame).map(Some).ok_or(()),
                _ => Err(()),
            };
            spend(&mut profile, node, Value::cycles(context.cycles));
            nodes.push(node);
        }
        for step in steps {
            let value = Value { cycles: step.cost, instructions: 1 }.times(step.count);
            let place = StackLocation::Code { program: step.program, pc: step.pc };
            let below = nodes[step.context as usize].ok().zip(frame_of(place, &programs));
            let node = below.and_then(|(below, frame)| profile.child(below, frame));
            spend(&mut profile, node.map(Some).ok_or(()), value);
        }
        let (cycles, instructions) = self.unknown();
        profile.add_other(Value { cycles, instructions });
        profile
    }
}

/// The frame of a location; `None` for the root, and for a program beyond the limit.
fn frame_of(place: StackLocation, programs: &[Option<ProgramId>]) -> Option<Frame> {
    match place {
        StackLocation::Root => None,
        StackLocation::Code { program, pc } => {
            let program = programs.get(program as usize).copied().flatten()?;
            Some(Frame::Code { program, pc })
        }
        StackLocation::Syscall(number) => Some(Frame::Syscall { number }),
        StackLocation::Exec(index) => Some(Frame::Exec { index }),
        StackLocation::Spawn(index) => Some(Frame::Spawn { index }),
        StackLocation::Load => Some(Frame::Load),
    }
}

fn spend(profile: &mut Profile, node: Result<Option<NodeId>, ()>, value: Value) {
    match node {
        Ok(Some(id)) => profile.spend(id, value),
        _ => profile.add_other(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recorded;

    #[test]
    fn cheap_contexts_are_folded_and_nothing_is_lost() {
        let mut recording = Recording::default();
        let program = recording.program(Recorded::new(None, 2, 3));
        let (outer, _) = recording.context(ROOT, StackLocation::Code { program, pc: 4 });
        let (inner, _) = recording.context(outer, StackLocation::Code { program, pc: 8 });
        let (spawned, _) = recording.context(inner, StackLocation::Spawn(1));
        let (cheap, _) = recording.context(outer, StackLocation::Code { program, pc: 12 });
        for (context, cycles) in [(outer, 50), (inner, 1), (spawned, 1), (cheap, 3)] {
            recording.spend(context, cycles);
        }
        let steps = Vec::new();
        let subtree = recording.subtree(&steps);
        assert_eq!(subtree, [55, 55, 2, 1, 3]);
        // Ancestors of a spawn stay, whatever their cost.
        assert_eq!(recording.homes(&subtree, 10), [0, 1, 2, 3, 1]);
        let profile = recording.build(&recording.homes(&subtree, 10), &steps);
        assert_eq!((profile.sum().cycles, profile.nodes().len()), (55, 3));
        assert_eq!(profile.nodes()[0].value.cycles, 53);
        assert_eq!(recording.to_profile().sum().cycles, 55);
    }
}
