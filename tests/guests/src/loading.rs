//! A lock that loads a library at run time, and the library.

use std::{fs, process::Command};

use anyhow::Result;

use super::{
    build::{GUEST_COMPILER, script_of},
    crates::run,
    source_folder,
};

/// LLVM's linker (Debian package `lld-22`): GNU ld for bare metal makes no shared objects.
const LINKER: &str = "ld.lld-22";

/// The lock, which calls the library `rounds` times. The library must be the second cell dep.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn loading_lock(rounds: u32) -> Result<Vec<u8>> {
    script_of("loading/lock.c", "loading_lock", &[&format!("ROUNDS={rounds}")])
}

/// Number of cases of [`cached_lock`].
pub const CACHED_CASES: usize = 22;

/// A lock that loads the second and the third cell dep over what earlier runs left in memory.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn cached_lock(case: usize) -> Result<Vec<u8>> {
    script_of("loading/cached.c", "cached_lock", &[&format!("CASE={case}")])
}

/// The library: a shared object without names of section headers, and with only its exported symbols.
///
/// # Errors
/// No RISC-V compiler or linker is installed, or one rejects its input.
pub fn loaded_library(level: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (source, object) = (source_folder().join("loading/library.c"), folder.path().join("library.o"));
    let library = folder.path().join("library.so");
    let compile =
        ["-march=rv64imc", "-mabi=lp64", "-fPIC", "-fvisibility=hidden", "-ffreestanding", level, "-c", "-o"];
    run(Command::new(GUEST_COMPILER).args(compile).args([&object, &source]).current_dir(&folder))?;
    let link = ["-shared", "--hash-style=sysv", "-z", "max-page-size=4096", "-z", "norelro", "-s", "-o"];
    run(Command::new(LINKER).args(link).args([&library, &object]).current_dir(&folder))?;
    Ok(fs::read(library)?)
}
