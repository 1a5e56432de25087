//! Arguments about a CKB node and its chain.

use std::path::PathBuf;

use antares_abi::Tier;
use antares_node::BareFormat;
use ckb_types::H256;
use clap::Args;

use crate::args::{
    choice::{Choice, one_of},
    code::CodeArgs,
    execution::{LimitArgs, TIERS},
};

/// A transaction of a node's chain, or one that uses its cells.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfChainArgs {
    /// Hash of a transaction of the node's chain
    #[arg(long, value_name = "0xHASH", value_parser = tx_hash, conflicts_with = "tx", requires = "rpc")]
    pub tx_hash: Option<H256>,
    /// JSON-RPC of a CKB node, such as http://127.0.0.1:8114
    #[arg(long, value_name = "URL")]
    pub rpc: Option<String>,
    /// Keep the node's answers in this folder
    #[arg(long, value_name = "DIR", requires = "rpc")]
    pub rpc_cache: Option<PathBuf>,
    /// Who wrote the JSON of a transaction without its cells: a node or ckb-cli, CCC, or Lumos [default: node]
    #[arg(long, value_parser = one_of(FORMATS), value_name = "node|ccc|lumos", requires = "tx", hide_possible_values = true)]
    pub format: Option<BareFormat>,
}

/// Who wrote the JSON of a transaction without its cells.
const FORMATS: [Choice<BareFormat>; 3] = [
    ("node", BareFormat::Node, "A node, or ckb-cli"),
    ("ccc", BareFormat::Ccc, "`ccc.stringify`"),
    ("lumos", BareFormat::Lumos, "A transaction or a skeleton of Lumos"),
];

/// Which node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// JSON-RPC of a CKB node, such as http://127.0.0.1:8114
    #[arg(long, value_name = "URL")]
    pub rpc: String,
    /// Keep the node's answers in this folder
    #[arg(long, value_name = "DIR")]
    pub rpc_cache: Option<PathBuf>,
}

/// Arguments of `antares dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Hash of a transaction of the node's chain
    #[arg(long, value_name = "0xHASH", value_parser = tx_hash, required_unless_present = "tx", conflicts_with = "tx")]
    pub tx_hash: Option<H256>,
    /// A transaction without its cells: JSON, or molecule in hexadecimal digits; - for standard input
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Who wrote the JSON of a transaction without its cells: a node or ckb-cli, CCC, or Lumos [default: node]
    #[arg(long, value_parser = one_of(FORMATS), value_name = "node|ccc|lumos", requires = "tx", hide_possible_values = true)]
    pub format: Option<BareFormat>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Output file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `antares replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// First block
    #[arg(long, value_name = "N")]
    pub from: u64,
    /// Last block [default: the node's last]
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Tiers that may run the script
    #[arg(long, value_parser = one_of(TIERS), default_value_t)]
    pub tier: Tier,
    /// Wait for the full compile
    #[arg(long)]
    pub full: bool,
    /// Disable the local cache of native code
    #[arg(long)]
    pub no_cache: bool,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// Where native code comes from.
    pub(crate) fn code(&self) -> CodeArgs {
        CodeArgs { full: self.full, no_cache: self.no_cache }
    }
}

fn tx_hash(text: &str) -> Result<H256, &'static str> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64);
    digits.and_then(|digits| digits.parse().ok()).ok_or("must be 0x and 64 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_whole() {
        let text = format!("0x{}", "0a".repeat(32));
        assert_eq!(tx_hash(&text), Ok(H256([10; 32])));
        for wrong in ["", "0x", "0x00", &text[2..], &text.replace("0a", "0g"), &format!("{text}00")] {
            assert!(tx_hash(wrong).is_err(), "{wrong}");
        }
    }
}
