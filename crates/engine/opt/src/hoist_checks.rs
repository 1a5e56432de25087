//! Moves address checks across blocks: each as early as all paths need it, and none where earlier checks
//! imply it.
//!
//! A block that accesses memory around a register also checks the accesses that follow on every path. The
//! range may already hold on all edges into the block, so nothing is checked. It may hold on some edges: then
//! the others get the check, which moves checks out of loops. Or it holds on none, and the block checks it. A
//! failed check bails out for good. An early check thus refuses scripts that would fail later or end in
//! between; the interpreter gives the same result.

use antares_ir::{Access, Block, Cfg, Module, Op, Terminator, Value, successors};
use antares_program::{BlockId, Reg};

use crate::Target;
use crate::ranges::{self, Both, Facts, ImpliedRanges, Range, Summary, Transfer};

/// Maximum distance of accesses to check together.
const SPAN_MAX: i64 = 4096;

/// Maximum blocks ahead to anticipate accesses.
const ROUNDS: usize = 16;

/// Maximum rounds of moving checks out, by one loop each.
const MOVES: usize = 3;

/// Maximum edges that get one check.
const EDGES_MAX: usize = 4;

/// Maximum offset of loads that are checked from the register itself on, which saves an addition. The check
/// also refuses registers just below zero; the interpreter runs such scripts.
const LOW_MAX: i64 = 2048;

/// A block whose checks are not yet placed.
struct DraftBlock {
    block: Block,
    /// Checks of values in the block.
    checks: Vec<Op>,
}

impl DraftBlock {
    fn of(mut block: Block) -> Self {
        let checks = block.take_checks();
        Self { block, checks }
    }

    /// The entry value of `register`.
    fn read(&mut self, register: Reg) -> Value {
        let index = self.block.ops.iter().position(|op| *op == Op::Read(register));
        index.map_or_else(|| self.block.push(Op::Read(register)), Value::at)
    }

    fn check(&mut self, access: Access, base: Value, range: Range) {
        let (mut low, high) = (range.low(), range.high());
        if access == Access::Read && (1..LOW_MAX).contains(&low) {
            low = 0;
        }
        self.checks.push(Op::Check { access, base, low, high });
    }

    fn finish(mut self) -> Block {
        self.block.put_checks(&self.checks);
        self.block
    }
}

/// Moves the checks of all functions with at most `blocks_max` blocks.
pub(crate) fn hoist(module: &mut Module, target: Target) {
    let implied = ImpliedRanges::of(module);
    let functions = module.functions.iter_mut();
    for function in functions.filter(|function| function.blocks.len() <= target.blocks_max) {
        let mut drafts = std::mem::take(&mut function.blocks).into_iter().map(DraftBlock::of).collect();
        place(&mut drafts, function.frame_low, implied, target.own_switches_max);
        function.blocks = drafts.into_iter().map(DraftBlock::finish).collect();
    }
}

/// Moves the checks of a function's blocks; the entry checks stores to `[sp + frame_low, sp)` first.
fn place(
    blocks: &mut Vec<DraftBlock>,
    frame_low: Option<i64>,
    implied: ImpliedRanges,
    own_switches_max: usize,
) {
    let mut flow = Flow::new(blocks, implied, own_switches_max);
    let needed = flow.anticipated(blocks);
    flow.widen(&needed);
    let entry = ranges::at_entry(frame_low, implied);
    let (ensured, after) = flow.available(&needed, &entry);
    let plan = flow.plan(&ensured, &after);
    rewrite(blocks, &flow, plan);
}

/// A function's control flow, and the effects of its blocks.
struct Flow {
    implied: ImpliedRanges,
    summaries: Vec<Summary>,
    cfg: Cfg,
    /// By block: whether its outgoing edges may be split.
    is_open: Vec<bool>,
    /// By block: whether it always continues at one of its successors.
    goes_on: Vec<bool>,
}

/// Where checks go.
struct Plan {
    /// Block, register, access, range, and whether the range is known to hold there.
    at: Vec<(usize, Reg, Access, Range, bool)>,
    /// Edge, register, access, range.
    on_edges: Vec<((usize, usize), Reg, Access, Range)>,
}

impl Flow {
    fn new(blocks: &[DraftBlock], implied: ImpliedRanges, own_switches_max: usize) -> Self {
        let is_switch =
            |draft: &&DraftBlock| matches!(draft.block.terminator, Terminator::JumpIndirect { .. });
        let shares_switches = blocks.iter().filter(is_switch).count() > own_switches_max;
        let summary = |DraftBlock { block, checks }: &DraftBlock| {
            let mut summary = Summary::new(&block.ops, checks.iter(), &block.writes, &block.terminator);
            summary.own = summary.own.map(|both| implied.fewest(both));
            summary.made.iter_mut().for_each(|(_, both)| *both = implied.fewest(*both));
            summary
        };
        Self {
            implied,
            summaries: blocks.iter().map(summary).collect(),
            cfg: Cfg::new(blocks.iter().map(|draft| successors(&draft.block.terminator)).collect()),
            is_open: blocks.iter().map(|block| !(shares_switches && is_switch(&block))).collect(),
            goes_on: blocks.iter().map(|block| goes_on(&block.block.terminator)).collect(),
        }
    }

    /// The checks that each block needs: its own, and those that every path from it soon makes. Works in rounds
    /// from the blocks' own checks, so that a loop requires only its own accesses. The dataflow solver would
    /// compute the greatest solution, and widen it to nothing.
    fn anticipated(&self, blocks: &[DraftBlock]) -> Vec<Facts> {
        let mut needed: Vec<Facts> = self.summaries.iter().map(|summary| summary.own).collect();
        for _ in 0..ROUNDS {
            let mut has_changed = false;
            for block in (0..blocks.len()).rev() {
                let ahead = self.needed_at_end(block, &needed);
                let summary = &self.summaries[block];
                let mut before = summary.own;
                for (transfer, ahead) in summary.transfers.iter().zip(ahead) {
                    if let Transfer::Copied(register, by) = *transfer {
                        let both = &mut before[register.index()];
                        *both = self.implied.fewest(together(*both, ahead.moved(by)));
                    }
                }
                has_changed |= before != needed[block];
                needed[block] = before;
            }
            if !has_changed {
                break;
            }
        }
        needed
    }

    fn needed_at_end(&self, block: usize, needed: &[Facts]) -> Facts {
        if !self.goes_on[block] {
            return Facts::default();
        }
        // Writable ranges are readable too.
        let all = |both: Both| both.join(Both::of(Access::Read, both.get(Access::Write)));
        let mut ahead = self.cfg.successors(block).iter().map(|next| needed[*next].map(all));
        let Some(first) = ahead.next() else { return Facts::default() };
        ahead.fold(first, |met, next| std::array::from_fn(|index| met[index].meet(next[index])))
    }

    /// Extends checks of computed values to cover the accesses that follow.
    fn widen(&mut self, needed: &[Facts]) {
        for block in 0..self.summaries.len() {
            let ahead = self.needed_at_end(block, needed);
            let implied = self.implied;
            let summary = &mut self.summaries[block];
            for (transfer, ahead) in summary.transfers.iter().zip(ahead) {
                let Transfer::Computed(value, by) = *transfer else { continue };
                for (made, both) in &mut summary.made {
                    if *made == value {
                        *both = implied.fewest(together(*both, ahead.moved(by)));
                    }
                }
            }
        }
    }

    /// The facts that each block ensures at its start, and the resulting facts at its end.
    fn available(&self, needed: &[Facts], entry: &Facts) -> (Vec<Facts>, Vec<Option<Facts>>) {
        let own = |(summary, needed): (&Summary, &Facts)| -> Facts {
            std::array::from_fn(|index| match summary.own[index].is_empty() {
                true => Both::default(),
                false => needed[index],
            })
        };
        let mut ensured: Vec<Facts> = self.summaries.iter().zip(needed).map(own).collect();
        let mut after = self.after(&ensured, entry);
        for _ in 0..MOVES {
            let mut has_changed = false;
            for block in 1..needed.len() {
                for register in (1..32).map(Reg) {
                    let index = register.index();
                    let both = needed[block][index];
                    if !both.is_empty()
                        && ensured[block][index].is_empty()
                        && both.iter().all(|(access, range)| {
                            let lacking = self.lacking(block, register, access, range, &after);
                            lacking.is_some_and(|edges| !edges.is_empty())
                        })
                    {
                        ensured[block][index] = both;
                        has_changed = true;
                    }
                }
            }
            if !has_changed {
                break;
            }
            after = self.after(&ensured, entry);
        }
        (ensured, after)
    }

    fn after(&self, ensured: &[Facts], entry: &Facts) -> Vec<Option<Facts>> {
        ranges::solve(&self.summaries, &self.cfg, ensured, entry, self.implied)
    }

    /// The blocks on whose edges to `block` the range is not known to hold, if these are few and may be split.
    fn lacking(
        &self,
        block: usize,
        register: Reg,
        access: Access,
        range: Range,
        after: &[Option<Facts>],
    ) -> Option<Vec<usize>> {
        let from: Vec<usize> =
            self.cfg.predecessors(block).iter().copied().filter(|from| after[*from].is_some()).collect();
        let holds = |from: &usize| {
            after[*from].is_some_and(|facts| facts[register.index()].get(access).covers(range))
        };
        let lacking: Vec<usize> = from.iter().copied().filter(|from| !holds(from)).collect();
        let may_split = |from: &usize| self.is_open[*from] && !self.cfg.is_back_edge(*from, block);
        let holds_somewhere = block != 0 && lacking.len() < from.len();
        let may_hold = holds_somewhere && lacking.len() <= EDGES_MAX && lacking.iter().all(may_split);
        may_hold.then_some(lacking)
    }

    fn plan(&self, ensured: &[Facts], after: &[Option<Facts>]) -> Plan {
        let mut plan = Plan { at: Vec::new(), on_edges: Vec::new() };
        for (block, facts) in ensured.iter().enumerate() {
            for register in (1..32).map(Reg) {
                for (access, range) in facts[register.index()].iter() {
                    let lacking = self.lacking(block, register, access, range, after);
                    plan.at.push((block, register, access, range, lacking.is_some()));
                    let from = lacking.into_iter().flatten();
                    plan.on_edges.extend(from.map(|from| ((from, block), register, access, range)));
                }
            }
        }
        plan.on_edges.sort_by_key(|(edge, ..)| *edge);
        plan
    }
}

/// Both ranges, if they are near each other; else the first.
fn together(own: Both, other: Both) -> Both {
    let joined = own.join(other);
    let is_near = joined.iter().all(|(_, range)| range.high() - range.low() <= SPAN_MAX);
    if is_near { joined } else { own }
}

fn goes_on(terminator: &Terminator) -> bool {
    match terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } => true,
        Terminator::JumpIndirect { candidates, may_call, .. } => !may_call && !candidates.is_empty(),
        _ => false,
    }
}

/// Inserts the checks of `plan`.
fn rewrite(blocks: &mut Vec<DraftBlock>, flow: &Flow, plan: Plan) {
    for (block, summary) in blocks.iter_mut().zip(&flow.summaries) {
        let ops = &block.block.ops;
        block.checks.retain(|op| {
            let Op::Check { base, low, high, .. } = *op else { return true };
            let (root, offset) = ranges::root(ops, base);
            let range = Range::new(low, high);
            let moved = range.moved(offset);
            let is_followed = !moved.is_empty() && moved.moved(-offset) == range;
            !is_followed || matches!(ops[root.0 as usize], Op::Const(_) | Op::Read(Reg::ZERO))
        });
        for (value, both) in &summary.made {
            for (access, range) in both.iter() {
                block.check(access, *value, range);
            }
        }
    }
    for (block, register, access, range, is_proved) in plan.at {
        let base = blocks[block].read(register);
        if is_proved {
            let (low, high) = (range.low(), range.high());
            blocks[block].checks.push(Op::Proved { access, base, low, high });
        } else {
            blocks[block].check(access, base, range);
        }
    }
    for edge in plan.on_edges.chunk_by(|a, b| a.0 == b.0) {
        let (from, to) = edge[0].0;
        let of_edge = blocks.len();
        let between = Block::between(blocks[to].block.pc, Vec::new(), Terminator::Jump(BlockId::at(to)));
        blocks.push(DraftBlock::of(between));
        for &(_, register, access, range) in edge {
            let base = blocks[of_edge].read(register);
            blocks[of_edge].check(access, base, range);
        }
        let terminator = &mut blocks[from].block.terminator;
        *terminator = terminator
            .map_targets(|target| if target == BlockId::at(to) { BlockId::at(of_edge) } else { target });
    }
}
