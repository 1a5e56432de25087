//! Programs of csmith, a random generator of C, compiled by two compilers with random flags and compared in
//! all tiers.
//!
//! The seed of a program determines its C, flags, form and VM version.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::{BailoutReason, CodeTier, CompileOptions, Hints, Isa};
use antares_vm::Machine;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;

use crate::{
    corpus::Form,
    differential::compare,
    generate::Random,
    guests::{self, GUEST_FLAGS, source_folder},
    native,
    oracle::Case,
};

/// Cycle limit: programs of csmith may not terminate.
const CYCLES_MAX: u64 = 40_000_000;

/// Headers of Debian's package `libcsmith-dev`.
const HEADERS: &str = "/usr/include/csmith";

/// Compilers of the C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// `riscv64-unknown-elf-gcc`.
    Gcc,
    /// `clang-22`, linked by lld.
    Clang,
}

impl Compiler {
    /// All compilers.
    pub const ALL: [Self; 2] = [Self::Gcc, Self::Clang];

    /// The compiler's command.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Gcc => "riscv64-unknown-elf-gcc",
            Self::Clang => "clang-22",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Gcc => &[],
            Self::Clang => &["--target=riscv64-unknown-elf", "-fuse-ld=lld", "-mno-relax"],
        }
    }
}

/// Result of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The outcome, equal for the oracle and all tiers.
    pub outcome: String,
    /// Guest cycles.
    pub cycles: u64,
    /// Native cycles of the full tier's run.
    pub native_cycles: u64,
    /// Why the full tier's run restarted in the interpreter, if it did.
    pub restarted: Option<BailoutReason>,
    /// The checksum that the program printed, if it got that far.
    pub checksum: Option<String>,
}

/// Generates the program of `seed`.
///
/// # Errors
/// csmith is not installed, or fails.
pub fn generate(seed: u64, folder: &Path) -> Result<PathBuf> {
    let mut random = Random::new(seed);
    let source = folder.join("program.c");
    // csmith writes a file in its working directory.
    let output = Command::new("csmith")
        .current_dir(folder)
        .args(["--seed", &(seed & 0xffff_ffff).to_string(), "--output"])
        .arg(&source)
        .args(["--max-funcs", &(2 + random.below(9)).to_string()])
        .args(["--max-block-depth", &(2 + random.below(4)).to_string()])
        .arg(random.pick(&["--no-bitfields", "--no-unions", "--no-arrays", "--inline-function"]))
        .output()
        .context("csmith is not installed (packages csmith and libcsmith-dev)")?;
    ensure!(output.status.success(), "csmith: {}", String::from_utf8_lossy(&output.stderr));
    Ok(source)
}

/// Compiles a generated program; the seed determines flags and form.
///
/// # Errors
/// The compiler is not installed, or rejects the program.
pub fn build(seed: u64, source: &Path, compiler: Compiler) -> Result<(Vec<u8>, CompileOptions)> {
    let mut random = Random::new(seed ^ compiler as u64 ^ 0x5eed);
    let (march, isa) = random.pick(&[
        ("rv64im", Isa::IMC),
        ("rv64imc", Isa::IMC),
        ("rv64imc_zba_zbb_zbc_zbs", Isa(Isa::B.0)),
        ("rv64imc_zba_zbb_zbc_zbs", Isa(Isa::B.0 | Isa::MOP.0)),
    ]);
    let vm_version = if isa == Isa::IMC { random.below(3) } else { 1 + random.below(2) };
    let level = random.pick(&["-O0", "-O1", "-O2", "-O3", "-Os"]);
    let folder = source.parent().context("a source has a folder")?;
    let elf = folder.join(format!("program-{}", compiler.command()));
    let (guests, libgcc) = (source_folder(), guests::libgcc()?);
    let run = |more: &[&str]| {
        let mut command = Command::new(compiler.command());
        command.args(compiler.flags()).args(more);
        command
            .args(GUEST_FLAGS)
            .args(["-w", "-I", HEADERS, level])
            .arg(format!("-march={march}"))
            .arg(format!("-Wl,-T,{}", guests.join("guest.ld").display()))
            .arg(guests.join("start.S"))
            .arg(source)
            .args(["csmith/runtime.c", "memory.c"].map(|file| guests.join(file)))
            .arg(&libgcc)
            .arg("-o")
            .arg(&elf)
            .output()
            .with_context(|| format!("{} is not installed; run the set-up script", compiler.command()))
    };
    let mut output = run(&[])?;
    if !output.status.success() {
        // GNU ld's relaxation sometimes moves data out of the reach of `gp`.
        output = run(&["-Wl,--no-relax"])?;
    }
    ensure!(output.status.success(), "{}: {}", compiler.command(), String::from_utf8_lossy(&output.stderr));
    let form = random.pick(&Form::ALL);
    Ok((form.of(&fs::read(&elf)?)?, CompileOptions { vm_version, isa }))
}

/// Compares the program of `seed` by `compiler` in all tiers with the oracle.
///
/// # Errors
/// A tool is missing, or something differs.
pub fn check(machine: &mut Machine, seed: u64, compiler: Compiler) -> Result<Compared> {
    let folder = tempfile::tempdir()?;
    let source = generate(seed, folder.path())?;
    let (elf, options) = build(seed, &source, compiler)?;
    let case = Case { elf: Bytes::from(elf), args: vec![], options, cycles_max: CYCLES_MAX, code: None };
    let mut last = None;
    for tier in [None, Some(CodeTier::Baseline), Some(CodeTier::Full)] {
        let library = match tier {
            None => None,
            Some(tier) => match native::compile_with(&case.elf, options, tier, &Hints::default())? {
                Ok(library) => Some(library),
                Err(reason) => bail!("{tier} refuses: {reason}"),
            },
        };
        let equal = match compare(machine, &case, library.as_ref())? {
            Ok(equal) => equal,
            Err(difference) => bail!("{tier:?}, {options:?}: {difference}"),
        };
        let found = Compared {
            outcome: equal.outcome,
            cycles: equal.cycles,
            native_cycles: equal.native_cycles,
            restarted: equal.restarted,
            checksum: equal.debug.first().cloned(),
        };
        last = Some(found);
    }
    last.context("there are tiers")
}
