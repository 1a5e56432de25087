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

#[cfg(feature = "server")]
use args::ServerCommand;
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
        Command::Serve(options) => commands::serve::serve(&options).map(done),
        Command::New(args) => commands::new::new(&args).map(done),
        Command::Test(args) => commands::test::test(&args),
        Command::Watch(args) => commands::watch::watch(&args),
        Command::Tx(args) => commands::tx::tx(&args).map(done),
        Command::Run(args) => commands::run::run(args),
        Command::Verify(args) => commands::verify::verify(args),
        #[cfg(feature = "server")]
        Command::Dump(args) => commands::dump::dump(&args).map(done),
        #[cfg(feature = "server")]
        Command::Replay(args) => commands::replay::replay(&args),
        Command::Profile(args) => commands::profile::profile(&args),
        Command::Debugger { args } => Err(external::ckb_debugger(args.into_iter())),
        Command::Debug(_) => Err(external::tool("debug")),
        Command::Insights(args) => commands::profile::insights(&args).map(done),
        Command::Snapshot(args) => commands::snapshot::snapshot(&args),
        Command::Coverage(args) => commands::coverage::coverage(&args),
        Command::Size(args) => commands::size::size(&args).map(done),
        Command::Hash(args) => commands::hash::hash(&args).map(done),
        Command::Compile(args) => commands::compile::compile(&args).map(done),
        Command::Explain(args) => commands::explain::explain(&args).map(done),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Man { folder } => commands::manual::write(&folder).map(done),
        Command::Completions { shell } => args::completions(shell).map(done),
        #[cfg(feature = "server")]
        Command::OfServer(command) => of_server(command),
        Command::CompileBehind { folder } => commands::background_compile::compile(&folder).map(done),
        Command::Fuzz(_) => Err(external::tool("fuzz")),
        Command::Optimise(_) => Err(external::tool("optimise")),
        Command::External(words) => Err(external::unknown(&words)),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}

#[cfg(feature = "server")]
fn of_server(command: ServerCommand) -> Result<ExitCode, Failure> {
    use commands::servers;
    match command {
        ServerCommand::Upload(args) => servers::upload(&args).map(done),
        ServerCommand::Ls(args) => servers::list(&args).map(done),
        ServerCommand::Rm(args) => servers::remove(&args),
        ServerCommand::Pin(args) => servers::pin(&args, true),
        ServerCommand::Unpin(args) => servers::pin(&args, false),
        ServerCommand::Stat(args) => servers::stat(&args),
        ServerCommand::Health(args) => servers::health(&args),
        ServerCommand::Capabilities(args) => servers::capabilities(&args).map(done),
        ServerCommand::Top(args) => servers::top(&args).map(done),
        ServerCommand::Admin(args) => commands::admin::admin(&args).map(done),
        ServerCommand::Warm(args) => commands::warm::warm(&args),
        ServerCommand::Cache(args) => commands::tier::cache(&args),
        ServerCommand::Keys(args) => commands::keys::keys(&args).map(done),
    }
}

/// The status of a command that can only fail as a whole.
fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
