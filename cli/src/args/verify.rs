//! Arguments of `antares verify`.

use std::path::PathBuf;

use antares_pool::job::{CellName, GroupKind};
use clap::{Args, value_parser};

#[cfg(feature = "server")]
use crate::args::of_chain::OfChainArgs;
use crate::args::{
    cell::{KINDS, cell_name},
    choice::one_of,
    execution::ExecutionArgs,
};

/// Arguments of `antares verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The transaction in ckb-debugger's JSON, with placeholders, or as `tx build` reads it from *.toml; - for
    /// standard input. With --rpc, or a --server that has a node, its cells may be absent
    #[arg(long, value_name = "FILE")]
    #[cfg_attr(feature = "server", arg(required_unless_present = "tx_hash"))]
    #[cfg_attr(not(feature = "server"), arg(required = true))]
    pub tx: Option<PathBuf>,
    #[cfg(feature = "server")]
    #[command(flatten)]
    pub of_chain: OfChainArgs,
    /// Run one script group: the lock or the type script of --cell
    #[arg(long, value_parser = one_of(KINDS), value_name = "lock|type", requires = "cell", hide_possible_values = true)]
    pub group: Option<GroupKind>,
    /// The cell of --group
    #[arg(long, value_name = "input.N|output.N", value_parser = cell_name, requires = "group")]
    pub cell: Option<CellName>,
    /// Newest active VM version, which runs scripts referenced by type hash [default: 2; with --rpc, as the
    /// chain]
    #[arg(long, value_name = "0|1|2", value_parser = value_parser!(u32).range(0..=2))]
    pub script_version: Option<u32>,
    /// Apply the rules of the main network in this epoch [default: all hard forks are active; with --rpc, as
    /// the chain]
    #[arg(long, value_name = "N", conflicts_with = "script_version")]
    pub mainnet_epoch: Option<u64>,
    #[command(flatten)]
    pub how: ExecutionArgs,
}
