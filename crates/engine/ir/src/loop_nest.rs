//! The loops of a function. A loop is what leads to a back edge without passing the block that the edge goes
//! to, its header.

use std::collections::BTreeMap;

use crate::Cfg;

/// Loops by their headers.
#[derive(Debug)]
pub struct LoopNest<'a> {
    cfg: &'a Cfg,
    latches: BTreeMap<usize, Vec<usize>>,
}

impl<'a> LoopNest<'a> {
    /// Those of the function of `cfg`.
    #[must_use]
    pub fn of(cfg: &'a Cfg) -> Self {
        let mut latches: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(from, header) in cfg.back_edges() {
            latches.entry(header).or_default().push(from);
        }
        Self { cfg, latches }
    }

    /// The graph that they are in.
    #[must_use]
    pub fn cfg(&self) -> &'a Cfg {
        self.cfg
    }

    /// Blocks that loops go back to, ascending.
    pub fn headers(&self) -> impl Iterator<Item = usize> {
        self.latches.keys().copied()
    }

    /// Blocks that go back to `header`, ascending.
    #[must_use]
    pub fn latches(&self, header: usize) -> &[usize] {
        self.latches.get(&header).map_or(&[], Vec::as_slice)
    }

    /// By block: how many loops it is in. Takes time in proportion to the blocks of all loops.
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

/// What a function's entry weighs in [`frequencies`].
pub const ENTRY_FREQUENCY: u64 = 1 << 16;

/// How much more often than what is around it a loop runs.
const ITERATIONS: u64 = 8;

/// No block weighs more, so that sums fit.
const FREQUENCY_MAX: u64 = 1 << 40;

/// By block: about how often it runs, if the entry does [`ENTRY_FREQUENCY`] times: loops more, what is behind
/// branches less.
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

    /// A loop of 1 to 4 with a loop of 2 and 3 in it, and 5 behind.
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
