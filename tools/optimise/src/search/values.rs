//! A window as values: data flow between its instructions, and the values that are live after it.

use antares_program::RegSet;

use super::encode::Line;
use crate::checker::state::{Shape, shape};

/// The initial value of a register (below 32; 0 is zero), or the result of node `value - 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Val(pub(crate) u32);

impl Val {
    /// The register of an initial value; 0 for results.
    pub(crate) fn register(self) -> u8 {
        u8::try_from(self.0).unwrap_or(0) & 31
    }

    pub(crate) const ZERO: Self = Self(0);

    pub(crate) fn of_node(node: usize) -> Self {
        Self(u32::try_from(node).map_or(u32::MAX, |node| node + 32))
    }

    pub(crate) fn node(self) -> Option<usize> {
        self.0.checked_sub(32).map(|node| node as usize)
    }
}

/// An instruction whose operands are values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Includes the original registers, as hints.
    pub(crate) line: Line,
    pub(crate) shape: Shape,
    pub(crate) srcs: [Val; 2],
    /// Whether a fusion requires this order of operands.
    pub(crate) is_pinned: bool,
    /// A result that needs the same register.
    pub(crate) partner: Option<usize>,
    pub(crate) is_alive: bool,
}

impl Node {
    pub(crate) fn uses(&self, value: Val) -> bool {
        self.srcs.contains(&value)
    }

    /// Makes the operand `value` the first one.
    pub(crate) fn lead(&mut self, value: Val) {
        if self.srcs[0] != value {
            self.srcs.reverse();
        }
    }
}

/// Instructions that must be adjacent in this order, and their approximate position.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) members: Vec<usize>,
    pub(crate) place: usize,
}

/// A window as values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) nodes: Vec<Node>,
    /// Registers that are live after the window, with their values.
    pub(crate) outs: Vec<(u8, Val)>,
    pub(crate) units: Vec<Unit>,
}

impl Values {
    /// `None` if windows must not contain one of the instructions.
    pub(crate) fn of(lines: &[Line], live_out: RegSet) -> Option<Self> {
        let mut held: Vec<Val> = (0..32).map(Val).collect();
        let mut nodes = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            let shape = shape(line.op)?;
            let srcs = [line.rs1, line.rs2].map(|register| held[usize::from(register)]);
            nodes.push(Node { line: *line, shape, srcs, is_pinned: false, partner: None, is_alive: true });
            if line.rd != 0 {
                held[usize::from(line.rd)] = Val::of_node(at);
            }
        }
        let outs = live_out.iter().map(|register| (register.0, held[register.index()])).collect();
        let mut values = Self { nodes, outs, units: Vec::new() };
        values.drop_dead();
        Some(values)
    }

    /// Removes unused results. Loads remain, because they may fault.
    pub(crate) fn drop_dead(&mut self) {
        let mut users = vec![0_usize; self.nodes.len()];
        let used = self.alive().flat_map(|(_, node)| node.srcs).chain(self.outs.iter().map(|out| out.1));
        used.filter_map(Val::node).for_each(|node| users[node] += 1);
        let mut unused: Vec<usize> = (0..self.nodes.len()).filter(|at| users[*at] == 0).collect();
        while let Some(at) = unused.pop() {
            let node = &mut self.nodes[at];
            if !node.is_alive || matches!(node.shape, Shape::Load | Shape::Store) {
                continue;
            }
            node.is_alive = false;
            for source in node.srcs.into_iter().filter_map(Val::node) {
                users[source] -= 1;
                if users[source] == 0 {
                    unused.push(source);
                }
            }
        }
    }

    pub(crate) fn is_out(&self, value: Val) -> bool {
        self.outs.iter().any(|out| out.1 == value)
    }

    /// Remaining nodes, with their indices.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_alive)
    }

    /// Replaces all uses of `value` by `by`.
    pub(crate) fn replace(&mut self, value: Val, by: Val) {
        for node in &mut self.nodes {
            node.srcs = node.srcs.map(|source| if source == value { by } else { source });
        }
        for out in &mut self.outs {
            if out.1 == value {
                out.1 = by;
            }
        }
    }
}
