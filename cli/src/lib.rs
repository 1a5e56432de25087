//! The command `antares`, and the code that the programs of `tools/` share with it: arguments, input, output,
//! and the engine on this machine. Each program links only what it calls.

pub mod args;
pub mod commands;
mod draft;
mod external;
pub mod failure;
mod groups;
pub mod input;
pub mod limits;
pub mod local;
pub mod output;
#[cfg(all(test, feature = "server"))]
mod reference;
mod remote;
pub mod tool;
mod version;

use std::process::ExitCode;

use antares_pool::{ProcessKind, settle};

use args::{Cli, Command};
use failure::Failure;

/// The kind of a process with this command; none if it becomes another program, which inherits open files.
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

/// Runs `antares` with this process's arguments, or `ckb-debugger` if started under that name.
#[must_use]
pub fn antares() -> ExitCode {
    if external::is_ckb_debugger() {
        return external::ckb_debugger(std::env::args_os().skip(1)).report();
    }
    let Cli { command, color } = Cli::of_process();
    output::color::choose(color);
    if let Some(kind) = kind_of(&command) {
        settle(kind);
    }
    let outcome = match command {
        #[cfg(feature = "server")]
        Command::Serve(options) => commands::serve::serve(&options),
        Command::New(args) => commands::new::new(&args),
        Command::Test(args) => commands::test::test(&args),
        Command::Watch(args) => commands::watch::watch(&args),
        Command::Tx(args) => commands::tx::tx(&args),
        Command::Run(args) => commands::run::run(args),
        Command::Verify(args) => commands::verify::verify(args),
        #[cfg(feature = "server")]
        Command::Dump(args) => commands::dump::dump(&args),
        #[cfg(feature = "server")]
        Command::Replay(args) => commands::replay::replay(&args),
        Command::Profile(args) => commands::profile::profile(&args),
        Command::Debugger { args } => Err(external::ckb_debugger(args.into_iter())),
        Command::Debug(_) => Err(external::tool("debug")),
        Command::Insights(args) => commands::profile::insights(&args),
        Command::Snapshot(args) => commands::snapshot::snapshot(&args),
        Command::Coverage(args) => commands::coverage::coverage(&args),
        Command::Size(args) => commands::size::size(&args),
        Command::Hash(args) => commands::hash::hash(&args),
        Command::Compile(args) => commands::compile::compile(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Man { folder } => commands::manual::write(&folder),
        Command::Completions { shell } => args::completions(shell),
        #[cfg(feature = "server")]
        Command::Upload(args) => commands::servers::upload(&args),
        #[cfg(feature = "server")]
        Command::Ls(args) => commands::servers::list(&args),
        #[cfg(feature = "server")]
        Command::Rm(args) => commands::servers::remove(&args),
        #[cfg(feature = "server")]
        Command::Pin(args) => commands::servers::pin(&args, true),
        #[cfg(feature = "server")]
        Command::Unpin(args) => commands::servers::pin(&args, false),
        #[cfg(feature = "server")]
        Command::Stat(args) => commands::servers::stat(&args),
        #[cfg(feature = "server")]
        Command::Health(args) => commands::servers::health(&args),
        #[cfg(feature = "server")]
        Command::Capabilities(args) => commands::servers::capabilities(&args),
        #[cfg(feature = "server")]
        Command::Top(args) => commands::servers::top(&args),
        #[cfg(feature = "server")]
        Command::Admin(args) => commands::admin::admin(&args),
        #[cfg(feature = "server")]
        Command::Warm(args) => commands::warm::warm(&args),
        #[cfg(feature = "server")]
        Command::Cache(args) => commands::tier::cache(&args),
        #[cfg(feature = "server")]
        Command::Keys(args) => commands::keys::keys(&args),
        Command::CompileBehind { folder } => commands::background_compile::compile(&folder),
        Command::Fuzz(_) => Err(external::tool("fuzz")),
        Command::Optimise(_) => Err(external::tool("optimise")),
        Command::External(words) => Err(external::unknown(&words)),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}
