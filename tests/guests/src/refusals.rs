//! Rejecting scripts from one C and one Rust source, by many compilers and flags, with the deciding lines.

use std::{fs, process::Command};

use antares_abi::Sha256Digest;
use anyhow::Result;

use super::{build::kept_folder, crates::run, rust, source_folder};

/// A script's compiler and relevant flags.
pub const BUILDS: [(&str, &[&str]); 18] = [
    ("gcc", &["-O0"]),
    ("gcc", &["-O1"]),
    ("gcc", &["-O2"]),
    ("gcc", &["-Os"]),
    ("gcc", &["-Oz"]),
    ("gcc", &["-Os", "-flto"]),
    ("clang", &["-O0"]),
    ("clang", &["-O1"]),
    ("clang", &["-O2"]),
    ("clang", &["-Os"]),
    ("clang", &["-Oz"]),
    ("clang", &["-Os", "-flto"]),
    ("rustc", &["-Copt-level=0"]),
    ("rustc", &["-Copt-level=1"]),
    ("rustc", &["-Copt-level=2"]),
    ("rustc", &["-Copt-level=s"]),
    ("rustc", &["-Copt-level=z"]),
    ("rustc", &["-Copt-level=s", "-Clto=fat"]),
];

/// One of the scripts.
pub struct Refusing {
    /// Its name in the source.
    pub case: String,
    /// Name of the source in diagnoses.
    pub file: &'static str,
    /// The lines that decide.
    pub lines: Vec<u32>,
    /// The source of this case alone, with unchanged line numbers.
    source: String,
}

/// The cases that `compiler` builds.
///
/// # Errors
///
/// The source cannot be read.
pub fn refusals(compiler: &str) -> Result<Vec<Refusing>> {
    let (file, kept, starts) = match compiler {
        "rustc" => ("lines.rs", "lines.rust", "// CASE "),
        _ => ("lines.c", "lines.c", "#if defined(CASE_"),
    };
    let text = fs::read_to_string(source_folder().join("failing").join(kept))?.replace("#elif", "#if");
    let case_of = |line: &str| line.strip_prefix(starts).map(|case| case.trim_end_matches(')').to_owned());
    let alone = |case: String| {
        let (mut source, mut lines, mut is_in) = (String::new(), Vec::new(), true);
        for (line, number) in text.lines().zip(1..) {
            let begins = case_of(line);
            is_in = begins.as_ref().map_or(is_in, |begun| *begun == case);
            if is_in && number > 1 && line.contains("HERE") {
                lines.push(number);
            }
            let is_code = is_in && begins.is_none() && line != "#endif";
            source = source + if is_code { line } else { "" } + "\n";
        }
        Refusing { case, file, lines, source }
    };
    Ok(text.lines().filter_map(case_of).map(alone).collect())
}

/// A C compiler for scripts, with line numbers.
fn c(compiler: &str, more: &[&str]) -> Command {
    let mut command = Command::new(compiler);
    let script = format!("-Wl,-T,{}", source_folder().join("guest.ld").display());
    command.args(["-march=rv64imc", "-mabi=lp64", "-mcmodel=medany", "-static", "-nostdlib", "-fno-builtin"]);
    command.args(["-w", "-g", script.as_str()]).args(more);
    command
}

/// The ELF of a case, built by `compiler` with `flags`.
///
/// # Errors
///
/// The compiler is missing or rejects the source.
pub fn refusing(of: &Refusing, compiler: &str, flags: &[&str]) -> Result<Vec<u8>> {
    let key = Sha256Digest::of([&[of.source.as_str(), compiler], flags].concat().join("\n").as_bytes());
    let folder = kept_folder().join(key.to_string());
    let (source, elf) = (folder.join(of.file), folder.join(&of.case));
    if !elf.exists() {
        fs::create_dir_all(&folder)?;
        fs::write(&source, &of.source)?;
        let mut command = match compiler {
            "rustc" => rust::alone()?,
            "clang" => c("clang-22", &["--target=riscv64-unknown-elf", "-fuse-ld=lld-22", "-mno-relax"]),
            _ => c("riscv64-unknown-elf-gcc", &["-ffreestanding", "-fno-tree-loop-distribute-patterns"]),
        };
        run(command.args(flags).arg(&source).arg("-o").arg(&elf))?;
    }
    Ok(fs::read(elf)?)
}
