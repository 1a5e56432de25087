//! The words of the command line. `docs/cli.md` is their contract: forms and meanings only grow.

use std::{ffi::OsString, path::PathBuf};

use antares_abi::{CompileOptions, Isa, Tier};
use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    value_parser,
};

#[cfg(feature = "server")]
pub(crate) use crate::args::code::server_of;
pub(crate) use crate::args::{
    cell::CellName,
    code::CodeArgs,
    coverage::CoverageArgs,
    credentials::CredentialArgs,
    debug::DebugArgs,
    diagnosis::DiagnosisArgs,
    doctor::DoctorArgs,
    explain::{ExplainArgs, Shown},
    fuzz::FuzzArgs,
    lock::LockArgs,
    optimise::OptimiseArgs,
    percent::Percent,
    profile::{DiffArgs, InsightsArgs, ProfileArgs, ProfileCommand, TargetArgs},
    size::SizeArgs,
    snapshot::SnapshotArgs,
    verify::{GroupKind, VerifyArgs},
};
#[cfg(feature = "server")]
pub(crate) use crate::args::{
    of_chain::{DumpArgs, ReplayArgs},
    servers::{HealthArgs, KeptArgs, ListArgs, ServerArgs, StatArgs, TopArgs, UploadArgs},
};
use number::number;

use crate::{
    color::ColorChoice, failure::Failure, groups::grouped, limits::DEADLINE_MS_MAX, output, version,
};

mod cell;
pub(crate) mod code;
mod coverage;
pub(crate) mod credentials;
mod debug;
pub(crate) mod diagnosis;
mod doctor;
mod explain;
pub(crate) mod fuzz;
pub(crate) mod lock;
mod number;
#[cfg(feature = "server")]
pub(crate) mod of_chain;
mod optimise;
pub(crate) mod percent;
mod profile;
#[cfg(feature = "server")]
pub(crate) mod servers;
mod size;
mod snapshot;
#[cfg(feature = "server")]
pub(crate) mod verdict;
mod verify;

/// Compile CKB-VM scripts ahead of time and run them behind a fence.
#[derive(Debug, Parser)]
#[command(name = "antares", version, long_version = version::long(), arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Whether reports for people have colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
}

impl Cli {
    /// The words of this process.
    pub(crate) fn of_process() -> Self {
        // The list of commands is for those who have not named one yet.
        let first = std::env::args_os().nth(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-"));
        let is_named = first.is_some_and(|word| word != "help");
        let command = if is_named { Self::command() } else { grouped(Self::command()) };
        let found = command.get_matches();
        // Cannot fail: they were matched with its own words.
        Self::from_arg_matches(&found).unwrap_or_else(|error| error.exit())
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the compiler and the runner over gRPC
    #[cfg(feature = "server")]
    Serve(antares_serve::Options),
    /// Run a script and report how it ended
    ///
    /// Exit status: 0 the script exited 0; 1 it exited otherwise or ended in an error; 2 wrong usage or
    /// unreadable input; 3 Antares failed.
    Run(RunArgs),
    /// Run the scripts of a transaction and report whether they accept it
    ///
    /// Exit status: 0 all scripts accept it; 1 one does not, or a limit was passed; 2 wrong usage, or the
    /// transaction is unreadable, malformed or incomplete; 3 Antares failed.
    Verify(VerifyArgs),
    /// Write a transaction of a CKB node's chain with all that its scripts may look at
    ///
    /// Exit status: 0 it was written; 2 wrong usage, or the node does not know the transaction or a cell of
    /// it; 3 the node cannot be asked, or gives something else than it was asked for.
    #[cfg(feature = "server")]
    Dump(DumpArgs),
    /// Verify all scripts of blocks of a CKB node's chain, and compare cycles and verdicts
    ///
    /// Exit status: 0 all are the node's; 1 one is not; 2 wrong usage; 3 the node cannot be asked, or gives
    /// something else than it was asked for, or Antares failed.
    #[cfg(feature = "server")]
    Replay(ReplayArgs),
    /// Run a script, or the scripts of a transaction, and tell where the cycles went
    ///
    /// Exit status: 0 the profile was made, however the script ended; 1 a diff found more cycles than
    /// allowed; 2 wrong usage or unreadable input; 3 Antares failed.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Profile(ProfileArgs),
    /// Profile a script or a transaction, and tell what could take fewer cycles
    Insights(InsightsArgs),
    /// Debug a script, or a script of a transaction, with gdb: forwards and backwards
    ///
    /// Exit status: 0 gdb was served and has left; 2 wrong usage or unreadable input; 3 Antares failed. With
    /// --gdb: gdb's.
    Debug(DebugArgs),
    /// Do what the program ckb-debugger does: the same options, output and exit statuses
    #[command(disable_help_flag = true)]
    Debugger {
        /// The words of ckb-debugger
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Keep cycles, endings and sizes of a folder of scripts and transactions in a file, and tell what has
    /// changed
    ///
    /// Exit status: 0 the file was written, or nothing has changed; 1 something has; 2 wrong usage or
    /// unreadable input; 3 Antares failed.
    Snapshot(SnapshotArgs),
    /// Run scripts and transactions, and tell which lines, functions and branches of their sources ran
    ///
    /// Exit status: 0 everything was run, however it ended; 1 fewer lines ran than --fail-under asks for;
    /// 2 wrong usage, unreadable input, or no lines; 3 Antares failed.
    Coverage(CoverageArgs),
    /// Run a script or a transaction again and again with other bytes in its fields, and keep what goes wrong
    ///
    /// Exit status: 0 nothing was found; 1 something was; 2 wrong usage or unreadable input, or the
    /// transaction is a finding to begin with; 3 Antares failed.
    Fuzz(FuzzArgs),
    /// Rewrite a script so that it costs fewer cycles, with a proof of each change
    ///
    /// Exit status: 0 the script was written; 2 wrong usage, unreadable input, or no solver; 3 Antares
    /// failed.
    Optimise(OptimiseArgs),
    /// Tell what takes the bytes of a script, and write it in fewer
    Size(SizeArgs),
    /// Compile a script to a shared object
    Compile(CompileArgs),
    /// Show what the compiler makes of a script, stage by stage
    Explain(ExplainArgs),
    /// Tell which layers of the fence this machine can put around workers
    ///
    /// Exit status: 0 all required layers stand; 1 one is missing; 2 the configuration is of no use; 3 a
    /// worker could not be started at all.
    Doctor(DoctorArgs),
    /// Print a shell's completions of this command
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages of all commands
    Man {
        /// Where to
        folder: PathBuf,
    },
    /// Store scripts on a server
    #[cfg(feature = "server")]
    Upload(UploadArgs),
    /// List what a server has run lately, or what it stores
    #[cfg(feature = "server")]
    Ls(ListArgs),
    /// Remove scripts and what was compiled of them from a server's store
    ///
    /// Like pin and unpin: for operators: whoever has the role admin, or opens the server's admin.socket.
    /// Exit status: 0 all were there; 1 one was not; 3 the server cannot be asked, or refuses.
    #[cfg(feature = "server")]
    Rm(KeptArgs),
    /// Keep scripts from eviction from a server's store
    #[cfg(feature = "server")]
    Pin(KeptArgs),
    /// Let pinned scripts go
    #[cfg(feature = "server")]
    Unpin(KeptArgs),
    /// Tell what a server knows of a script
    ///
    /// Exit status: 0 it is stored there; 1 it is not; 3 the server cannot be asked.
    #[cfg(feature = "server")]
    Stat(StatArgs),
    /// Tell whether a server and its services serve
    ///
    /// Exit status: 0 all of them do; 1 one does not; 3 the server cannot be asked.
    #[cfg(feature = "server")]
    Health(HealthArgs),
    /// Tell versions, limits and the fence of a server
    #[cfg(feature = "server")]
    Capabilities(ServerArgs),
    /// Tell which functions cost most on a server
    #[cfg(feature = "server")]
    Top(TopArgs),
    /// End a server, revoke what it signed, change what it logs
    ///
    /// For operators, as rm.
    #[cfg(feature = "server")]
    Admin(crate::admin::AdminArgs),
    /// Have a server compile scripts before somebody needs them
    ///
    /// Exit status: 0 all are compiled; 1 one cannot be, or is not stored there; 2 wrong usage or unreadable
    /// input; 3 the server cannot be asked.
    #[cfg(feature = "server")]
    Warm(crate::warm::WarmArgs),
    /// What tenants used of servers, added up: calls, runs, cycles, compiles, bytes
    #[cfg(feature = "server")]
    Usage(crate::usage::UsageArgs),
    /// Look at the tier that servers share, and clean it
    ///
    /// Exit status: 0 it was done; 1 an entry is not there, or a script cannot be compiled; 2 wrong usage; 3
    /// the tier or the server cannot be asked.
    #[cfg(feature = "server")]
    Cache(crate::bucket::CacheArgs),
    /// Make, list, change and revoke the keys that sign native code
    #[cfg(feature = "server")]
    Keys(crate::keys::KeysArgs),
    /// Check what a server has signed about a transaction
    ///
    /// Exit status: 0 it is as it was signed; 1 it is not; 2 wrong usage or unreadable input.
    #[cfg(feature = "server")]
    Verdict(verdict::VerdictArgs),
    /// Make full code for later runs, as the scripts on standard input say
    #[command(name = code::COMMAND, hide = true)]
    CompileBehind {
        /// Where it is kept
        folder: PathBuf,
    },
}

/// Which script, and how its bytes are to be understood.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    /// The script: a RISC-V RV64 ELF file, or - for standard input
    pub elf: PathBuf,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// How the bytes of a script are to be understood.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MachineArgs {
    /// VM version
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Instruction set [default: what the VM version implies]
    #[arg(long, value_name = "imc[+b][+mop][+a]")]
    pub isa: Option<Isa>,
}

impl MachineArgs {
    /// VM version and ISA, the latter implied by the former where it is not said.
    pub(crate) fn options(&self) -> CompileOptions {
        let isa = self.isa.unwrap_or_else(|| Isa::of_version(self.vm_version));
        CompileOptions { vm_version: self.vm_version, isa }
    }
}

/// Words of `antares run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Cycle limit, syscalls included, such as 70000000 or 70M [default: 3500000000, with --server the
    /// server's]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// End with status 1 if the run takes other than so many cycles
    #[arg(long, value_name = "N", value_parser = number)]
    pub expect_cycles: Option<u64>,
    /// Which tiers may run the script
    #[arg(long, value_parser = tiers(), default_value_t)]
    pub tier: Tier,
    #[command(flatten)]
    pub code: CodeArgs,
    /// Wall time of the run, milliseconds, without the compile [default: 60000, with --server the server's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Run on this server instead of on this machine, for example http://127.0.0.1:50051
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// With --server: have it run again in the interpreter, by another worker, and compared
    #[arg(long)]
    pub recheck: bool,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub diagnosis: DiagnosisArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Arguments of the script, as it sees them
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}

/// Words of `antares compile`.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Where to write the shared object, - for standard output [default: the script's file name with .so]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Reads which tiers may run.
fn tiers() -> impl TypedValueParser<Value = Tier> {
    let names = Tier::ALL.map(|tier| {
        PossibleValue::new(tier.name()).help(match tier {
            Tier::Auto => "Native code where there is some, the interpreter for the rest",
            Tier::Native => "Compile first, and fail if that fails",
            Tier::Interpreter => "The interpreter alone; never compiles",
        })
    });
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Tier>())
}

/// `antares completions`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<std::process::ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "antares", &mut script);
    output::print(&script)?;
    Ok(std::process::ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_sense_together() {
        Cli::command().debug_assert();
    }
}
