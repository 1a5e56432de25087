//! The words of the command line. `docs/cli.md` is their contract: forms and meanings only grow.

use std::{ffi::OsString, path::PathBuf};

use antares_abi::{CompileOptions, Isa, Tier};
use antares_profile_view::Format;
use clap::{
    Args, CommandFactory as _, Parser, Subcommand, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    value_parser,
};

#[cfg(feature = "server")]
pub(crate) use crate::args::servers::{KeptArgs, ListArgs, ServerArgs, StatArgs, TopArgs, UploadArgs};
pub(crate) use crate::args::{
    credentials::CredentialArgs,
    explain::{ExplainArgs, Shown},
};
use crate::{
    behind, failure::Failure, limits::DEADLINE_MS_MAX, output, profile::Percent, verify::CellName, version,
};

mod credentials;
mod explain;
#[cfg(feature = "server")]
mod servers;

/// Compile CKB-VM scripts ahead of time and run them behind a fence.
#[derive(Debug, Parser)]
#[command(name = "antares", version, long_version = version::long(), arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the compiler and the runner over gRPC
    #[cfg(feature = "server")]
    Serve(antares_serve::Options),
    /// Run a script and report how it ended
    ///
    /// Exit status: 0 the script exited 0; 1 it exited otherwise or ended in an error; 2 wrong usage or unreadable
    /// input; 3 Antares failed.
    Run(RunArgs),
    /// Run the scripts of a transaction and report whether they accept it
    ///
    /// Exit status: 0 all scripts accept it; 1 one does not, or a limit was passed; 2 wrong usage, or the transaction is
    /// unreadable, malformed or incomplete; 3 Antares failed.
    Verify(VerifyArgs),
    /// Run a script, or the scripts of a transaction, and tell where the cycles went
    ///
    /// Exit status: 0 the profile was made, however the script ended; 1 a diff found more cycles than allowed; 2 wrong
    /// usage or unreadable input; 3 Antares failed.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Profile(ProfileArgs),
    /// Profile a script or a transaction, and tell what could take fewer cycles
    Insights(InsightsArgs),
    /// Compile a script to a shared object
    Compile(CompileArgs),
    /// Show what the compiler makes of a script, stage by stage
    Explain(ExplainArgs),
    /// Tell which layers of the fence this machine can put around workers
    ///
    /// Exit status: 0 all required layers stand; 1 one is missing; 2 the configuration is of no use; 3 a worker could not be
    /// started at all.
    Doctor(DoctorArgs),
    /// Print a shell's completions of this command
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Store scripts on a server
    #[cfg(feature = "server")]
    Upload(UploadArgs),
    /// List what a server has run lately, or what it stores
    #[cfg(feature = "server")]
    Ls(ListArgs),
    /// Remove scripts and what was compiled of them from a server's store
    ///
    /// Like pin and unpin: for operators: whoever has the role admin; without authentication, on the server's loopback network.
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
    Health(ServerArgs),
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
    /// Exit status: 0 all are compiled; 1 one cannot be, or is not stored there; 2 wrong usage or unreadable input; 3 the server
    /// cannot be asked.
    #[cfg(feature = "server")]
    Warm(crate::warm::WarmArgs),
    /// Look at the tier that servers share, and clean it
    ///
    /// Exit status: 0 it was done; 1 an entry is not there, or a script cannot be compiled; 2 wrong usage; 3 the tier or the
    /// server cannot be asked.
    #[cfg(feature = "server")]
    Cache(crate::bucket::CacheArgs),
    /// Make, list, change and revoke the keys that sign native code
    #[cfg(feature = "server")]
    Keys(crate::keys::KeysArgs),
    /// Make full code for later runs, as the scripts on standard input say
    #[command(name = behind::COMMAND, hide = true)]
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

/// Where native code comes from, without a server.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CodeArgs {
    /// Without --server: wait for the full compile instead of running the baseline's code meanwhile
    #[arg(long, conflicts_with = "server")]
    pub full: bool,
    /// Without --server: keep no native code on this machine, and look for none
    #[arg(long, conflicts_with = "server")]
    pub no_cache: bool,
}

/// Words of `antares run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Cycle limit, syscalls included, such as 70000000 or 70M [default: 3500000000, with --server the server's]
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
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Arguments of the script, as it sees them
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}

/// Words of `antares verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The transaction with the cells it uses: ckb-debugger's JSON, with its templates if it is a file; - for standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub tx: PathBuf,
    /// Run one script group alone: the lock or the type script of the cell that --cell names
    #[arg(long, value_enum, value_name = "lock|type", requires = "cell", hide_possible_values = true)]
    pub group: Option<GroupKind>,
    /// A cell of the group to run alone
    #[arg(long, value_name = "input.N|output.N", requires = "group")]
    pub cell: Option<CellName>,
    /// Newest VM version that is active: the one of scripts that are named by type hash [default: 2]
    #[arg(long, value_name = "0|1|2", value_parser = value_parser!(u32).range(0..=2))]
    pub script_version: Option<u32>,
    /// Judge by the rules of the main network in this epoch [default: all hard forks are active]
    #[arg(long, value_name = "N", conflicts_with = "script_version")]
    pub mainnet_epoch: Option<u64>,
    /// Cycle limit of all groups together [default: 3500000000, with --server the server's]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Which tiers may run the scripts
    #[arg(long, value_parser = tiers(), default_value_t)]
    pub tier: Tier,
    #[command(flatten)]
    pub code: CodeArgs,
    /// Wall time of the verification, milliseconds, without compiles [default: 60000, with --server the server's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Verify on this server instead of on this machine, for example http://127.0.0.1:50051
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// With --server: have it run again in the interpreter, by another worker, and compared
    #[arg(long)]
    pub recheck: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Which script of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupKind {
    /// The lock script
    Lock,
    /// The type script
    Type,
}

/// Words of `antares profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Something else than making a profile.
    #[command(subcommand)]
    pub command: Option<ProfileCommand>,
    /// What to profile.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Count every instruction [the default, and so far the only way]
    #[arg(long)]
    pub exact: bool,
    /// Also write the profile in this format: antares, pprof, folded, speedscope, callgrind, lcov, otlp, llvm-sample, html
    /// [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Where to write it, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With the format html: show the differences from this profile, a file in the format antares
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// Words of `antares insights`.
#[derive(Debug, Args)]
pub(crate) struct InsightsArgs {
    /// What to look at.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Findings, at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// What to profile: a script, or a transaction.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The script: a RISC-V RV64 ELF file, - for standard input, or a profile in the format antares; with --server also its
    /// SHA-256
    #[arg(required_unless_present_any = ["tx", "server"], conflicts_with = "tx")]
    pub elf: Option<PathBuf>,
    /// The transaction with the cells it uses, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Run nothing: take what this server has seen of all runs, of the script or of everything
    #[arg(long, value_name = "URL", conflicts_with_all = ["tx", "max_cycles", "deadline_ms", "isa", "args"])]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// With --server: how far back, milliseconds [default: all that it keeps]
    #[arg(long, value_name = "N", requires = "server")]
    pub window_ms: Option<u64>,
    /// VM version of the script
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Instruction set of the script [default: what the VM version implies]
    #[arg(long, value_name = "imc[+b][+mop][+a]")]
    pub isa: Option<Isa>,
    /// Cycle limit [default: 3500000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time, milliseconds [default: 60000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Arguments of the script, as it sees them
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}

/// Words behind `antares profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compare two profiles, or the profiles of two scripts, function by function, in Markdown
    Diff(DiffArgs),
}

/// Words of `antares profile diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Before: a profile in the format antares, or a script, which is profiled
    pub before: PathBuf,
    /// After: the same
    pub after: PathBuf,
    /// End with status 1 if there are more cycles than before, by more than this share
    #[arg(long, value_name = "PERCENT")]
    pub fail_over: Option<Percent>,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// VM version of scripts
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Arguments of scripts, as they see them
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

/// Words of `antares doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The configuration of the services: what it asks for is tried (without one: what they ask for by default)
    #[cfg(feature = "server")]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
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

/// A number, perhaps of thousands (k), millions (M) or milliards (G).
fn number(text: &str) -> Result<u64, String> {
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.into_iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, times)));
    let (digits, times) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().map_err(|error| error.to_string())?;
    number.checked_mul(times).ok_or_else(|| "number too large to fit in target type".to_owned())
}

/// The server that is named by the option, or else by `ANTARES_SERVER`; an empty name is none.
pub(crate) fn server_of(option: Option<&str>) -> Option<String> {
    let named = option.map(str::to_owned).or_else(|| std::env::var("ANTARES_SERVER").ok());
    named.filter(|name| !name.is_empty())
}

impl CodeArgs {
    /// The server of a command with these options, which are about this machine alone.
    pub(crate) fn server(self, option: Option<&str>) -> Option<String> {
        if self.full || self.no_cache { None } else { server_of(option) }
    }
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
    fn numbers_have_units() {
        for (text, expected) in
            [("7", 7), ("70M", 70_000_000), ("3k", 3_000), ("2G", 2_000_000_000), ("0", 0)]
        {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "7 M", "7MB", "7m", "99999999999G", "18446744073709551616"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_make_sense_together() {
        Cli::command().debug_assert();
    }
}
