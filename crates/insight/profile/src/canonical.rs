//! The canonical order of profiles.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use crate::{Frame, NodeId, Profile, ProfiledProgram, ProgramId, Value};

/// Children with renumbered frames, in reverse order: the last one is popped first.
type Children = Vec<(Frame, NodeId)>;

impl Profile {
    /// The profile in canonical order: programs sorted and without unused ones, children of a node sorted by
    /// frame, and no subtree without cost.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let subtree = self.subtree();
        let mut sorted = Self { nodes_max: self.nodes_max, ..Self::default() };
        for program in self.used_programs(&subtree) {
            sorted.program(program);
        }
        let mut children = self.children(&subtree, &sorted.programs);
        let mut open: Vec<(Option<NodeId>, Children)> =
            vec![(None, children.remove(&None).unwrap_or_default())];
        while let Some((parent, list)) = open.last_mut() {
            let Some((frame, id)) = list.pop() else {
                open.pop();
                continue;
            };
            let parent = *parent;
            // The copy has at most as many nodes as the original, so it fits.
            let Some(copy) = sorted.child(parent, frame) else { continue };
            sorted.spend(copy, self.nodes[id.0 as usize].value);
            open.push((Some(copy), children.remove(&Some(id)).unwrap_or_default()));
        }
        sorted
    }

    /// Cost of each node including its descendants.
    #[must_use]
    pub fn subtree(&self) -> Vec<Value> {
        let mut subtree: Vec<Value> = self.nodes.iter().map(|node| node.value).collect();
        for index in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[index].parent {
                subtree[parent.0 as usize] = subtree[parent.0 as usize].plus(subtree[index]);
            }
        }
        subtree
    }

    fn used_programs(&self, subtree: &[Value]) -> BTreeSet<&ProfiledProgram> {
        let spent = self.nodes.iter().zip(subtree).filter(|(_, value)| !value.is_zero());
        let used = spent.filter_map(|(node, _)| self.programs.get(node.frame.code()?.0.0 as usize));
        used.collect()
    }

    /// The children of each node with a cost, with program ids that index `programs`.
    fn children(&self, subtree: &[Value], programs: &[ProfiledProgram]) -> HashMap<Option<NodeId>, Children> {
        let places = self.programs.iter().map(|program| programs.iter().position(|other| other == program));
        let renamed: Vec<Option<ProgramId>> =
            places.map(|place| Some(ProgramId(u32::try_from(place?).ok()?))).collect();
        let rename = |frame: Frame| match frame {
            Frame::Code { program, pc } => {
                let program = renamed.get(program.0 as usize).copied().flatten().unwrap_or(program);
                Frame::Code { program, pc }
            }
            frame => frame,
        };
        let mut children: HashMap<Option<NodeId>, Children> = HashMap::new();
        for ((node, value), id) in self.nodes.iter().zip(subtree).zip(0..) {
            if !value.is_zero() {
                children.entry(node.parent).or_default().push((rename(node.frame), NodeId(id)));
            }
        }
        for list in children.values_mut() {
            list.sort_by_key(|child| Reverse(child.0));
        }
        children
    }
}
