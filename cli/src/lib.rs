//! The command `antares`, and what the programs of `tools/` have in common with it: arguments, input, output,
//! and the engine on this machine. Each program links what it calls.
#![forbid(unsafe_code)]

#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod admin;
pub mod args;
mod as_lock;
#[cfg(feature = "server")]
mod asked;
mod behind;
mod beside;
#[cfg(feature = "server")]
mod bucket;
mod color;
mod compile;
#[cfg(feature = "server")]
mod convert;
mod coverage;
#[cfg(feature = "server")]
mod credentials;
mod doctor;
#[cfg(feature = "server")]
mod dump;
mod explain;
mod external;
pub mod failure;
mod groups;
mod head_start;
pub mod input;
mod kept;
#[cfg(feature = "server")]
mod keys;
pub mod limits;
mod loaded;
pub mod local;
mod manual;
mod meanwhile;
pub mod native;
#[cfg(feature = "server")]
mod of_chain;
pub mod output;
mod own_folder;
pub mod parsed_transaction;
pub mod profile;
mod progress;
#[cfg(all(test, feature = "server"))]
mod reference;
#[cfg(feature = "server")]
mod remote;
#[cfg(feature = "server")]
mod replay;
mod report;
mod run;
mod run_request;
mod runnable;
#[cfg(feature = "server")]
mod seen;
#[cfg(feature = "server")]
mod serve;
mod shapes;
#[cfg(feature = "server")]
mod shapes_of_servers;
mod size;
mod snapshot;
mod source_maps;
#[cfg(feature = "server")]
mod status;
mod system_calls;
pub mod tool;
pub mod verdict;
pub mod verify;
pub mod verify_request;
mod version;
#[cfg(feature = "server")]
mod warm;
pub mod why;
pub mod workers;

use std::process::ExitCode;

use antares_pool::{ProcessKind, settle};

use args::{Cli, Command};
use failure::Failure;

/// What a process with these words is; none for what becomes another program, which inherits what is open.
fn kind_of(command: &Command) -> Option<ProcessKind> {
    match command {
        #[cfg(feature = "server")]
        Command::Serve(_) => Some(ProcessKind::Service),
        Command::Debug(_)
        | Command::Debugger { .. }
        | Command::Fuzz(_)
        | Command::Optimise(_)
        | Command::External(_) => None,
        _ => Some(ProcessKind::Command),
    }
}

/// `antares`, by the words of this process; under the name `ckb-debugger` it is that.
#[must_use]
pub fn antares() -> ExitCode {
    if external::is_ckb_debugger() {
        return external::ckb_debugger(std::env::args_os().skip(1)).report();
    }
    let Cli { command, color } = Cli::of_process();
    color::choose(color);
    if let Some(kind) = kind_of(&command) {
        settle(kind);
    }
    let outcome = match command {
        #[cfg(feature = "server")]
        Command::Serve(options) => serve::serve(&options),
        Command::Run(args) => run::run(args),
        Command::Verify(args) => verify::verify(args),
        #[cfg(feature = "server")]
        Command::Dump(args) => dump::dump(&args),
        #[cfg(feature = "server")]
        Command::Replay(args) => replay::replay(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Debugger { args } => Err(external::ckb_debugger(args.into_iter())),
        Command::Debug(_) => Err(external::tool("debug")),
        Command::Insights(args) => profile::insights(&args),
        Command::Snapshot(args) => snapshot::snapshot(&args),
        Command::Coverage(args) => coverage::coverage(&args),
        Command::Size(args) => size::size(&args),
        Command::Compile(args) => compile::compile(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Man { folder } => manual::write(&folder),
        Command::Completions { shell } => args::completions(shell),
        #[cfg(feature = "server")]
        Command::Upload(args) => asked::upload(&args),
        #[cfg(feature = "server")]
        Command::Ls(args) => asked::list(&args),
        #[cfg(feature = "server")]
        Command::Rm(args) => asked::remove(&args),
        #[cfg(feature = "server")]
        Command::Pin(args) => asked::pin(&args, true),
        #[cfg(feature = "server")]
        Command::Unpin(args) => asked::pin(&args, false),
        #[cfg(feature = "server")]
        Command::Stat(args) => asked::stat(&args),
        #[cfg(feature = "server")]
        Command::Health(args) => asked::health(&args),
        #[cfg(feature = "server")]
        Command::Capabilities(args) => asked::capabilities(&args),
        #[cfg(feature = "server")]
        Command::Top(args) => asked::top(&args),
        #[cfg(feature = "server")]
        Command::Admin(args) => admin::admin(&args),
        #[cfg(feature = "server")]
        Command::Warm(args) => warm::warm(&args),
        #[cfg(feature = "server")]
        #[cfg(feature = "server")]
        Command::Cache(args) => bucket::cache(&args),
        #[cfg(feature = "server")]
        Command::Keys(args) => keys::keys(&args),
        #[cfg(feature = "server")]
        Command::CompileBehind { folder } => behind::compile(&folder),
        Command::Fuzz(_) => Err(external::tool("fuzz")),
        Command::Optimise(_) => Err(external::tool("optimise")),
        Command::External(words) => Err(external::unknown(&words)),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}
