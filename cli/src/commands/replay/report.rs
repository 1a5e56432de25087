//! Output of a replay: a line for each block, the differences, and a summary.

use std::{fmt::Write as _, time::Duration};

use ckb_types::H256;
use serde::Serialize;

use crate::{
    args::percent::share,
    failure::Failure,
    output,
    output::color::{Mood, paint},
    output::json,
    output::printable,
    output::report::grouped,
    output::verdict::{Outcome, Verdict, without_dead_link},
};

#[derive(Debug, Serialize)]
pub(super) struct RunShape {
    hash: String,
    /// Index in its block.
    index: usize,
    outcome: Outcome,
    error: Option<String>,
    cycles: u64,
    /// Cycles that the node reports.
    node_cycles: Option<u64>,
    native_cycles: u64,
    interpreted_cycles: u64,
    /// Why native code bailed out, for each group that did.
    restarted: Vec<String>,
    /// Whether verdict and cycles match the node's.
    is_same: bool,
}

impl RunShape {
    pub(super) fn new(hash: &H256, index: usize, verdict: &Verdict, node_cycles: Option<u64>) -> Self {
        let sum = |of: fn(&output::verdict::Group) -> u64| verdict.groups.iter().map(of).sum();
        // Every node accepted the transactions in a block.
        let is_accepted = verdict.outcome == Outcome::Ok;
        Self {
            hash: format!("{hash:#x}"),
            index,
            outcome: verdict.outcome,
            error: verdict.error.clone(),
            cycles: verdict.cycles,
            node_cycles,
            native_cycles: sum(|group| group.native_cycles),
            interpreted_cycles: sum(|group| group.interpreted_cycles),
            restarted: verdict.groups.iter().filter_map(|group| group.restarted.clone()).collect(),
            is_same: is_accepted && node_cycles.is_none_or(|cycles| cycles == verdict.cycles),
        }
    }

    /// Whether it ran entirely in native code.
    fn is_native(&self) -> bool {
        self.interpreted_cycles == 0
    }

    /// Describes the difference.
    fn difference(&self, node: &str) -> String {
        let what = match (&self.error, self.node_cycles) {
            (Some(error), _) => format!("the chain has accepted it, but {}", without_dead_link(error)),
            (None, Some(cycles)) => {
                format!("{} cycles here, {} as the node says", grouped(self.cycles), grouped(cycles))
            }
            (None, None) => "it did not end".to_owned(),
        };
        let (word, hash) = (paint("different", Mood::Bad), &self.hash);
        let command = format!("antares verify --tx-hash {hash} --rpc {node} --explain");
        printable_but(&word, &format!(": transaction {} {hash}: {what}\n  {command}\n", self.index))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct BlockShape {
    kind: &'static str,
    pub(super) number: u64,
    hash: String,
    #[serde(skip)]
    pub(super) hash_of: H256,
    cycles: u64,
    native_cycles: u64,
    interpreted_cycles: u64,
    differences: usize,
    /// Transactions whose scripts ran in native code only.
    native_transactions: usize,
    fetch_ms: u64,
    verify_ms: u64,
    transactions: Vec<RunShape>,
    #[serde(skip)]
    count: usize,
}

impl BlockShape {
    pub(super) fn new(
        number: u64,
        hash: H256,
        transactions: Vec<RunShape>,
        (fetched, verified): (Duration, Duration),
    ) -> Self {
        let sum = |of: fn(&RunShape) -> u64| transactions.iter().map(of).sum();
        Self {
            kind: "block",
            number,
            hash: format!("{hash:#x}"),
            hash_of: hash,
            cycles: sum(|run| run.cycles),
            native_cycles: sum(|run| run.native_cycles),
            interpreted_cycles: sum(|run| run.interpreted_cycles),
            differences: transactions.iter().filter(|run| !run.is_same).count(),
            native_transactions: transactions.iter().filter(|run| run.is_native()).count(),
            count: transactions.len(),
            fetch_ms: milliseconds(fetched),
            verify_ms: milliseconds(verified),
            transactions,
        }
    }

    pub(super) fn print(&self, is_json: bool, node: &str) -> Result<(), Failure> {
        print(self, is_json, || self.to_text(node))
    }

    /// Drops its transactions, which have been reported.
    pub(super) fn forget(&mut self) {
        self.transactions = Vec::new();
    }

    fn to_text(&self, node: &str) -> String {
        let mut text = format!("block {} {}…: {} transactions", self.number, &self.hash[..18], self.count);
        if self.count > 0 {
            let native = share(self.native_cycles, self.native_cycles + self.interpreted_cycles);
            let _ = write!(text, ", {} cycles, {native}% native", grouped(self.cycles));
        }
        let _ = writeln!(text, ", had in {} ms, verified in {} ms", self.fetch_ms, self.verify_ms);
        for run in &self.transactions {
            if !run.is_same {
                text += &run.difference(node);
            } else if !run.is_native() {
                text += &interpreted(run);
            }
        }
        text
    }
}

/// The line of a transaction that did not run entirely in native code.
fn interpreted(run: &RunShape) -> String {
    let why = if run.restarted.is_empty() {
        String::new()
    } else {
        format!(" ({})", printable(&run.restarted.join(", ")))
    };
    format!(
        "  transaction {} {}…: {} cycles native, {} interpreted{why}\n",
        run.index,
        &run.hash[..18],
        grouped(run.native_cycles),
        grouped(run.interpreted_cycles)
    )
}

/// A block that left the chain.
#[derive(Debug, Serialize)]
pub(super) struct ReorganisedShape {
    kind: &'static str,
    number: u64,
    hash: String,
}

impl ReorganisedShape {
    pub(super) fn new(block: &BlockShape) -> Self {
        Self { kind: "reorganised", number: block.number, hash: block.hash.clone() }
    }

    pub(super) fn print(&self, is_json: bool) -> Result<(), Failure> {
        print(self, is_json, || {
            format!(
                "block {} {}… is no longer in the chain: what was told of it is void\n",
                self.number,
                &self.hash[..18]
            )
        })
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct SummaryShape {
    kind: &'static str,
    from: u64,
    to: u64,
    blocks: usize,
    transactions: usize,
    /// Transactions whose scripts ran in native code only.
    native_transactions: usize,
    cycles: u64,
    native_cycles: u64,
    interpreted_cycles: u64,
    pub(super) differences: usize,
    /// Reported blocks that left the chain.
    pub(super) reorganised: u64,
    fetch_ms: u64,
    verify_ms: u64,
}

impl SummaryShape {
    pub(super) fn new(from: u64, to: u64) -> Self {
        Self { kind: "summary", from, to, ..Self::default() }
    }

    pub(super) fn add(&mut self, block: &BlockShape) {
        self.blocks += 1;
        self.transactions += block.count;
        self.native_transactions += block.native_transactions;
        self.cycles += block.cycles;
        self.native_cycles += block.native_cycles;
        self.interpreted_cycles += block.interpreted_cycles;
        self.differences += block.differences;
        self.fetch_ms += block.fetch_ms;
        self.verify_ms += block.verify_ms;
    }

    pub(super) fn print(&self, is_json: bool) -> Result<(), Failure> {
        print(self, is_json, || self.to_text())
    }

    fn to_text(&self) -> String {
        let native = share(self.native_cycles, self.native_cycles + self.interpreted_cycles);
        let differences = match self.differences {
            0 => paint("no differences", Mood::Good),
            1 => paint("1 difference", Mood::Bad),
            more => paint(&format!("{more} differences"), Mood::Bad),
        };
        format!(
            "{} blocks, {} transactions, {} of them in native code alone, {} cycles, {native}% native, verified in {} ms: {differences}\n",
            grouped(self.blocks as u64),
            grouped(self.transactions as u64),
            grouped(self.native_transactions as u64),
            grouped(self.cycles),
            grouped(self.verify_ms)
        )
    }
}

/// A word that may have colour, followed by untrusted text, which may not.
fn printable_but(word: &str, rest: &str) -> String {
    format!("{word}{}", printable(rest))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Prints JSON for programs, or text for people.
fn print(shape: &impl Serialize, is_json: bool, text: impl FnOnce() -> String) -> Result<(), Failure> {
    if is_json { json::print(shape) } else { output::print(text().as_bytes()) }
}
