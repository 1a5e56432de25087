//! Errors of the machine itself. How a script ends is an [`Outcome`](crate::Outcome), never an error.

use std::io;

use thiserror::Error;

/// The machine could not be created, or the request is invalid.
#[derive(Debug, Error)]
pub enum VmError {
    /// The kernel refused address space.
    #[error("mapping {bytes} bytes of {what}")]
    Map {
        /// Purpose of the bytes.
        what: &'static str,
        /// How many.
        bytes: usize,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a signal handler or an alternate signal stack.
    #[error("installing signal handling ({what})")]
    Signals {
        /// The failed step.
        what: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// Not a VM version: 0, 1 and 2 are.
    #[error("VM version {0}, expected 0, 1 or 2")]
    VmVersion(u32),
    /// Unknown ISA flags.
    #[error("ISA flags {0:#x}, expected a sum of 1 (B), 2 (MOP) and 4 (A)")]
    Isa(u8),
    /// [`Tier::Native`](crate::Tier::Native) was requested without a library.
    #[error("the native tier was asked for without a library")]
    NoLibrary,
    /// [`Tier::Native`](crate::Tier::Native) was requested with a library for another VM version or ISA.
    #[error(
        "the library is for VM version {library_version} and ISA {library_isa:#x}, the script for {vm_version} and {isa:#x}"
    )]
    LibraryMismatch {
        /// VM version of the library.
        library_version: u32,
        /// ISA flags of the library.
        library_isa: u32,
        /// Requested VM version.
        vm_version: u32,
        /// Requested ISA flags.
        isa: u8,
    },
}

/// A shared object that is not a library of this kind or version.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// The file could not be opened.
    #[error("opening the library file")]
    File(#[source] io::Error),
    /// The dynamic linker refused it.
    #[error("loading the library")]
    Load(#[source] libloading::Error),
    /// It does not export the header symbol.
    #[error("the library has no header symbol")]
    NoHeader(#[source] libloading::Error),
    /// The header symbol is not in the library's own read-only data.
    #[error("the header symbol is outside the library's data")]
    HeaderPlace,
    /// The header has the wrong magic.
    #[error("the header begins with {found:02x?}")]
    Magic {
        /// The first bytes of the header.
        found: [u8; 8],
    },
    /// Compiled for another ABI version: compile it again.
    #[error("ABI version {found}, expected {expected}")]
    AbiVersion {
        /// Version of the library.
        found: u32,
        /// Version of this machine.
        expected: u32,
    },
    /// The entry table is not inside the library, not aligned, or too long.
    #[error("the entry table of {length} entries at {offset:#x} from the header is not a table")]
    Table {
        /// Entries.
        length: u32,
        /// Bytes from the header.
        offset: i64,
    },
    /// The directory of the entry table is not inside the library, not aligned, too long, or begins at an odd
    /// guest address.
    #[error("the directory of {length} entries at {offset:#x} from the header is not a directory")]
    Directory {
        /// Entries.
        length: u32,
        /// Bytes from the header.
        offset: i64,
    },
    /// The library has no executable segment, or several.
    #[error("{found} executable segments, expected one")]
    Text {
        /// How many it has.
        found: usize,
    },
}
