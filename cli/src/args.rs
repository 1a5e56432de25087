//! The arguments of the command line. `docs/cli.md` is the contract: options and meanings only grow.

use std::{ffi::OsString, path::PathBuf};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use crate::args::{
    code::CodeArgs,
    credentials::CredentialArgs,
    debug::DebugArgs,
    diagnosis::DiagnosisArgs,
    execution::LimitArgs,
    fuzz::{FuzzArgs, FuzzTier},
    lock::{Content, LockArgs},
    optimise::OptimiseArgs,
    percent::share,
    profile::TargetArgs,
    script::MachineArgs,
};

use crate::{failure::Failure, groups::grouped, output, output::color::ColorChoice, version};

pub(crate) mod cell;
pub(crate) mod choice;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod coverage;
pub(crate) mod credentials;
mod debug;
pub(crate) mod diagnosis;
pub(crate) mod doctor;
pub(crate) mod execution;
pub(crate) mod explain;
mod fuzz;
pub(crate) mod hash;
pub(crate) mod lock;
pub(crate) mod new;
mod number;
#[cfg(feature = "server")]
pub(crate) mod of_chain;
mod optimise;
pub(crate) mod percent;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod script;
#[cfg(feature = "server")]
pub(crate) mod servers;
pub(crate) mod size;
pub(crate) mod snapshot;
pub(crate) mod test;
pub(crate) mod tx;
pub(crate) mod verify;

/// Compile CKB-VM scripts ahead of time and run them in a sandbox.
#[derive(Debug, Parser)]
#[command(name = "antares", version, long_version = version::long(), arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Colour of reports
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
}

impl Cli {
    /// Arguments of this process.
    pub(crate) fn of_process() -> Self {
        // The list of commands helps only users who have not named one.
        let first = std::env::args_os().nth(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-"));
        let is_named = first.is_some_and(|word| word != "help");
        let command = if is_named { Self::command() } else { grouped(Self::command()) };
        let found = command.get_matches();
        // Cannot fail: the command's own definition matched them.
        Self::from_arg_matches(&found).unwrap_or_else(|error| error.exit())
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the compiler and the runner over gRPC
    #[cfg(feature = "server")]
    Serve(antares_serve::Options),
    /// Start a script from a template
    ///
    /// Exit status: 0 written; 2 the folder exists or cannot be written.
    New(new::NewArgs),
    /// Build a folder and run its transactions
    ///
    /// Exit status: 0 all end as expected; 1 one does not, or the build fails; 2 invalid usage, or no
    /// transactions; 3 Antares failed.
    Test(test::TestArgs),
    /// Test a folder, and again after each change what changed
    ///
    /// Runs until interrupted. Exit status: 2 invalid usage, or no transactions; 3 Antares failed.
    Watch(test::TestArgs),
    /// Build transactions for tests
    #[command(subcommand)]
    Tx(tx::TxCommand),
    /// Run a script
    ///
    /// Exit status: 0 the script exited with 0; 1 it did not; 2 invalid usage or input; 3 Antares failed.
    Run(run::RunArgs),
    /// Verify a transaction: run all its scripts
    ///
    /// Exit status: 0 all scripts accept; 1 one does not, or a limit was exceeded; 2 invalid usage or input;
    /// 3 Antares failed.
    Verify(verify::VerifyArgs),
    /// Fetch a transaction and all that its scripts can read from a CKB node
    ///
    /// Exit status: 0 written; 2 invalid usage, or the node does not know the transaction or one of its
    /// cells; 3 the node cannot be reached or returned wrong data.
    #[cfg(feature = "server")]
    Dump(of_chain::DumpArgs),
    /// Verify the blocks of a CKB node's chain, and compare cycles and verdicts
    ///
    /// Exit status: 0 no differences; 1 differences; 2 invalid usage; 3 the node or Antares failed.
    #[cfg(feature = "server")]
    Replay(of_chain::ReplayArgs),
    /// Show where the cycles of a script or a transaction go
    ///
    /// Exit status: 0 profiled, however the script ended; 1 a diff exceeds --fail-over; 2 invalid usage or
    /// input; 3 Antares failed.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Profile(profile::ProfileArgs),
    /// Suggest changes that cost fewer cycles
    Insights(profile::InsightsArgs),
    /// Debug a script or a transaction with gdb, forwards and backwards
    ///
    /// Exit status: 0 gdb disconnected; 2 invalid usage or input; 3 Antares failed. With --gdb, that of gdb.
    Debug(DebugArgs),
    /// Run as the program ckb-debugger: same options, output and exit statuses
    #[command(disable_help_flag = true)]
    Debugger {
        /// Arguments of ckb-debugger
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Record cycles, outcomes and sizes of a folder in a file, and report changes
    ///
    /// Exit status: 0 written, or no changes; 1 changes; 2 invalid usage or input; 3 Antares failed.
    Snapshot(snapshot::SnapshotArgs),
    /// Report the lines, functions and branches that scripts and transactions run
    ///
    /// Exit status: 0 all ran, however they ended; 1 below --fail-under; 2 invalid usage or input, or no
    /// lines; 3 Antares failed.
    Coverage(coverage::CoverageArgs),
    /// Fuzz the fields of a transaction, and keep what violates an invariant
    ///
    /// Exit status: 0 no findings; 1 findings; 2 invalid usage or input, or the initial transaction is a
    /// finding; 3 Antares failed.
    Fuzz(FuzzArgs),
    /// Rewrite a script to cost fewer cycles, checked by an independent comparison
    ///
    /// Exit status: 0 written; 2 invalid usage or input, or no relocations; 3 Antares failed.
    Optimise(OptimiseArgs),
    /// Report what takes the bytes of a script, and shrink it
    Size(size::SizeArgs),
    /// Print a file's data hash of CKB, which is a script's code hash, and its SHA-256
    Hash(hash::HashArgs),
    /// Compile a script to a shared object
    Compile(compile::CompileArgs),
    /// Print a stage of the compiler's output
    Explain(explain::ExplainArgs),
    /// Check which sandbox layers this machine supports
    ///
    /// Exit status: 0 all required layers work; 1 one does not; 2 invalid configuration; 3 no worker starts.
    Doctor(doctor::DoctorArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Where to
        folder: PathBuf,
    },
    #[cfg(feature = "server")]
    #[command(flatten)]
    OfServer(ServerCommand),
    /// A program `antares-NAME`
    #[command(external_subcommand)]
    External(Vec<OsString>),
    /// Make full code for later runs, as the scripts on standard input say
    #[command(name = code::COMMAND, hide = true)]
    CompileBehind {
        /// Where it is kept
        folder: PathBuf,
    },
}

/// What to do with a server, or for one.
#[cfg(feature = "server")]
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Store scripts on a server
    Upload(servers::UploadArgs),
    /// List what a server ran, or what it stores
    Ls(servers::ListArgs),
    /// Remove scripts and their native code from a server
    ///
    /// For operators, as are pin and unpin: the role admin or the server's admin.socket. Exit status: 0 all
    /// were there; 1 one was not; 3 the server failed or refused.
    Rm(servers::StoredArgs),
    /// Protect scripts from eviction
    Pin(servers::StoredArgs),
    /// Remove the protection
    Unpin(servers::StoredArgs),
    /// Show what a server knows of a script
    ///
    /// Exit status: 0 stored; 1 not stored; 3 the server failed.
    Stat(servers::StatArgs),
    /// Show whether the services of a server are serving
    ///
    /// Exit status: 0 all serve; 1 one does not; 3 the server failed.
    Health(servers::HealthArgs),
    /// Show versions, limits and sandbox of a server
    Capabilities(servers::ServerArgs),
    /// Show the functions that cost most on a server
    Top(servers::TopArgs),
    /// Drain a server, revoke signatures, change the log filter
    ///
    /// For operators, as rm.
    #[command(subcommand)]
    Admin(crate::commands::admin::AdminCommand),
    /// Compile scripts on a server before they are needed
    ///
    /// Exit status: 0 all compiled; 1 one did not compile or is not stored; 2 invalid usage or input; 3 the
    /// server failed.
    Warm(crate::commands::warm::WarmArgs),
    /// List, fetch, warm and clean the shared tier
    ///
    /// Exit status: 0 done; 1 an entry is missing, or a script does not compile; 2 invalid usage or input; 3
    /// the server failed.
    Cache(crate::commands::tier::CacheArgs),
    /// Manage the keys that sign native code
    Keys(crate::commands::keys::KeysArgs),
}

/// `antares completions`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "antares", &mut script);
    output::print(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_sense_together() {
        Cli::command().debug_assert();
    }
}
