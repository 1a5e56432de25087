//! Words of `antares fuzz`.

use std::path::PathBuf;

use antares_transaction::FieldName;
use clap::{ArgGroup, Args, ValueEnum};

use super::{CellName, GroupKind, lock::Content, number};

/// Processes at the same time, at most.
const JOBS_MAX: i64 = 256;

/// Words of `antares fuzz`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["elf", "tx"]).required(true))]
pub(crate) struct FuzzArgs {
    /// The script: a RISC-V ELF file. It runs as the lock of the only input of a transaction that is made for
    /// it
    pub elf: Option<PathBuf>,
    /// The transaction, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Arguments of the lock script, to begin with
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub args: Option<Content>,
    /// Witness of the input, to begin with [default: an empty one]
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub witness: Option<Content>,
    /// Data of the cell that is spent, to begin with
    #[arg(long, value_name = "0xHEX|@FILE", conflicts_with = "tx")]
    pub data: Option<Content>,
    /// A field that changes: witness.N, input.N.data, output.N.data, or lock.args or type.args of either;
    /// again for more [default: all witnesses and data; of a script also its arguments]
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<FieldName>,
    /// Run this script of --cell alone
    #[arg(long, requires = "cell")]
    pub group: Option<GroupKind>,
    /// The cell whose --group runs: input.N or output.N
    #[arg(long, value_name = "CELL", requires = "group")]
    pub cell: Option<CellName>,
    /// Errors of the VM and the limit of cycles are no findings
    #[arg(long)]
    pub no_fails: bool,
    /// It is a finding if a script exits with this code; again for more
    #[arg(long = "exit", value_name = "CODE", allow_hyphen_values = true)]
    pub exits: Vec<i8>,
    /// It is a finding if the transaction is accepted
    #[arg(long, conflicts_with = "binding")]
    pub never_accepts: bool,
    /// It is a finding if the transaction is accepted with other bytes in a field than it has to begin with
    #[arg(long)]
    pub binding: bool,
    /// It is a finding if this script, in the place of the first, does not accept what that accepts, or the
    /// other way round
    #[arg(long, value_name = "ELF")]
    pub same_as: Option<PathBuf>,
    /// The folder of corpus and findings; what is there already is where it goes on
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Processes at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub jobs: u16,
    /// Where the drawing of numbers begins: one process with the same seed and folder does the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs after which it ends [default: no limit]
    #[arg(long, value_name = "N", value_parser = number)]
    pub runs: Option<u64>,
    /// Seconds after which it ends [default: no limit]
    #[arg(long, value_name = "S", value_parser = number)]
    pub time: Option<u64>,
    /// Findings after which it ends
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub findings: u32,
    /// Bytes of a field, at most
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub field_bytes: u32,
    /// Cycles of a run, at most [default: 70000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Who runs scripts and counts where they go
    #[arg(long, value_enum, default_value_t = FuzzTier::Native)]
    pub tier: FuzzTier,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Who runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FuzzTier {
    /// Native code that counts
    Native,
    /// ckb-vm's interpreter in Rust, to compare with
    Interpreter,
}
