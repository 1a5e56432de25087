//! `antares replay`: runs all scripts of a CKB node's blocks; compares cycles and verdicts with the node's.

mod fetch;
mod report;

use std::{collections::VecDeque, process::ExitCode, time::Instant};

use antares_node::{ChainNode, ChainRules};
use anyhow::anyhow;
use ckb_types::H256;
use tokio::{runtime::Runtime, task::JoinHandle};

use self::{
    fetch::{Fetched, Prepared, fetch},
    report::{BlockShape, ReorganisedShape, RunShape, SummaryShape},
};
use crate::{
    args::of_chain::ReplayArgs,
    commands::of_chain,
    failure::Failure,
    input::verify_request::Request,
    limits::{REORGANISED_BLOCKS_MAX, UNSETTLED_MAX},
    local::engine,
    output,
    output::verdict::{Outcome, Verdict},
    remote::calls::runtime,
};

/// Replays the blocks that `args` name.
pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let node = of_chain::node(&args.node)?;
    let (tip, rules) = of_chain::wait_for_node(&node, async {
        let tip = node.tip().await.map_err(of_chain::failure)?;
        Ok((tip, node.rules().await.map_err(of_chain::failure)?))
    })?;
    let to = args.to.unwrap_or(tip);
    if to > tip || args.from > to {
        let text = format!("the chain ends with block {tip}: there are no blocks {} to {to}", args.from);
        return Err(Failure::Usage(anyhow!(text)));
    }
    let transactions = engine::Transactions::start(args.code())?;
    let replay = Replay { args, node, rules, runtime: runtime()?, transactions };
    let summary = replay.all(args.from, to)?;
    summary.print(args.json)?;
    Ok(if summary.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A replay in progress.
struct Replay<'a> {
    args: &'a ReplayArgs,
    node: ChainNode,
    rules: ChainRules,
    runtime: Runtime,
    transactions: engine::Transactions,
}

/// A block fetched from the node, or the failure.
type Next = JoinHandle<Result<Fetched, Failure>>;

impl Replay<'_> {
    /// Replays the blocks. Fetches the next block while one is verified.
    fn all(&self, from: u64, to: u64) -> Result<SummaryShape, Failure> {
        let mut done: VecDeque<BlockShape> = VecDeque::new();
        let (mut summary, mut again) = (SummaryShape::new(from, to), Again::default());
        let mut next = self.begin(from);
        loop {
            let fetched = self.runtime.block_on(next).map_err(|error| Failure::Service(error.into()))??;
            let number = fetched.number;
            let before = done.back().filter(|before| before.hash_of != fetched.parent);
            if let Some(before) = before {
                again.record(&self.node, before, &fetched)?;
                ReorganisedShape::new(before).print(self.args.json)?;
                done.pop_back();
                next = self.begin(number - 1);
                continue;
            }
            let following = (number < to).then(|| self.begin(number + 1));
            let mut block = self.block(fetched)?;
            block.print(self.args.json, self.node.name())?;
            block.forget();
            done.push_back(block);
            let Some(following) = following else { break };
            next = following;
            // No chain reverts more blocks.
            if done.len() as u64 > REORGANISED_BLOCKS_MAX {
                done.pop_front().iter().for_each(|block| summary.add(block));
            }
        }
        done.iter().for_each(|block| summary.add(block));
        summary.reorganised = again.blocks;
        Ok(summary)
    }

    fn begin(&self, number: u64) -> Next {
        self.runtime.spawn(fetch(self.node.clone(), number))
    }

    /// Verifies a block's transactions.
    fn block(&self, fetched: Fetched) -> Result<BlockShape, Failure> {
        let begun = Instant::now();
        let mut runs = Vec::with_capacity(fetched.transactions.len());
        for prepared in fetched.transactions {
            let (hash, index, cycles) = (prepared.hash.clone(), prepared.index, prepared.cycles);
            let run = self.transaction(prepared, fetched.epoch);
            let verdict =
                run.map_err(|failure| failure.of(&format!("block {}, {hash:#x}", fetched.number)))?;
            runs.push(RunShape::new(&hash, index, &verdict, cycles));
        }
        let took = (fetched.took, begun.elapsed());
        Ok(BlockShape::new(fetched.number, fetched.hash, runs, took))
    }

    fn transaction(&self, prepared: Prepared, epoch: u64) -> Result<Verdict, Failure> {
        let request = Request {
            json: prepared.json,
            environment: of_chain::environment(&self.rules, epoch),
            tier: self.args.tier,
            code: self.args.code(),
            cycles_max: self.args.limits.max_cycles,
            deadline: self.args.limits.deadline(),
            ..Request::default()
        };
        let verdict = self.transactions.verify(&request)?;
        match verdict.outcome {
            Outcome::WorkerLost => Err(Failure::Service(anyhow!(verdict.error.unwrap_or_default()))),
            _ => Ok(verdict),
        }
    }
}

/// Counts of blocks that were fetched again.
#[derive(Default)]
struct Again {
    /// All of them.
    blocks: u64,
    /// The last reverted block, and how often it was the same again.
    last: Option<H256>,
    unsettled: u32,
}

impl Again {
    /// Notes that `before` left the chain, since `fetched` does not follow it.
    ///
    /// # Errors
    /// The same block is reverted repeatedly, or reverts do not end.
    fn record(&mut self, node: &ChainNode, before: &BlockShape, fetched: &Fetched) -> Result<(), Failure> {
        self.blocks += 1;
        self.unsettled = if self.last.as_ref() == Some(&before.hash_of) { self.unsettled + 1 } else { 0 };
        self.last = Some(before.hash_of.clone());
        if self.unsettled < UNSETTLED_MAX && self.blocks <= REORGANISED_BLOCKS_MAX {
            return Ok(());
        }
        let (name, number) = (output::printable(node.name()), fetched.number);
        Err(Failure::Service(anyhow!(
            "{name} has no chain that fits together: its block {number} is behind {:#x}, and its block {} is {:#x}",
            fetched.parent,
            before.number,
            before.hash_of
        )))
    }
}
