//! The corpus of current scripts: programs that are hard to recover, in their published forms, and their way
//! to native code by hints from runs.

use std::{fs, path::PathBuf, process::Command};

use antares_abi::{CodeTier, CompileOptions, Hints, Isa};
use antares_vm::Machine;
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;

use crate::{
    crates,
    differential::{Equal, compare},
    guests::{self, RUST_GUESTS, RustLevel, rust_guest},
    native,
    oracle::Case,
};

/// Compile options of every program: those of a new script.
pub const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(Isa::B.0 | Isa::MOP.0) };

/// A limit that no program of the corpus reaches.
pub const CYCLES_MAX: u64 = 1 << 40;

/// Runs until a program is native: one that collects hints, one with these hints, and one more.
pub const RUNS: usize = 3;

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name in tables.
    pub name: String,
    /// The ELF as the linker wrote it.
    pub elf: Vec<u8>,
    pub args: Vec<Bytes>,
}

/// The published form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the linker wrote it.
    Whole,
    /// Without symbols, by `llvm-strip`.
    Stripped,
    /// Also without section headers, by `llvm-objcopy --strip-sections`.
    Sections,
}

impl Form {
    pub const ALL: [Self; 3] = [Self::Whole, Self::Stripped, Self::Sections];

    /// Converts the file to this form.
    ///
    /// # Errors
    /// LLVM's tools are not installed, or reject the file.
    pub fn of(self, elf: &[u8]) -> Result<Vec<u8>> {
        let argument = match self {
            Self::Whole => return Ok(elf.to_vec()),
            Self::Stripped => "--strip-all",
            Self::Sections => "--strip-sections",
        };
        let folder = tempfile::tempdir()?;
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, elf)?;
        crates::run(Command::new(objcopy()).arg(argument).arg(&from).arg(&to))?;
        Ok(fs::read(to)?)
    }
}

/// `llvm-objcopy` of the LLVM that we link with.
fn objcopy() -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or_else(|| "/usr/lib/llvm-22".into());
    PathBuf::from(prefix).join("bin/llvm-objcopy")
}

/// Guests in Rust at both optimisation levels and in Lua, which repeat their work `rounds` times, and
/// ckb-js-vm.
///
/// # Errors
/// A guest cannot be built or fetched.
pub fn programs(rounds: u32) -> Result<Vec<Program>> {
    let args = vec![Bytes::from(rounds.to_string())];
    let mut programs = Vec::new();
    let mut add = |name: String, elf: Vec<u8>| programs.push(Program { name, elf, args: args.clone() });
    for level in RustLevel::ALL {
        for name in RUST_GUESTS {
            add(format!("{name}-{}", level.name()), rust_guest(name, level)?);
        }
    }
    for name in ["lua-imc", "lua-b"] {
        add(name.to_owned(), guests::bytes(name)?);
    }
    programs.extend(javascript()?);
    Ok(programs)
}

/// ckb-js-vm, which is published stripped, with each of our programs in JavaScript; none if it cannot be
/// fetched.
fn javascript() -> Result<Vec<Program>> {
    let Some(elf) = guests::js_vm()? else { return Ok(Vec::new()) };
    let programs = ["calls", "text", "numbers"].into_iter().map(|name| {
        let source = guests::source_folder().join("javascript").join(name).with_extension("js");
        let source = fs::read(&source).with_context(|| format!("reading {}", source.display()))?;
        let args = vec![Bytes::from("-e"), Bytes::from(source)];
        Ok(Program { name: format!("ckb-js-vm {name}"), elf: elf.clone(), args })
    });
    programs.collect()
}

/// A series of runs in which a program becomes native.
#[derive(Clone, Debug)]
pub struct Learnt {
    /// The runs; the first one is without hints.
    pub runs: Vec<Equal>,
    /// The hints from the runs.
    pub hints: Hints,
}

impl Learnt {
    /// Native share of the cycles of run `index`, in per mille, rounded down.
    #[must_use]
    pub fn share(&self, index: usize) -> u64 {
        self.runs.get(index).map_or(0, |run| run.native_cycles * 1000 / run.cycles.max(1))
    }
}

/// A case of `elf` with `args`.
#[must_use]
pub fn case(elf: &[u8], args: &[Bytes]) -> Case {
    Case { args: args.to_vec(), ..Case::new(elf, &[], OPTIONS, CYCLES_MAX) }
}

/// Runs a case natively with `hints` and compares it with the oracle.
///
/// # Errors
/// The compiler refuses or fails, or something differs.
pub fn run(machine: &mut Machine, case: &Case, tier: CodeTier, hints: &Hints) -> Result<Equal> {
    let library = native::compile_with(&case.elf, case.options, tier, hints)?;
    let library = library.map_err(|reason| anyhow!("refused: {reason}"))?;
    compare(machine, case, Some(&library))?.map_err(|difference| anyhow!("{tier}: {difference}"))
}

/// Runs a case `runs` times with baseline code, each with the hints of the earlier ones.
///
/// # Errors
/// As [`run`].
pub fn learn(machine: &mut Machine, case: &Case, runs: usize) -> Result<Learnt> {
    let mut learnt = Learnt { runs: Vec::new(), hints: Hints::default() };
    for _ in 0..runs {
        let equal = run(machine, case, CodeTier::Baseline, &learnt.hints)?;
        if let Some(seen) = &equal.seen {
            learnt.hints = learnt.hints.learn(seen);
        }
        learnt.runs.push(equal);
    }
    Ok(learnt)
}
