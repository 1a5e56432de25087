//! Words about a CKB node and what is in its chain.

use std::{fmt, path::PathBuf, str::FromStr};

use antares_abi::Tier;
use ckb_types::H256;
use clap::{Args, value_parser};

use super::{number, tiers};
use crate::{args::CodeArgs, limits::DEADLINE_MS_MAX};

/// A transaction of a node's chain, or one that uses its cells.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfChainArgs {
    /// A transaction of the chain that --rpc names, by its hash
    #[arg(long, value_name = "0xHASH", conflicts_with = "tx", requires = "rpc")]
    pub tx_hash: Option<TxHash>,
    /// Get the transaction, its cells and headers from this CKB node, for example http://127.0.0.1:8114
    #[arg(long, value_name = "URL")]
    pub rpc: Option<String>,
    /// With --rpc: keep what the node has given in this folder, for the next time
    #[arg(long, value_name = "DIR", requires = "rpc")]
    pub rpc_cache: Option<PathBuf>,
}

/// Which node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// The CKB node's JSON-RPC, for example http://127.0.0.1:8114
    #[arg(long, value_name = "URL")]
    pub rpc: String,
    /// Keep what the node has given in this folder, for the next time
    #[arg(long, value_name = "DIR")]
    pub rpc_cache: Option<PathBuf>,
}

/// Words of `antares dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// A transaction of the node's chain, by its hash
    #[arg(long, value_name = "0xHASH", required_unless_present = "tx", conflicts_with = "tx")]
    pub tx_hash: Option<TxHash>,
    /// A transaction without its cells, as nodes and wallets write it: JSON, or molecule in hexadecimal
    /// digits; - for standard input
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Where to write it, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Words of `antares replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The first block, by number
    #[arg(long, value_name = "N")]
    pub from: u64,
    /// The last block [default: the node's last]
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Which tiers may run the scripts
    #[arg(long, value_parser = tiers(), default_value_t)]
    pub tier: Tier,
    /// Wait for the full compile instead of running the baseline's code meanwhile
    #[arg(long)]
    pub full: bool,
    /// Keep no native code on this machine, and look for none
    #[arg(long)]
    pub no_cache: bool,
    /// Cycle limit of each transaction [default: 3500000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time of each transaction, milliseconds, without compiles [default: 60000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Print one JSON object for each block, on a line, and one for the whole
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// Where native code comes from.
    pub(crate) fn code(&self) -> CodeArgs {
        CodeArgs { full: self.full, no_cache: self.no_cache }
    }
}

/// Hash of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TxHash(pub(crate) H256);

/// What is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoHash;

impl fmt::Display for NoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be 0x and 64 hexadecimal digits")
    }
}

impl std::error::Error for NoHash {}

impl FromStr for TxHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64).ok_or(NoHash)?;
        digits.parse().map(Self).map_err(|_| NoHash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_whole() {
        let text = format!("0x{}", "0a".repeat(32));
        assert_eq!(text.parse(), Ok(TxHash(H256([10; 32]))));
        for wrong in ["", "0x", "0x00", &text[2..], &text.replace("0a", "0g"), &format!("{text}00")] {
            assert_eq!(wrong.parse::<TxHash>(), Err(NoHash), "{wrong}");
        }
    }
}
