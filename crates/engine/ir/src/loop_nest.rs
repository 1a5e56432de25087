//! The loops of a function. A loop consists of its header, the target of a back edge, and of all blocks that
//! reach the edge without passing the header.

use std::collections::BTreeMap;

use crate::Cfg;

/// Loops by their headers.
#[derive(Debug)]
pub struct LoopNest<'a> {
    cfg: &'a Cfg,
    latches: BTreeMap<usize, Vec<usize>>,
}

impl<'a> LoopNest<'a> {
    /// The loops in `cfg`.
    #[must_use]
    pub fn of(cfg: &'a Cfg) -> Self {
        let mut latches: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(from, header) in cfg.back_edges() {
            latches.entry(header).or_default().push(from);
        }
        Self { cfg, latches }
    }

    /// The graph of the loops.
    #[must_use]
    pub fn cfg(&self) -> &'a Cfg {
        self.cfg
    }

    /// The loop headers, ascending.
    pub fn headers(&self) -> impl Iterator<Item = usize> {
        self.latches.keys().copied()
    }

    /// The sources of back edges to `header`, ascending.
    #[must_use]
    pub fn latches(&self, header: usize) -> &[usize] {
        self.latches.get(&header).map_or(&[], Vec::as_slice)
    }

    /// By block: the number of loops around it. The time is proportional to the blocks of all loops.
    #[must_use]
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.cfg.blocks()];
        let mut last_loop = vec![usize::MAX; self.cfg.blocks()];
        for (&header, latches) in &self.latches {
            let mut open = latches.clone();
            open.push(header);
            while let Some(block) = open.pop() {
                if last_loop[block] == header {
                    continue;
                }
                last_loop[block] = header;
                depths[block] += 1;
                if block != header {
                    open.extend(self.cfg.predecessors(block));
                }
            }
        }
        depths
    }
}

/// The weight of a function's entry in [`frequencies`].
pub const ENTRY_FREQUENCY: u64 = 1 << 16;

/// Estimated iterations of a loop.
const ITERATIONS: u64 = 8;

/// Maximum weight of a block, so that sums fit.
const FREQUENCY_MAX: u64 = 1 << 40;

/// By block: its estimated executions per [`ENTRY_FREQUENCY`] executions of the entry. Loops weigh more,
/// branch targets less.
#[must_use]
pub fn frequencies(cfg: &Cfg) -> Vec<u64> {
    let mut frequencies = vec![0_u64; cfg.blocks()];
    let is_header = cfg.loop_headers();
    frequencies[0] = ENTRY_FREQUENCY;
    for &block in cfg.reverse_postorder() {
        if is_header[block] {
            frequencies[block] = (frequencies[block] * ITERATIONS).min(FREQUENCY_MAX);
        }
        let ahead = cfg.successors(block).iter().filter(|to| !cfg.is_back_edge(block, **to));
        let share = frequencies[block] / ahead.clone().count().max(1) as u64;
        ahead.for_each(|to| frequencies[*to] = (frequencies[*to] + share).min(FREQUENCY_MAX));
    }
    frequencies
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of 1 to 4 that contains a loop of 2 and 3, and 5 after it.
    fn nested() -> Cfg {
        Cfg::new(vec![vec![1], vec![2, 5], vec![3], vec![2, 4], vec![1], vec![]])
    }

    #[test]
    fn blocks_of_inner_loops_are_in_outer_ones() {
        let cfg = nested();
        let nest = LoopNest::of(&cfg);
        assert_eq!(nest.headers().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((nest.latches(1), nest.latches(2), nest.latches(3)), (&[4][..], &[3][..], &[][..]));
        assert_eq!(nest.depths(), [0, 1, 2, 2, 1, 0]);
    }

    #[test]
    fn inner_loops_run_more_often() {
        let frequencies = frequencies(&nested());
        assert_eq!(frequencies[0], ENTRY_FREQUENCY);
        assert!(frequencies[1] > frequencies[0] && frequencies[2] > frequencies[1]);
        assert!(frequencies[5] < frequencies[1]);
    }
}
