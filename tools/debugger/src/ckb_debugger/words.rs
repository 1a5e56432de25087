//! The command line of `ckb-debugger`: the options of version 1.1.1, and additional ones.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, ValueEnum};

/// The compatible version of the options, output and statuses.
pub(crate) const VERSION: &str = "1.1.1";

/// Run a script as the program ckb-debugger 1.1.1 does, on Antares
#[derive(Debug, Parser)]
#[command(name = "ckb-debugger", version = VERSION)]
#[expect(clippy::struct_excessive_bools, reason = "they are the switches of a command line")]
pub(crate) struct Words {
    /// Arguments of the script
    #[arg(value_name = "args")]
    pub args: Vec<OsString>,
    /// File used to replace the binary denoted in the script
    #[arg(long)]
    pub bin: Option<PathBuf>,
    /// Index of cell to run
    #[arg(short = 'i', long)]
    pub cell_index: Option<String>,
    /// Type of cell to run
    #[arg(short = 't', long)]
    pub cell_type: Option<CellType>,
    /// Save coverage info in lcov format to file
    #[arg(long)]
    pub coverage_output: Option<PathBuf>,
    /// Dump file name
    #[arg(long)]
    pub dump_file: Option<PathBuf>,
    /// Set to true to enable coverage info
    #[arg(long)]
    pub enable_coverage: bool,
    /// Set to true to enable flamegraph
    #[arg(long)]
    pub enable_flamegraph: bool,
    /// Set to true to enable overlapping detection between stack and heap
    #[arg(long)]
    pub enable_overlapping_detection: bool,
    /// Set to true to enable step mode, where we print PC address for each instruction
    #[arg(long)]
    pub enable_steplog: bool,
    /// Performance profiling, specify output file for further use
    #[arg(long)]
    pub flamegraph_output: Option<PathBuf>,
    /// Address to listen for GDB remote debugging server
    #[arg(long, default_value = "127.0.0.1:9999")]
    pub gdb_listen: String,
    /// Max cycles
    #[arg(long, default_value = "3500000000")]
    pub max_cycles: String,
    /// Execution mode of debugger
    #[arg(long, default_value = "fast")]
    pub mode: Mode,
    /// Set to true to prompt for stdin input before executing
    #[arg(long)]
    pub prompt: bool,
    /// Read content from local file or stdin. Then feed the content to syscall in scripts
    #[arg(long)]
    pub read_file: Option<PathBuf>,
    /// A convenience method for setting cell-type, cell-index and script-group-type at the same time
    #[arg(long, default_value = "input.0.lock")]
    pub script: String,
    /// Script group type
    #[arg(short = 's', long)]
    pub script_group_type: Option<GroupType>,
    /// Script hash
    #[arg(long)]
    pub script_hash: Option<String>,
    /// Script version
    #[arg(long, default_value = "2")]
    pub script_version: String,
    /// Save step log to file
    #[arg(long, default_value = "ckb-debugger.steplog")]
    pub steplog_output: PathBuf,
    /// Filename containing JSON formatted transaction dump
    #[arg(short = 'f', long)]
    pub tx_file: Option<PathBuf>,
    /// VM ID
    #[arg(long, default_value = "0")]
    pub vm_id: String,
    /// Antares: a folder whose files the script may open, and write unless they are hidden; in the folders of
    /// files that are named here it may only read; may be given more than once
    #[arg(long, value_name = "FOLDER")]
    pub allow_path: Vec<PathBuf>,
}

/// The list of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CellType {
    Input,
    Output,
}

/// The kind of a cell's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupType {
    Lock,
    Type,
}

/// The execution mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    DecodeInstruction,
    Fast,
    Full,
    Gdb,
    InstructionDecode,
    Probe,
}

impl Words {
    /// The VM to observe, if it is a number.
    pub(crate) fn vm(&self) -> Option<u64> {
        self.vm_id.parse().ok()
    }

    /// The mode, which also depends on the enabled features.
    pub(crate) fn mode(&self) -> Mode {
        let is_watched = self.enable_coverage
            || self.enable_flamegraph
            || self.enable_overlapping_detection
            || self.enable_steplog;
        if is_watched { Mode::Full } else { self.mode }
    }
}
