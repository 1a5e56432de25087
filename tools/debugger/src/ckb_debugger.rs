//! The command line interface of `ckb-debugger`: its options, output lines and exit statuses.
//! `docs/debugger.md` lists the differences.
//!
//! The caller provides what [begins](Begin) scripts, a sandboxed process or this process's interpreter, and the
//! optional [`Helpers`]: a faster rival, and a gdb server.

#[cfg(any(windows, test))]
mod drives;
mod fast;
mod full;
mod gdb;
mod host;
mod lines;
mod paths;
mod runner;
mod stopped;
mod streams;
mod target;
mod words;

use std::{ffi::OsString, io, path::PathBuf, process::ExitCode};

use clap::{Parser as _, error::ErrorKind};

pub use runner::{Begin, Hears, Helpers, Raced, Rival, RunningScript, ServeGdb};
pub use stopped::Ending;
pub use target::ChosenScript;
#[cfg(feature = "native")]
pub(crate) use target::first_cell;

use host::Host;
use paths::Allowed;
use runner::Request;
use streams::read_all;
use words::{Mode, Words};

/// Maximum bytes of a script's input file.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// The name of the program.
const NAME: &str = "ckb-debugger";

/// Runs the command in `words`, which start with the program's name.
#[must_use]
pub fn debug(words: impl Iterator<Item = OsString>, begin: Begin, helpers: Helpers) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let has_old_word =
        words.iter().any(|word| word.to_string_lossy().trim_start_matches('-').starts_with("pprof"));
    let words = match Words::try_parse_from(words) {
        Ok(words) => words,
        Err(error) => {
            // Prints to the appropriate stream: help to standard output.
            let _ = error.print();
            if has_old_word {
                eprintln!(
                    "{NAME}: instead of --pprof FILE there is --enable-flamegraph --flamegraph-output FILE"
                );
            }
            let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if is_answer { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    };
    execute(&words, begin, helpers).unwrap_or_else(|stop| ExitCode::from(stop.say()))
}

fn execute(words: &Words, begin: Begin, helpers: Helpers) -> Result<ExitCode, Ending> {
    let mode = words.mode();
    words.vm().ok_or_else(|| Ending::senseless("--vm-id must be a number"))?;
    if matches!(mode, Mode::DecodeInstruction | Mode::InstructionDecode) {
        return fast::decode(words, begin);
    }
    let cycles_max = words.max_cycles.parse().map_err(Ending::number)?;
    let missing = || Ending::Error("mode gdb is not there on this system".to_owned());
    let server = (mode == Mode::Gdb).then(|| helpers.gdb.ok_or_else(missing)).transpose()?;
    let target = ChosenScript::of(words)?;
    let request = Request { words, target: &target, cycles_max, begin, host: host(words)? };
    if let Some(server) = server {
        return gdb::serve(request, server);
    }
    match mode {
        Mode::Fast => fast::run(request, helpers.rival),
        Mode::Probe => {
            eprintln!("{NAME}: there are no probes in this program; it runs as it would with them");
            if words.prompt {
                lines::say("Enter to start executing:");
                let _ = io::stdin().read_line(&mut String::new());
            }
            full::run(request)
        }
        _ => full::run(request),
    }
}

/// The host of the script: permits access to files in the folders of the command line's files, and to files
/// among the script's arguments.
fn host(words: &Words) -> Result<Host, Ending> {
    let read = |path: &PathBuf| {
        let failed = |error| Ending::senseless(format!("cannot read {}: {error}", path.display()));
        read_all(path, INPUT_BYTES_MAX).map_err(failed)
    };
    let input = words.read_file.as_ref().map(read).transpose()?;
    let named = [&words.read_file, &words.tx_file, &words.bin].into_iter().flatten();
    let named = named.map(PathBuf::as_path).filter(|path| path.as_os_str() != "-");
    let files = words.args.iter().map(PathBuf::from);
    let allowed = Allowed::new(named, &words.allow_path, files);
    Ok(Host::new(allowed, input, words.dump_file.clone()))
}
