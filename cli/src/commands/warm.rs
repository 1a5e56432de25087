//! `antares warm`: asks a server to compile scripts before they are needed.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
};

use antares_abi::Sha256Digest;
use anyhow::{Context as _, anyhow};
use clap::Args;

use crate::{
    args::{script::MachineArgs, servers::ServerArgs},
    failure::Failure,
    input, output,
    remote::calls::warm::{Cold, Warmed},
};

/// Longest list of scripts, bytes.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Arguments of `antares warm`.
#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// Files, folders of files, or SHA-256 of stored scripts
    #[arg(value_name = "SCRIPT", required_unless_present = "list")]
    scripts: Vec<PathBuf>,
    /// File with more of them, one a line; - for standard input. Empty lines and lines with # are ignored
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    #[command(flatten)]
    how: WarmHow,
    #[command(flatten)]
    server: ServerArgs,
}

/// How scripts are compiled.
#[derive(Debug, Args)]
pub(crate) struct WarmHow {
    #[command(flatten)]
    machine: MachineArgs,
    /// Parallel compiles
    #[arg(long, value_name = "N", default_value = "4")]
    at_once: NonZeroUsize,
}

/// Compiles the scripts that `args` name. Returns status 1 if any cannot be compiled.
pub(crate) fn warm(args: &WarmArgs) -> Result<ExitCode, Failure> {
    let mut names = args.scripts.clone();
    if let Some(list) = &args.list {
        names.extend(listed(list)?);
    }
    let mut cold = Vec::new();
    for name in &names {
        add(name, &mut cold)?;
    }
    warm_all(cold, &args.how, &args.server)
}

fn listed(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = input::read(list, LIST_BYTES_MAX)?;
    let text =
        String::from_utf8(text).map_err(|_| Failure::Usage(anyhow!("{} is no text", list.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(PathBuf::from).collect())
}

/// Adds the target `name`: a digest, a file, or all files of a folder.
fn add(name: &Path, cold: &mut Vec<Cold>) -> Result<(), Failure> {
    let text = name.display().to_string();
    if let Ok(script) = text.parse::<Sha256Digest>() {
        cold.push(Cold { name: String::new(), script, elf: None, is_found: false });
        return Ok(());
    }
    if !name.is_dir() {
        let elf = input::read_script(name)?;
        cold.push(Cold { name: text, script: Sha256Digest::of(&elf), elf: Some(elf), is_found: false });
        return Ok(());
    }
    let failed = || format!("cannot read the folder {}", name.display());
    let entries = fs::read_dir(name).with_context(failed).map_err(Failure::Usage)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(failed).map_err(Failure::Usage)?.path();
        files.extend(path.is_file().then_some(path));
    }
    files.sort();
    files.iter().try_for_each(|file| add(file, cold))
}

/// Compiles `cold` on the server, and prints a line for each in order of completion.
pub(crate) fn warm_all(mut cold: Vec<Cold>, how: &WarmHow, server: &ServerArgs) -> Result<ExitCode, Failure> {
    let mut seen = std::collections::HashSet::new();
    cold.retain(|one| seen.insert(one.script));
    let (all, mut done, mut refused) = (cold.len(), 0_usize, 0_usize);
    server.server()?.warm(cold, how.machine.options(), how.at_once, |one, warmed| {
        done += 1;
        let what = match warmed {
            Ok(Warmed::Hit) => "was compiled before".to_owned(),
            Ok(Warmed::Compiled(ms)) => format!("compiled in {ms} ms"),
            // Other files in a folder may be cell data.
            Err(Failure::Refused { reason, detail }) if one.is_found && reason == "elf" => {
                format!("no script: {detail}")
            }
            Err(Failure::Refused { reason, detail }) => {
                refused += 1;
                format!("not compiled: {reason}: {detail}")
            }
            Err(failure) => return Err(failure),
        };
        let name = if one.name.is_empty() { String::new() } else { format!("  {}", one.name) };
        let line = format!("{done}/{all}  {}{name}  {what}", one.script);
        output::print(format!("{}\n", output::printable(&line)).as_bytes())
    })?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
