//! Builds guests with gcc for RISC-V, and the same C for the host.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::Sha256Digest;
use anyhow::{Context, Result, bail, ensure};

use super::{Guest, Source, recipes::Memory, source_folder};
use crate::crates::{run, target_folder};

/// Name of the RISC-V compiler (Debian package `gcc-riscv64-unknown-elf`).
pub(super) const GUEST_COMPILER: &str = "riscv64-unknown-elf-gcc";

/// picolibc, built for rv64imac (Debian package `picolibc-riscv64-unknown-elf`).
const PICOLIBC: &str = "/usr/lib/picolibc/riscv64-unknown-elf/lib/rv64imac/lp64/libc.a";

const PICOLIBC_HEADERS: &str = "/usr/lib/picolibc/riscv64-unknown-elf/include";

/// Flags of every guest.
pub const GUEST_FLAGS: [&str; 13] = [
    "-mabi=lp64",
    "-mcmodel=medany",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    // As in the twins, which are hosted: a copy of eight bytes is not a call.
    "-fbuiltin",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-ident",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-isystem",
    PICOLIBC_HEADERS,
];

/// Flags of all builds for other engines.
const FOREIGN_FLAGS: [&str; 9] = [
    "-O3",
    "-w",
    "-Dmain=guest_main",
    "-nostdlib",
    "-ffreestanding",
    "-fbuiltin",
    "-isystem",
    PICOLIBC_HEADERS,
    "-DNDEBUG",
];

/// The first one only for wide arithmetic.
const WASM_FLAGS: [&str; 6] = [
    "-mwide-arithmetic",
    "--target=wasm32",
    "-D__IEEE_LITTLE_ENDIAN",
    "-Wl,--no-entry",
    "-Wl,--export=run",
    "-Wl,-z,stack-size=1048576",
];

/// From the target files that the crate polkavm-linker ships.
const POLKAVM_FLAGS: [&str; 14] = [
    "--target=riscv64",
    "-march=rv64emac_zbb_xtheadcondmov",
    "-mabi=lp64e",
    "-mno-strict-align",
    "-fPIE",
    "-fvisibility=hidden",
    "-fuse-ld=lld",
    "-pie",
    "-Wl,--emit-relocs",
    "-Wl,--unique",
    "-Wl,--apply-dynamic-relocs",
    "-Wl,--no-allow-shlib-undefined",
    "-Wl,-Bsymbolic",
    "-Wl,--entry=run",
];

/// The RISC-V compiler's version line.
///
/// # Errors
/// The compiler is not installed.
pub fn guest_compiler() -> Result<String> {
    let output = run(Command::new(GUEST_COMPILER).arg("--version"))?;
    Ok(String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned())
}

pub(super) fn kept_folder() -> PathBuf {
    target_folder().join("guests")
}

/// Builds the guest's ELF, unless it is cached for the same sources and flags.
pub(super) fn build(guest: &Guest) -> Result<PathBuf> {
    let (flags, sources) = parts(guest)?;
    compile_once(GUEST_COMPILER, &flags, &sources, &guest.name)
}

/// The ELF of `guest` with the linker's relocations.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the sources.
pub fn with_relocations(guest: &Guest) -> Result<Vec<u8>> {
    let (mut flags, sources) = parts(guest)?;
    flags.push("-Wl,-q".into());
    Ok(fs::read(compile_once(GUEST_COMPILER, &flags, &sources, &guest.name)?)?)
}

/// Flags of guests, with their linker script.
fn linked_flags() -> Vec<OsString> {
    let script = joined("-Wl,-T,", &source_folder().join("guest.ld"));
    GUEST_FLAGS.iter().map(OsString::from).chain([script]).collect()
}

fn parts(guest: &Guest) -> Result<(Vec<OsString>, Sources)> {
    let mut flags = linked_flags();
    flags.extend([format!("-march={}", guest.march).into(), guest.level.into()]);
    let mut sources = Sources::of(&guest.source)?;
    let folder = source_folder();
    sources.watched.push(folder.join("guest.ld"));
    match &guest.source {
        Source::Case { case, .. } => flags.push(format!("-D{case}").into()),
        Source::Program { memory, .. } => {
            sources.files.insert(0, folder.join("start.S"));
            sources.files.extend(guest_libraries(*memory)?);
        }
    }
    flags.extend(sources.guest_flags.iter().map(OsString::from));
    Ok((flags, sources))
}

/// The ELF of an assembly text with `_start`, linked like a guest.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the text.
pub fn assemble(text: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (source, elf) = (folder.path().join("case.S"), folder.path().join("case"));
    fs::write(&source, text)?;
    let mut flags = linked_flags();
    flags.push("-march=rv64imac_zba_zbb_zbc_zbs".into());
    compile(GUEST_COMPILER, &flags, &Sources { files: vec![source], ..Sources::default() }, &elf)?;
    Ok(fs::read(elf)?)
}

/// The ELF of `hidden.S`, which static recovery cannot handle.
///
/// # Errors
/// As [`assemble`].
pub fn hidden() -> Result<Vec<u8>> {
    assemble(include_str!("../../guests/hidden.S"))
}

/// The ELF of one case of `scripts/scripts.c`, with additional macros (`HOW=1`).
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn script(case: &str, macros: &[&str]) -> Result<Vec<u8>> {
    case_of("scripts/scripts.c", case, macros, Vec::new())
}

/// The ELF of a C file with its own `_start`, built with `macros`.
pub(super) fn script_of(file: &str, name: &str, macros: &[&str]) -> Result<Vec<u8>> {
    script_with(file, name, macros, Vec::new())
}

/// The ELF of one case of `failing/failing.c`: a failing script, with lines or stripped.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn failing(case: &str, is_stripped: bool) -> Result<Vec<u8>> {
    let flags = if is_stripped { vec!["-s".into()] } else { with_lines() };
    case_of("failing/failing.c", case, &[], flags)
}

/// The ELF of one case of `fuzzed/fuzzed.c`: a lock with a bug, or a correct one.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn fuzzed(case: &str, is_right: bool) -> Result<Vec<u8>> {
    case_of("fuzzed/fuzzed.c", case, if is_right { &["RIGHT"] } else { &[] }, with_lines())
}

/// The source file of [`debugged`].
pub const DEBUGGED: &str = "debugged/debugged.c";

/// The ELF of one case of `debugged/debugged.c`: a script with lines and variables, for debuggers.
///
/// # Errors
/// No RISC-V compiler is installed, or it rejects the source.
pub fn debugged(case: &str) -> Result<Vec<u8>> {
    let mut flags = with_lines();
    flags.push("-Og".into());
    case_of(DEBUGGED, case, &[], flags)
}

/// The ELF of one case of a C file, with additional macros and flags.
fn case_of(file: &str, case: &str, macros: &[&str], flags: Vec<OsString>) -> Result<Vec<u8>> {
    script_with(file, &case.to_lowercase(), &[&[&*format!("CASE_{case}")], macros].concat(), flags)
}

/// Flags for line numbers that do not depend on the repository's path.
fn with_lines() -> Vec<OsString> {
    let mut renamed = joined("-ffile-prefix-map=", &source_folder());
    renamed.push("=/guests");
    vec!["-g".into(), renamed]
}

fn script_with(file: &str, name: &str, macros: &[&str], more: Vec<OsString>) -> Result<Vec<u8>> {
    let folder = source_folder();
    let mut flags = linked_flags();
    // Prevent gcc from replacing loops by calls of memory functions, which do not exist here.
    flags.extend(
        ["-march=rv64imc", "-O2", "-fno-tree-loop-distribute-patterns", "-fno-builtin"].map(OsString::from),
    );
    flags.extend(macros.iter().map(|text| format!("-D{text}").into()));
    flags.extend(more);
    let (files, watched) = (vec![folder.join(file)], vec![folder.join("guest.ld")]);
    let sources = Sources { files, watched, ..Sources::default() };
    Ok(fs::read(compile_once(GUEST_COMPILER, &flags, &sources, name)?)?)
}

/// Builds the C of `guest` for the host; `driver` (a file of the tests' folder) calls its `main` as
/// `guest_main`.
///
/// # Errors
/// The guest is assembly, or the compiler is missing or rejects the sources.
pub fn native_compile(guest: &Guest, compiler: &str, driver: &Path) -> Result<PathBuf> {
    ensure!(!matches!(guest.source, Source::Case { .. }), "{} is written in RISC-V assembly", guest.name);
    // The library precedes its users on the command line.
    let flags = ["-O3", "-Dmain=guest_main", "-Wl,--no-as-needed", "-lm"];
    let flags: Vec<OsString> = flags.map(OsString::from).to_vec();
    let mut sources = Sources::of(&guest.source)?;
    sources.files.push(driver.to_owned());
    compile_once(compiler, &flags, &sources, &guest.name)
}

/// Builds the C of `guest` for another engine; `driver` calls its `main` as `guest_main`.
///
/// # Errors
/// The guest is assembly, or clang is missing or rejects the sources.
pub fn foreign_compile(guest: &Guest, target: Foreign, driver: &Path) -> Result<PathBuf> {
    let Source::Program { memory, .. } = &guest.source else { bail!("{} is RISC-V assembly", guest.name) };
    let flags: Vec<OsString> = FOREIGN_FLAGS.iter().chain(target.flags()).map(OsString::from).collect();
    let mut sources = Sources::of(&guest.source)?;
    sources.files.push(driver.to_owned());
    match memory {
        Memory::Bytes => sources.files.push(source_folder().join("memory.c")),
        Memory::Words => {}
        // picolibc exists only for the guests' target.
        Memory::Picolibc => sources.files.push(source_folder().join("words.c")),
    }
    compile_once("clang-22", &flags, &sources, &guest.name)
}

/// Targets of other engines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Foreign {
    /// 32-bit WebAssembly.
    Wasm,
    /// 32-bit WebAssembly with wide arithmetic.
    WasmWide,
    /// PolkaVM's dialect of RISC-V.
    Polkavm,
}

impl Foreign {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Wasm => &WASM_FLAGS[1..],
            Self::WasmWide => &WASM_FLAGS,
            Self::Polkavm => &POLKAVM_FLAGS,
        }
    }
}

#[derive(Default)]
struct Sources {
    /// Files given to the compiler.
    files: Vec<PathBuf>,
    /// Further files that affect the result.
    watched: Vec<PathBuf>,
    /// Flags of the sources.
    flags: Vec<OsString>,
    /// Flags of the sources for guests only.
    guest_flags: &'static [&'static str],
}

impl Sources {
    fn of(source: &Source) -> Result<Self> {
        let folder = source_folder();
        let (Source::Program { file: own, .. } | Source::Case { file: own, .. }) = source;
        let mut sources = Self {
            files: vec![folder.join(own)],
            watched: ["argument.h", "attacks/exit.h", "guest_mbedtls.h", "pqclean.h"]
                .map(|file| folder.join(file))
                .into(),
            flags: vec![joined("-I", &folder)],
            ..Self::default()
        };
        if let Source::Program { library, memory, .. } = source {
            let taken = library.take()?;
            sources.flags.extend(taken.includes.iter().map(|include| joined("-I", include)));
            sources.flags.extend(taken.flags.iter().map(OsString::from));
            sources.files.extend(taken.files);
            sources.guest_flags = taken.guest_flags;
            if *memory == Memory::Words {
                sources.files.push(folder.join("words.c"));
            }
        }
        Ok(sources)
    }

    fn digest(&self, flags: &[OsString]) -> Result<Sha256Digest> {
        let mut seen = Vec::new();
        for flag in flags.iter().chain(&self.flags) {
            seen.extend_from_slice(flag.as_encoded_bytes());
            seen.push(0);
        }
        for file in self.files.iter().chain(&self.watched) {
            let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            seen.extend_from_slice(&Sha256Digest::of(&bytes).0);
        }
        Ok(Sha256Digest::of(&seen))
    }
}

/// Files that a C guest is linked with, in addition to those of its twin.
fn guest_libraries(memory: Memory) -> Result<Vec<PathBuf>> {
    let own = match memory {
        Memory::Bytes => Some(source_folder().join("memory.c")),
        Memory::Words => None,
        Memory::Picolibc => Some(PathBuf::from(PICOLIBC)),
    };
    Ok(own.into_iter().chain([libgcc()?]).collect())
}

/// The compiler's runtime library.
///
/// # Errors
/// The compiler is not installed.
pub fn libgcc() -> Result<PathBuf> {
    let mut compiler = Command::new(GUEST_COMPILER);
    let output = run(compiler.args(["-march=rv64imac", "-mabi=lp64", "-print-libgcc-file-name"]))?;
    Ok(PathBuf::from(String::from_utf8(output)?.trim()))
}

/// Compiles `sources` to a file with this name, unless it is cached for the same compiler, sources and flags.
fn compile_once(compiler: &str, flags: &[OsString], sources: &Sources, name: &str) -> Result<PathBuf> {
    let key = sources.digest(&[flags, &[compiler.into()]].concat())?;
    let path = kept_folder().join(key.to_string()).join(name);
    if !path.exists() {
        compile(compiler, flags, sources, &path)?;
    }
    Ok(path)
}

fn compile(compiler: &str, flags: &[OsString], sources: &Sources, path: &Path) -> Result<()> {
    let folder = path.parent().context("a kept guest has a folder")?;
    fs::create_dir_all(folder)?;
    let fresh = tempfile::NamedTempFile::new_in(folder)?.into_temp_path();
    let mut command = Command::new(compiler);
    run(command.args(flags).args(&sources.flags).args(&sources.files).arg("-o").arg(&fresh))?;
    fresh.persist(path)?;
    Ok(())
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text
}
