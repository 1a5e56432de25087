//! Guests: RISC-V ELF files built at test time from sources in this repository and in published crates.
//!
//! A separate package, so that a user of guests builds no other tests. Guests are built once and cached in
//! `target/guests/<hash>`; the hash covers compiler flags and all sources.

mod build;
pub mod crates;
mod golden;
mod libraries;
mod loading;
mod npm;
mod published;
mod recipes;
mod refusals;
mod rust;

use std::path::PathBuf;

use anyhow::{Context, Result};

pub use build::{
    DEBUGGED, Foreign, GUEST_FLAGS, assemble, debugged, failing, foreign_compile, fuzzed, guest_compiler,
    hidden, libgcc, native_compile, script, with_relocations,
};
pub use golden::golden;
pub use libraries::Library;
pub use loading::{CACHED_CASES, cached_lock, loaded_library, loading_lock};
pub use npm::js_vm;
pub use published::{PublishedScript, debugger_examples, published_file, published_scripts};
pub use recipes::{Guest, Memory, Source, guest_named, guests};
pub use refusals::{BUILDS, Refusing, refusals, refusing};
pub use rust::{RUST_GUESTS, RustLevel, rust_guest, rust_guest_with_relocations};

/// Folder of the guests' own sources.
#[must_use]
pub fn source_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The ELF of the guest `name`, built on first use.
///
/// # Errors
/// The guest does not exist, no RISC-V compiler is installed, or it rejects the sources.
pub fn build(name: &str) -> Result<PathBuf> {
    let guest = guest_named(name).with_context(|| format!("no guest is named {name:?}"))?;
    build::build(&guest).with_context(|| format!("building guest {name}"))
}

/// The bytes of a guest from a file with its own `_start`, built with `case` defined.
///
/// # Errors
/// As [`build()`].
pub fn case(file: &'static str, case: &str, march: &'static str, level: &'static str) -> Result<Vec<u8>> {
    let source = Source::Case { file, case: case.to_owned() };
    let guest = Guest { name: case.to_lowercase(), about: "one case of a file", source, march, level };
    let path = build::build(&guest).with_context(|| format!("building {file} with {case}"))?;
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// The bytes of the guest `name`, built on first use.
///
/// # Errors
/// As [`build()`], or the file cannot be read.
pub fn bytes(name: &str) -> Result<Vec<u8>> {
    let path = build(name)?;
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}
