//! Counts host instructions with callgrind: exact and reproducible, even on a busy machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_compiler::Stage;
use antares_tests::{crates::target_folder, guests, native};
use anyhow::{Context, Result, bail, ensure};

use crate::{
    engine::Engine,
    programs::{OPTIONS, Program},
    report::geomean,
    twin,
};

/// First argument of the counted process, which runs a library once. Further arguments: ELF, library,
/// repetitions.
pub(crate) const ONCE: &str = "--once";

/// Divisor of the repetitions used for timing: callgrind slows everything down fifty times.
const PART: u32 = 25;

/// Counts each program; prints a line for each.
pub(crate) fn measure(programs: &[&Program]) -> Result<()> {
    println!(
        "instructions by callgrind, for one repetition; callgrind's files are in {}",
        folder().display()
    );
    fs::create_dir_all(folder())?;
    let mut ratios = Vec::new();
    for program in programs {
        let Program { name, .. } = program;
        let [ours, gcc, clang] = count(program).context(*name)?;
        let (ratio, to_clang) = (ours as f64 / gcc as f64, ours as f64 / clang as f64);
        ratios.push(ratio);
        println!("{name:<16} /gcc {ratio:.4}  /clang {to_clang:.4}   ours {ours}, gcc {gcc}, clang {clang}");
    }
    println!("geometric mean of the ratios to gcc -O3: {:.4}", geomean(ratios.into_iter()));
    Ok(())
}

/// Main function of the process started with [`ONCE`].
pub(crate) fn run_once(arguments: &[String]) -> Result<i32> {
    let [elf, library, repetitions] = arguments else { bail!("{ONCE} ELF LIBRARY REPETITIONS") };
    Engine::new(fs::read(elf)?, &fs::read(library)?)?.run_untimed(repetitions.parse()?)
}

fn valgrind(out: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--log-file=/dev/null"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command
}

/// Compiles a guest to a library file.
fn library(program: &Program, elf: &Path) -> Result<PathBuf> {
    let library = folder().join(format!("{}.so", program.name));
    fs::write(&library, native::output(&fs::read(elf)?, OPTIONS, Stage::Library)?.bytes)?;
    Ok(library)
}

fn folder() -> PathBuf {
    target_folder().join("bench/callgrind")
}

/// Instructions per repetition, of ours, gcc's and clang's.
fn count(program: &Program) -> Result<[u64; 3]> {
    let elf = guests::build(program.guest)?;
    let library = library(program, &elf)?;
    let own = env::current_exe()?;
    let arguments = [ONCE.as_ref(), elf.as_os_str(), library.as_os_str()].map(ToOwned::to_owned);
    let repetitions = (program.repetitions / PART).max(1);
    let counted = |side: &str, path: &Path, arguments: &[_]| -> Result<u64> {
        let run = |times: u32| {
            let out = folder().join(format!("{}.{side}.{times}", program.name));
            callgrind(valgrind(&out).arg(path).args(arguments).arg(times.to_string()), &out)
        };
        // The difference cancels loading and startup.
        Ok((run(2 * repetitions)?.saturating_sub(run(repetitions)?)) / u64::from(repetitions))
    };
    Ok([
        counted("ours", &own, &arguments)?,
        counted("gcc", &twin::build(program.guest, "gcc")?, &[])?,
        counted("clang", &twin::build(program.guest, "clang-22")?, &[])?,
    ])
}

/// Runs `command`; returns the total of instructions in its callgrind file.
fn callgrind(command: &mut Command, out: &Path) -> Result<u64> {
    let output = command.output().context("valgrind is not installed")?;
    let text = fs::read_to_string(out).with_context(|| format!("{command:?} wrote nothing"))?;
    let total =
        text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    // Programs may exit with any checksum, but must not be killed by a signal.
    ensure!(output.status.code().is_some(), "{command:?}: {}", output.status);
    total.and_then(|total| total.trim().parse().ok()).context("callgrind's file has a summary")
}
