//! Arguments of `antares fuzz`.

use std::path::PathBuf;

use antares_pool::job::{CellName, GroupKind};
use antares_transaction::FieldName;
use clap::{ArgGroup, Args, ValueEnum};

use super::{
    cell::{KINDS, cell_name},
    choice::one_of,
    lock::Content,
    number::number,
};

/// Maximum number of concurrent processes.
const JOBS_MAX: i64 = 256;

/// Arguments of `antares fuzz`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["elf", "tx"]).required(true))]
pub struct FuzzArgs {
    /// The script: a RISC-V ELF file. It runs as the lock of a generated transaction
    pub elf: Option<PathBuf>,
    /// The transaction with its cells, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Initial arguments of the lock script
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub args: Option<Content>,
    /// Initial witness of the input [default: an empty one]
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub witness: Option<Content>,
    /// Initial data of the spent cell
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub data: Option<Content>,
    /// A field to change: witness.N, input.N.data, output.N.data, lock.args or type.args of either;
    /// repeatable [default: witnesses and data; of a script also its arguments]
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<FieldName>,
    /// Run one script group: the lock or the type script of --cell
    #[arg(long, value_parser = one_of(KINDS), value_name = "lock|type", requires = "cell", hide_possible_values = true)]
    pub group: Option<GroupKind>,
    /// The cell of --group
    #[arg(long, value_name = "input.N|output.N", value_parser = cell_name, requires = "group")]
    pub cell: Option<CellName>,
    /// VM errors and exceeded cycle limits are no findings
    #[arg(long)]
    pub no_fails: bool,
    /// This exit code is a finding; repeatable
    #[arg(long = "exit", value_name = "CODE", allow_hyphen_values = true)]
    pub exits: Vec<i8>,
    /// An accepted transaction is a finding
    #[arg(long, conflicts_with = "binding")]
    pub never_accepts: bool,
    /// An accepted change of a field is a finding
    #[arg(long)]
    pub binding: bool,
    /// A verdict that differs from this script's is a finding
    #[arg(long, value_name = "ELF")]
    pub same_as: Option<PathBuf>,
    /// Folder of corpus and findings; an existing one is continued
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Parallel processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub jobs: u16,
    /// Random seed; one process with the same seed and folder repeats a campaign
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Stop after this many runs [default: no limit]
    #[arg(long, value_name = "N", value_parser = number)]
    pub runs: Option<u64>,
    /// Stop after this many seconds [default: no limit]
    #[arg(long, value_name = "S", value_parser = number)]
    pub time: Option<u64>,
    /// Stop after this many findings
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub findings: u32,
    /// Largest field, bytes
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub field_bytes: u32,
    /// Cycle limit of a run [default: 70000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Tier that runs scripts and counts coverage
    #[arg(long, value_enum, default_value_t = FuzzTier::Native)]
    pub tier: FuzzTier,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Who runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FuzzTier {
    /// Native code that counts
    Native,
    /// ckb-vm's interpreter in Rust, to compare with
    Interpreter,
}
