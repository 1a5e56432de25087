//! Guests in Rust: the workspace `guests/rust`, built by Debian's `rustc-web` with the standard library's
//! sources of `rust-web-src`, because the host's Rust may lack RISC-V targets.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use antares_abi::Sha256Digest;
use anyhow::{Context, Result, ensure};

use super::{build::kept_folder, source_folder};
use crate::crates::{cargo, files_below, run};

/// The compiler of Debian's package `rustc-web`, by its full path: the path may have another one first.
const COMPILER: &str = "/usr/bin/rustc";

/// Manifest of the standard library in the package `rust-web-src`.
const STANDARD_LIBRARY: &str = "/usr/lib/rustlib/src/rust/library/core/Cargo.toml";

const TARGET: &str = "riscv64imac-unknown-none-elf";

/// The flags of ckb-std's users, except for atomics: scripts have no extension A, and the guests' crate
/// `atomics` provides the remaining atomic functions.
const FLAGS: [&str; 4] = [
    "-Crelocation-model=static",
    "-Clinker-flavor=ld.lld",
    "-Clinker=ld.lld-22",
    "-Ctarget-feature=-a,+forced-atomics,+zba,+zbb,+zbc,+zbs",
];

/// The guests, by package name.
pub const RUST_GUESTS: [&str; 4] = ["collections", "formats", "handlers", "witness"];

/// A guest that the tests skip because it takes long: pairings over a curve, as in proof verifiers.
const PAIRING: &str = "pairing";

/// Optimisation level of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RustLevel {
    /// `opt-level = 3`.
    Fast,
    /// `opt-level = "z"`.
    Small,
}

impl RustLevel {
    /// All levels.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Small];

    /// The value of `opt-level`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "3",
            Self::Small => "z",
        }
    }

    /// The profile of the guests' workspace.
    fn profile(self) -> &'static str {
        match self {
            Self::Fast => "release",
            Self::Small => "small",
        }
    }
}

/// The ELF of a guest, with its symbols. The first call builds all guests at this level that tests run, which
/// takes a minute.
///
/// # Errors
/// Debian's Rust is not installed, a crate cannot be fetched, or the compiler rejects the sources.
pub fn rust_guest(name: &str, level: RustLevel) -> Result<Vec<u8>> {
    linked(name, level, &[])
}

/// The same with the linker's relocations.
///
/// # Errors
/// As [`rust_guest`].
pub fn rust_guest_with_relocations(name: &str, level: RustLevel) -> Result<Vec<u8>> {
    linked(name, level, &["-Clink-arg=-q"])
}

fn linked(name: &str, level: RustLevel, flags: &[&str]) -> Result<Vec<u8>> {
    // One build at a time for each level; between processes cargo locks the folder.
    static BUILDING: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
    let building = BUILDING[level as usize].lock().unwrap_or_else(PoisonError::into_inner);
    let folder = kept_folder().join(key(level, flags)?.to_string());
    if !folder.join(name).exists() {
        let names = if name == PAIRING { &[PAIRING][..] } else { &RUST_GUESTS };
        build(names, level, flags, &folder).context("building the guests in Rust")?;
    }
    drop(building);
    fs::read(folder.join(name)).with_context(|| format!("no guest in Rust is named {name:?}"))
}

fn workspace() -> PathBuf {
    source_folder().join("rust")
}

/// Digest of all inputs of a build.
fn key(level: RustLevel, flags: &[&str]) -> Result<Sha256Digest> {
    ensure!(Path::new(STANDARD_LIBRARY).exists(), "rust-web-src is not installed; run the set-up script");
    let version = run(Command::new(COMPILER).arg("-vV"))?;
    let mut seen =
        [FLAGS.join("\n").as_bytes(), flags.concat().as_bytes(), level.profile().as_bytes(), &version]
            .concat();
    for file in files_below(&workspace())? {
        seen.extend_from_slice(&Sha256Digest::of(&fs::read(&file)?).0);
    }
    Ok(Sha256Digest::of(&seen))
}

fn build(names: &[&str], level: RustLevel, flags: &[&str], folder: &Path) -> Result<()> {
    // cargo's target folder is large, and useless once the sources have changed.
    let target = kept_folder().join(format!("rust-{}", level.profile()));
    // Offline if the crates are cached; otherwise cargo fetches them.
    let build = |network: &[&str]| {
        let packages = names.iter().flat_map(|name| ["-p", name]);
        run(command(level, flags, &target).args(packages).args(network))
    };
    build(&["--offline"]).or_else(|_| build(&[]))?;
    fs::create_dir_all(folder)?;
    for name in names {
        let built = target.join(TARGET).join(level.profile()).join(name);
        let fresh = tempfile::NamedTempFile::new_in(folder)?.into_temp_path();
        fs::copy(&built, &fresh).with_context(|| format!("copying {}", built.display()))?;
        fresh.persist(folder.join(name))?;
    }
    Ok(fs::remove_dir_all(target)?)
}

/// The compiler for one Rust file without crates, with a core library built for it.
///
/// # Errors
///
/// As [`rust_guest`].
pub(super) fn alone() -> Result<Command> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = kept_folder().join(format!("rust-core-{}", key(RustLevel::Small, &[])?));
    let libraries = folder.join("lib/rustlib").join(TARGET).join("lib");
    if !libraries.exists() {
        let target = folder.join("target");
        let mut cargo = command(RustLevel::Small, &[], &target);
        // With the data for link-time optimisation.
        run(cargo.args(["--offline", "-p", "atomics"]).env("CARGO_PROFILE_SMALL_LTO", "true"))?;
        let built = target.join(TARGET).join(RustLevel::Small.profile()).join("deps");
        let fresh = tempfile::tempdir_in(&folder)?;
        for entry in fs::read_dir(built)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "rlib") {
                fs::copy(&path, fresh.path().join(path.file_name().context("a library has a name")?))?;
            }
        }
        fs::create_dir_all(libraries.parent().context("libraries have a folder")?)?;
        fs::rename(fresh.keep(), &libraries)?;
        fs::remove_dir_all(target)?;
    }
    drop(building);
    let mut command = Command::new(COMPILER);
    command.args(FLAGS).args(["--edition=2024", "--target", TARGET, "-Awarnings", "-Cpanic=abort", "-g"]);
    command.args(["-Ccodegen-units=1", "--sysroot"]).arg(&folder);
    Ok(command)
}

fn command(level: RustLevel, flags: &[&str], target: &Path) -> Command {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    // Panics contain file names: make the guest independent of the location of crates.
    let renamed = home.map(|home| format!("--remap-path-prefix={}=cargo", home.display()));
    let flags: Vec<&str> = FLAGS.iter().chain(flags).copied().chain(renamed.as_deref()).collect();
    let mut command = cargo();
    command
        .args(["build", "--quiet", "--locked", "-Zbuild-std=core,alloc", "--target", TARGET])
        .args(["--profile", level.profile()])
        .arg("--target-dir")
        .arg(target)
        .arg("--manifest-path")
        .arg(workspace().join("Cargo.toml"))
        // Wrappers for building these tests must not build the guests: the guests have their own profile, and
        // clippy would only check them.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("RUSTC", COMPILER)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    command
}
