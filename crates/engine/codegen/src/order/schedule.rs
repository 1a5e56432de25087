//! Orders nodes so that few registers are live at once.

/// Instructions that stay together.
#[derive(Default)]
pub(crate) struct Node {
    /// Registers that it reads, without duplicates.
    pub(crate) reads: Vec<usize>,
    /// Registers that only this node writes.
    pub(crate) writes: Vec<usize>,
    /// Nodes that must precede it, without duplicates.
    pub(crate) after: Vec<usize>,
    /// Whether it becomes part of its user.
    pub(crate) is_free: bool,
}

/// The input of the scheduler.
pub(crate) struct Schedule<'n> {
    nodes: &'n [Node],
    registers: usize,
    live_out: &'n [usize],
}

impl<'n> Schedule<'n> {
    /// Creates a schedule of `nodes` with this many `registers`; code after all nodes reads `live_out`.
    pub(crate) fn of(nodes: &'n [Node], registers: usize, live_out: &'n [usize]) -> Self {
        Self { nodes, registers, live_out }
    }

    /// The loads and stores that `order` needs with this many `available` registers, if each spill evicts the
    /// register that is read last.
    pub(crate) fn spills(&self, order: &[usize], available: usize) -> usize {
        // The positions of each register's reads, the next one last.
        let mut reads = vec![Vec::new(); self.registers];
        for register in self.live_out {
            reads[*register].push(order.len());
        }
        for (place, index) in order.iter().enumerate().rev() {
            for register in &self.nodes[*index].reads {
                reads[*register].push(place);
            }
        }
        let mut is_stored = vec![false; self.registers];
        let mut held: Vec<usize> = Vec::new();
        let mut spills = 0;
        for index in order {
            let node = &self.nodes[*index];
            for register in &node.reads {
                reads[*register].pop();
                if !held.contains(register) {
                    spills += 1;
                    held.push(*register);
                }
            }
            held.retain(|register| !reads[*register].is_empty());
            held.extend(node.writes.iter().filter(|register| !reads[**register].is_empty()));
            while held.len() > available {
                let last = (0..held.len()).max_by_key(|at| reads[held[*at]].last());
                let Some(register) = last.map(|at| held.swap_remove(at)) else { break };
                spills += usize::from(!std::mem::replace(&mut is_stored[register], true));
            }
        }
        spills
    }

    /// Orders nodes from the end to the start. Always picks the node that leaves the fewest registers live
    /// before it; of several, the last one. None if nodes depend on each other in a cycle.
    pub(crate) fn order(&self) -> Option<Vec<usize>> {
        let mut waiting = vec![0_usize; self.nodes.len()];
        for before in self.nodes.iter().flat_map(|node| &node.after) {
            waiting[*before] += 1;
        }
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|node| waiting[*node] == 0).collect();
        let mut is_live = vec![false; self.registers];
        for register in self.live_out {
            is_live[*register] = true;
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(at) = self.best(&ready, &is_live) {
            let index = ready.swap_remove(at);
            let node = &self.nodes[index];
            for register in &node.writes {
                is_live[*register] = false;
            }
            for register in &node.reads {
                is_live[*register] = true;
            }
            for before in &node.after {
                waiting[*before] -= 1;
                if waiting[*before] == 0 {
                    ready.push(*before);
                }
            }
            order.push(index);
        }
        order.reverse();
        (order.len() == self.nodes.len()).then_some(order)
    }

    fn best(&self, ready: &[usize], is_live: &[bool]) -> Option<usize> {
        let worth = |index: usize| {
            let node = &self.nodes[index];
            let ends = node.reads.iter().filter(|register| !is_live[**register]).count();
            let begins = node.writes.iter().filter(|register| is_live[**register]).count();
            (node.is_free, begins.cast_signed() - ends.cast_signed(), index)
        };
        (0..ready.len()).max_by_key(|at| worth(ready[*at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(reads: &[usize], writes: &[usize], after: &[usize]) -> Node {
        Node { reads: reads.to_vec(), writes: writes.to_vec(), after: after.to_vec(), is_free: false }
    }

    /// Four values, then two sums of two.
    fn sums() -> Vec<Node> {
        let mut nodes: Vec<Node> = (0..4).map(|value| node(&[], &[value], &[])).collect();
        nodes.push(node(&[0, 1], &[4], &[0, 1]));
        nodes.push(node(&[2, 3], &[5], &[2, 3]));
        nodes
    }

    #[test]
    fn what_is_read_together_is_made_together() {
        let nodes = sums();
        let schedule = Schedule::of(&nodes, 6, &[4, 5]);
        let order = schedule.order().unwrap();
        assert_eq!(order, [0, 1, 4, 2, 3, 5]);
        assert_eq!(schedule.spills(&[0, 1, 2, 3, 4, 5], 3), 2);
        assert_eq!(schedule.spills(&order, 3), 0);
    }

    #[test]
    fn a_register_that_is_spilled_twice_is_stored_once() {
        let nodes =
            [node(&[], &[0], &[]), node(&[], &[1], &[]), node(&[0], &[], &[0]), node(&[1], &[], &[1])];
        let schedule = Schedule::of(&nodes, 2, &[0, 1]);
        // Register 1 is stored at its definition, loaded for its reader, and evicted again.
        assert_eq!(schedule.spills(&[0, 1, 2, 3], 1), 2);
    }

    #[test]
    fn nodes_that_wait_for_each_other_have_no_order() {
        let nodes = [node(&[], &[0], &[1]), node(&[0], &[1], &[0])];
        assert_eq!(Schedule::of(&nodes, 2, &[]).order(), None);
    }

    #[test]
    fn an_order_keeps_what_comes_before_what() {
        let mut nodes = sums();
        nodes[0].after.push(3);
        let order = Schedule::of(&nodes, 6, &[4, 5]).order().unwrap();
        let place = |node: usize| order.iter().position(|other| *other == node);
        for (index, node) in nodes.iter().enumerate() {
            assert!(node.after.iter().all(|before| place(*before) < place(index)), "{index} in {order:?}");
        }
    }
}
