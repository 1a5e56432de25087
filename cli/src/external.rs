//! External commands: `antares NAME` becomes `antares-NAME`, from the folder of this program or from the
//! PATH.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use antares_pool::worker_path;
use anyhow::anyhow;
use clap::CommandFactory as _;

use crate::{args::Cli, failure::Failure};

/// The program of `antares debugger`.
const CKB_DEBUGGER: &str = "ckb-debugger";

/// Executes the program of the tool `name` with all arguments of this process after that name.
pub(crate) fn tool(name: &str) -> Failure {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(index) = arguments.iter().position(|argument| argument == name) {
        arguments.remove(index);
    }
    let program = format!("antares-{name}");
    match find(&program) {
        Some(path) => become_program(&path, &arguments),
        None => missing(name, &program),
    }
}

fn missing(name: &str, program: &str) -> Failure {
    Failure::Usage(anyhow!(
        "`antares {name}` is the program {program}, which is not installed next to antares. Releases include \
         it; `cargo build --release --workspace` builds it"
    ))
}

/// Whether this process was started as `ckb-debugger`.
pub(crate) fn is_ckb_debugger() -> bool {
    let name = env::args_os().next();
    name.is_some_and(|name| Path::new(&name).file_stem().is_some_and(|stem| stem == CKB_DEBUGGER))
}

/// Executes the program `ckb-debugger` next to this one.
pub(crate) fn ckb_debugger(arguments: impl Iterator<Item = OsString>) -> Failure {
    // A link of that name to this program would loop.
    let is_other = |path: &PathBuf| path.canonicalize().ok() != env::current_exe().ok();
    match worker_path(CKB_DEBUGGER).ok().filter(is_other) {
        Some(path) => become_program(&path, &arguments.collect::<Vec<_>>()),
        None => missing("debugger", CKB_DEBUGGER),
    }
}

/// Executes the program of an unknown command, or refuses the command as clap does.
pub(crate) fn unknown(words: &[OsString]) -> Failure {
    let name = words.first().and_then(|name| name.to_str()).filter(|name| !name.contains('/'));
    match name.and_then(|name| find(&format!("antares-{name}"))) {
        Some(path) => become_program(&path, &words[1..]),
        None => refused(words),
    }
}

fn refused(words: &[OsString]) -> Failure {
    let commands = Cli::command();
    let known = clap::Command::new("antares").subcommands(commands.get_subcommands().cloned());
    match known.try_get_matches_from(
        [OsStr::new("antares")].into_iter().chain(words.first().map(OsString::as_os_str)),
    ) {
        Err(refused) => refused.exit(),
        Ok(_) => Failure::Usage(anyhow!("unrecognized subcommand")),
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let on_path = || {
        let folders = env::var_os("PATH")?;
        let found = env::split_paths(&folders).filter(|folder| folder.is_absolute());
        found.map(|folder| folder.join(program)).find(|path| path.is_file())
    };
    worker_path(program).ok().or_else(on_path)
}

fn become_program(path: &Path, arguments: &[impl AsRef<OsStr>]) -> Failure {
    let error = Command::new(path).args(arguments).exec();
    Failure::Service(anyhow::Error::from(error).context(format!("cannot run {}", path.display())))
}
