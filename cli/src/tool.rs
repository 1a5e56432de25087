//! Code that the programs of `tools/` share with the command: the same command line and exit statuses.

use std::{env, ffi::OsString, process::ExitCode};

use antares_pool::{ProcessKind, settle};
use clap::{CommandFactory as _, FromArgMatches};

use crate::{args::Cli, failure::Failure, output::color};

/// Runs the command `name` with the arguments of this process.
#[must_use]
pub fn run<A: FromArgMatches>(name: &str, command: impl FnOnce(&A) -> Result<ExitCode, Failure>) -> ExitCode {
    let words = ["antares".into(), name.into()].into_iter().chain(env::args_os().skip(1));
    let found = Cli::command().get_matches_from(words.collect::<Vec<OsString>>());
    color::choose(found.get_one("color").copied().unwrap_or_default());
    settle(ProcessKind::Command);
    let args = found.subcommand_matches(name).ok_or_else(|| {
        // The command of this name exists.
        clap::Error::new(clap::error::ErrorKind::MissingSubcommand)
    });
    let args = args.and_then(A::from_arg_matches).unwrap_or_else(|error| error.exit());
    command(&args).unwrap_or_else(|failure| failure.report())
}
