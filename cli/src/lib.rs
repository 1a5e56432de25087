//! The commands `antares` and `ckb-debugger`: serve, run, verify, profile, compile, explain. Each program has
//! of it what it calls: the second one starts sooner for that.
#![forbid(unsafe_code)]

#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod admin;
mod args;
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
mod debug;
mod debugger;
mod doctor;
#[cfg(feature = "server")]
mod dump;
mod explain;
mod failure;
mod fuzz;
mod groups;
mod head_start;
mod hosted;
mod input;
mod kept;
#[cfg(feature = "server")]
mod keys;
mod limits;
mod loaded;
mod local;
mod manual;
mod meanwhile;
mod native;
#[cfg(feature = "server")]
mod of_chain;
mod optimise;
mod output;
mod own_folder;
mod parsed_transaction;
mod profile;
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
mod sources;
#[cfg(feature = "server")]
mod status;
mod system_calls;
#[cfg(feature = "server")]
mod usage;
mod verdict;
mod verify;
mod verify_request;
mod version;
#[cfg(feature = "server")]
mod warm;
mod why;
mod workers;

use std::process::ExitCode;

use antares_pool::{ProcessKind, settle};

use args::{Cli, Command};
use failure::Failure;

/// `ckb-debugger`, by the words of this process.
#[must_use]
pub fn ckb_debugger() -> ExitCode {
    settle(ProcessKind::Command);
    debugger::debug(std::env::args_os())
}

/// What a process with these words is.
fn kind_of(command: &Command) -> ProcessKind {
    match command {
        #[cfg(feature = "server")]
        Command::Serve(_) => ProcessKind::Service,
        _ => ProcessKind::Command,
    }
}

/// `antares`, by the words of this process; under the name `ckb-debugger` it is that.
#[must_use]
pub fn antares() -> ExitCode {
    if antares_debugger::is_named(std::env::args_os().next()) {
        return ckb_debugger();
    }
    let Cli { command, color } = Cli::of_process();
    color::choose(color);
    settle(kind_of(&command));
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
        Command::Debugger { args } => {
            return debugger::debug([antares_debugger::NAME.into()].into_iter().chain(args));
        }
        Command::Debug(args) => debug::debug(&args),
        Command::Insights(args) => profile::insights(&args),
        Command::Snapshot(args) => snapshot::snapshot(&args),
        Command::Coverage(args) => coverage::coverage(&args),
        Command::Fuzz(args) => fuzz::fuzz(&args),
        Command::Optimise(args) => optimise::optimise(&args),
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
        Command::Usage(args) => usage::usage(&args),
        #[cfg(feature = "server")]
        Command::Cache(args) => bucket::cache(&args),
        #[cfg(feature = "server")]
        Command::Keys(args) => keys::keys(&args),
        #[cfg(feature = "server")]
        Command::CompileBehind { folder } => behind::compile(&folder),
    };
    outcome.unwrap_or_else(|failure: Failure| {
        eprintln!("antares: {}", output::printable(&failure.to_string()));
        failure.exit_status()
    })
}
