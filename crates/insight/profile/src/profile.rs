//! The data model: a tree of stacks, with a cost at each.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    Frame, ProfiledProgram,
    limits::{DEPTH_MAX, NODES_MAX, PROGRAMS_MAX},
};

/// Index of a program in [`Profile::programs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgramId(pub u32);

/// Index of a node in [`Profile::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value {
    /// Cycles by the consensus rules.
    pub cycles: u64,
    /// Instructions that ckb-vm executes: fused ones count once.
    pub instructions: u64,
}

impl Value {
    /// A cost of `cycles` without instructions.
    #[must_use]
    pub fn cycles(cycles: u64) -> Self {
        Self { cycles, instructions: 0 }
    }

    /// Whether the cost is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// The saturating sum with `other`.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cycles: self.cycles.saturating_add(other.cycles),
            instructions: self.instructions.saturating_add(other.instructions),
        }
    }

    /// The saturating product with `factor`.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        Self {
            cycles: self.cycles.saturating_mul(factor),
            instructions: self.instructions.saturating_mul(factor),
        }
    }
}

/// A stack, identified by its last frame, and its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The stack below; `None` for an outermost frame. The parent precedes this node.
    pub parent: Option<NodeId>,
    /// The frame.
    pub frame: Frame,
    /// Cost of this stack, without the frames on top of it.
    pub value: Value,
}

/// A profile: where one or more runs spent their cycles. By default, it may have [`NODES_MAX`] nodes.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) programs: Vec<ProfiledProgram>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) index: HashMap<(Option<NodeId>, Frame), NodeId>,
    pub(crate) nodes_max: Option<usize>,
}

impl Profile {
    /// An empty profile of at most `nodes_max` nodes, plus one for costs beyond the limit.
    #[must_use]
    pub fn with_nodes_max(nodes_max: usize) -> Self {
        Self { nodes_max: Some(nodes_max.min(NODES_MAX)), ..Self::default() }
    }

    /// The programs of all frames.
    #[must_use]
    pub fn programs(&self) -> &[ProfiledProgram] {
        &self.programs
    }

    /// All nodes; each one follows its parent.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// The id of `program`, which is added if it is new; `None` if the limit is reached.
    pub fn program(&mut self, program: &ProfiledProgram) -> Option<ProgramId> {
        let known = self.programs.iter().position(|other| other == program);
        let index = match known {
            Some(index) => index,
            None if self.programs.len() >= PROGRAMS_MAX => return None,
            None => {
                self.programs.push(*program);
                self.programs.len() - 1
            }
        };
        u32::try_from(index).ok().map(ProgramId)
    }

    /// The node of `frame` on top of `parent`, which is added if it is new; `None` if the limit is reached.
    pub fn child(&mut self, parent: Option<NodeId>, frame: Frame) -> Option<NodeId> {
        if let Some(id) = self.index.get(&(parent, frame)) {
            return Some(*id);
        }
        let is_spare = parent.is_none() && frame == Frame::Other;
        if self.nodes.len() >= self.nodes_max.unwrap_or(NODES_MAX) && !is_spare {
            return None;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(Node { parent, frame, value: Value::default() });
        self.index.insert((parent, frame), id);
        Some(id)
    }

    /// Adds to a node's own cost.
    pub fn spend(&mut self, id: NodeId, value: Value) {
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.value = node.value.plus(value);
        }
    }

    /// Adds a cost to `stack`, with the outermost frame first. Beyond the limits, it counts as
    /// [`Frame::Other`], so that sums stay correct.
    pub fn add(&mut self, stack: &[Frame], value: Value) {
        let mut parent = None;
        for frame in stack.iter().take(DEPTH_MAX) {
            match self.child(parent, *frame) {
                Some(id) => parent = Some(id),
                None => return self.add_other(value),
            }
        }
        match parent {
            Some(id) => self.spend(id, value),
            None => self.add_other(value),
        }
    }

    /// Adds a cost without a known stack.
    pub fn add_other(&mut self, value: Value) {
        if value.is_zero() {
            return;
        }
        if let Some(id) = self.child(None, Frame::Other) {
            self.spend(id, value);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.merge_under(None, other);
    }

    /// Adds all of `other` on top of the node `root`.
    pub fn merge_under(&mut self, root: Option<NodeId>, other: &Self) {
        let moved = self.graft(root, other);
        for (node, id) in other.nodes.iter().zip(moved) {
            match id {
                Some(id) => self.spend(id, node.value),
                None => self.add_other(node.value),
            }
        }
    }

    /// Moves up to `cycles` from [`Frame::Other`] to a node.
    pub fn explain(&mut self, id: NodeId, cycles: u64) {
        let Some(other) = self.index.get(&(None, Frame::Other)).copied() else { return };
        if let Some(node) = self.nodes.get_mut(other.0 as usize) {
            let moved = node.value.cycles.min(cycles);
            node.value.cycles -= moved;
            self.spend(id, Value::cycles(moved));
        }
    }

    /// Adds the stacks of `other` on top of `root`, without their costs. Returns the new node of each old
    /// one; `None` beyond the limit.
    pub fn graft(&mut self, root: Option<NodeId>, other: &Self) -> Vec<Option<NodeId>> {
        let programs: Vec<Option<ProgramId>> =
            other.programs.iter().map(|program| self.program(program)).collect();
        let mut moved: Vec<Option<NodeId>> = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let parent = match node.parent {
                None => Some(root),
                Some(id) => moved.get(id.0 as usize).copied().flatten().map(Some),
            };
            let frame = match node.frame {
                Frame::Code { program, pc } => {
                    let program = programs.get(program.0 as usize).copied().flatten();
                    program.map(|program| Frame::Code { program, pc })
                }
                frame => Some(frame),
            };
            let id = parent.zip(frame).and_then(|(parent, frame)| self.child(parent, frame));
            moved.push(id);
        }
        moved
    }

    /// The cost of each address, by program.
    #[must_use]
    pub fn costs(&self) -> Vec<BTreeMap<u64, Value>> {
        let mut costs = vec![BTreeMap::<u64, Value>::new(); self.programs.len()];
        for node in &self.nodes {
            if let Frame::Code { program, pc } = node.frame
                && let Some(costs) = costs.get_mut(program.0 as usize)
            {
                let cost = costs.entry(pc).or_default();
                *cost = cost.plus(node.value);
            }
        }
        costs
    }

    /// The sum over all nodes: the cycles of the runs.
    #[must_use]
    pub fn sum(&self) -> Value {
        self.nodes.iter().fold(Value::default(), |sum, node| sum.plus(node.value))
    }

    /// The frames of a node's stack, outermost first.
    #[must_use]
    pub fn stack(&self, id: NodeId) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut next = self.node(id);
        while let Some(node) = next {
            frames.push(node.frame);
            next = node.parent.and_then(|parent| self.node(parent));
        }
        frames.reverse();
        frames
    }
}

impl PartialEq for Profile {
    /// Whether the profiles are equal in canonical order.
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.canonical(), other.canonical());
        a.programs == b.programs && a.nodes == b.nodes
    }
}

impl Eq for Profile {}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(vm_version: u32) -> ProfiledProgram {
        ProfiledProgram { elf: None, vm_version, isa: 3 }
    }

    fn code(program: ProgramId, pc: u64) -> Frame {
        Frame::Code { program, pc }
    }

    fn value(cycles: u64) -> Value {
        Value { cycles, instructions: cycles / 2 }
    }

    fn sample(versions: [u32; 2]) -> Profile {
        let mut profile = Profile::default();
        let [a, b] = versions.map(|version| profile.program(&program(version)).unwrap());
        let (first, second) = if versions[0] == 1 { (a, b) } else { (b, a) };
        let stacks = [
            (vec![code(first, 4), code(first, 16)], 10),
            (vec![code(first, 4), Frame::Spawn { index: 1 }, code(second, 8)], 6),
            (vec![code(first, 4)], 2),
        ];
        let order: Vec<_> = if versions[0] == 1 { vec![0, 1, 2] } else { vec![2, 1, 0] };
        for index in order {
            profile.add(&stacks[index].0, value(stacks[index].1));
        }
        profile
    }

    #[test]
    fn order_does_not_matter() {
        let (a, b) = (sample([1, 2]), sample([2, 1]));
        assert_eq!(a, b);
        assert_eq!(a.canonical().encode().unwrap(), b.canonical().encode().unwrap());
        let mut c = b.clone();
        c.add(&[Frame::Load], value(2));
        assert_ne!(a, c);
    }

    #[test]
    fn merging_adds_up_and_renames_programs() {
        let (mut a, b) = (sample([1, 2]), sample([2, 1]));
        a.merge(&b);
        assert_eq!(a.sum(), value(36));
        assert_eq!(a.programs().len(), 2);
        let group = Frame::Group { is_type: false, index: 0 };
        let mut under = Profile::default();
        let root = under.child(None, group);
        under.merge_under(root, &b);
        assert_eq!(under.sum(), b.sum());
        let deepest =
            under.nodes().iter().position(|node| matches!(node.frame, Frame::Spawn { .. })).unwrap();
        let stack = under.stack(NodeId(u32::try_from(deepest).unwrap()));
        assert_eq!(stack[0], group);
        assert_eq!(stack[2], Frame::Spawn { index: 1 });
    }

    #[test]
    fn what_does_not_fit_is_still_counted() {
        let mut profile = Profile::with_nodes_max(3);
        let program = profile.program(&program(2)).unwrap();
        for pc in 0..100 {
            profile.add(&[code(program, pc)], value(2));
        }
        assert_eq!(profile.nodes().len(), 4);
        assert_eq!(profile.sum(), value(200));
        let other = profile.nodes().iter().find(|node| node.frame == Frame::Other).unwrap();
        assert_eq!(other.value, value(194));
        let deep = vec![Frame::Load; DEPTH_MAX + 5];
        let mut profile = Profile::default();
        profile.add(&deep, value(2));
        assert_eq!((profile.nodes().len(), profile.sum()), (DEPTH_MAX, value(2)));
    }

    #[test]
    fn nodes_without_cost_disappear() {
        let mut profile = sample([1, 2]);
        profile.add(&[Frame::Load], Value::default());
        profile.program(&program(0)).unwrap();
        assert_eq!(profile.canonical().programs().len(), 2);
        assert!(profile.canonical().nodes().iter().all(|node| node.frame != Frame::Load));
    }
}
