//! Arguments of `antares debug`.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use antares_abi::Isa;
use antares_pool::job::{CellName, GroupKind};
use clap::{Args, value_parser};

use super::{
    cell::{KINDS, cell_name},
    choice::one_of,
    lock::LockArgs,
    number::number,
};

/// Arguments of `antares debug`.
#[derive(Debug, Args)]
pub struct DebugArgs {
    /// The script: a RISC-V ELF file, or - for standard input
    #[arg(required_unless_present = "tx", conflicts_with = "tx")]
    pub elf: Option<PathBuf>,
    /// The transaction with its cells, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Run one script group: the lock or the type script of --cell
    #[arg(long, value_parser = one_of(KINDS), value_name = "lock|type", requires_all = ["cell", "tx"], hide_possible_values = true)]
    pub group: Option<GroupKind>,
    /// The cell of --group
    #[arg(long, value_name = "input.N|output.N", value_parser = cell_name, requires = "group")]
    pub cell: Option<CellName>,
    /// Newest active VM version, which runs scripts referenced by type hash [default: 2]
    #[arg(long, value_name = "0|1|2", requires = "tx", value_parser = value_parser!(u32).range(0..=2))]
    pub script_version: Option<u32>,
    /// Apply the rules of the main network in this epoch [default: all hard forks are active]
    #[arg(long, value_name = "N", requires = "tx", conflicts_with = "script_version")]
    pub mainnet_epoch: Option<u64>,
    /// VM version
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Instruction set of the script: what the VM version implies, and no other
    #[arg(long, value_name = "imc[+b][+mop]", hide = true)]
    pub isa: Option<Isa>,
    #[command(flatten)]
    pub lock: LockArgs,
    /// Cycle limit, such as 70000000 or 70M [default: 3500000000; with --server, the server's]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Address for gdb [default: a free port on loopback]
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub listen: SocketAddr,
    /// Write the address to this file when ready
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
    /// Start gdb-multiarch, connected
    #[arg(long, conflicts_with_all = ["listen", "address_file"])]
    pub gdb: bool,
    /// With --gdb: run the commands in this file, then exit
    #[arg(long, value_name = "FILE", requires = "gdb")]
    pub batch: Option<PathBuf>,
    /// Also stop before an exit with a code other than 0
    #[arg(long)]
    pub break_on_error: bool,
    /// Stop once after this many cycles
    #[arg(long, value_name = "N", value_parser = number)]
    pub break_at_cycles: Option<u64>,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
