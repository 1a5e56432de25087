//! The command `antares`: serve, run, verify, profile, compile, explain.
#![forbid(unsafe_code)]

#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod admin;
mod args;
#[cfg(feature = "server")]
mod asked;
mod behind;
mod beside;
#[cfg(feature = "server")]
mod bucket;
mod compile;
#[cfg(feature = "server")]
mod convert;
#[cfg(feature = "server")]
mod credentials;
mod doctor;
mod explain;
mod failure;
mod input;
mod kept;
#[cfg(feature = "server")]
mod keys;
mod limits;
mod local;
mod meanwhile;
mod native;
mod output;
mod own_folder;
mod profile;
mod progress;
#[cfg(feature = "server")]
mod remote;
mod report;
mod run;
#[cfg(feature = "server")]
mod seen;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod status;
mod verdict;
mod verify;
mod version;
#[cfg(feature = "server")]
mod warm;

use std::process::ExitCode;

use antares_pool::{ProcessKind, settle};
use clap::Parser as _;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    #[cfg(feature = "server")]
    let is_service = matches!(command, Command::Serve(_));
    #[cfg(not(feature = "server"))]
    let is_service = false;
    settle(if is_service { ProcessKind::Service } else { ProcessKind::Command });
    let outcome = match command {
        #[cfg(feature = "server")]
        Command::Serve(options) => serve::serve(&options),
        Command::Run(args) => run::run(args),
        Command::Verify(args) => verify::verify(args),
        Command::Profile(args) => profile::profile(&args),
        Command::Insights(args) => profile::insights(&args),
        Command::Compile(args) => compile::compile(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Doctor(args) => doctor::doctor(&args),
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
        Command::Cache(args) => bucket::cache(&args),
        #[cfg(feature = "server")]
        Command::Keys(args) => keys::keys(&args),
        Command::CompileBehind { folder } => behind::compile(&folder),
    };
    outcome.unwrap_or_else(|failure: Failure| {
        eprintln!("antares: {}", output::printable(&failure.to_string()));
        failure.exit_status()
    })
}
