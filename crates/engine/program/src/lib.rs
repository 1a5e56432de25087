//! Recovers a [`Program`] from an ELF's [`Image`]: segments, functions, blocks of decoded instructions.
//!
//! `read` loads the ELF exactly as ckb-vm does. `recover` finds functions and blocks with ckb-vm's own
//! decoder, which defines fusions, hints and version rules.

mod assemble;
mod code_table;
mod constants;
mod decode;
mod explore;
mod image;
mod instruction;
mod jump_table;
mod line;
mod recover;
mod taken;
mod text;
mod trace;

use std::fmt;

pub use decode::Decoder;
pub use image::{Image, Symbol, read};
pub use instruction::{Format, Instruction, Op, Reg, RegSet};
pub use recover::{Block, BlockId, Function, FunctionId, Program, Terminator, recover};

/// A guest address: any 64-bit value, in memory or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestAddr(pub u64);

impl fmt::Display for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why an ELF cannot be compiled. The same bytes always give the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// ckb-vm refuses to load the ELF.
    #[error("ckb-vm refuses the ELF: {error}")]
    Elf {
        /// ckb-vm's error, as text.
        error: String,
    },
    /// No ckb-vm machine supports the options.
    #[error("VM version {vm_version} with ISA flags {isa} is no machine that ckb-vm runs")]
    Options {
        /// VM version.
        vm_version: u32,
        /// ISA flags.
        isa: u8,
    },
    /// More executable bytes than allowed.
    #[error("{found} bytes of executable pages, at most {max} are allowed")]
    CodeBytes {
        /// Bytes found.
        found: u64,
        /// Limit.
        max: u64,
    },
    /// More functions than allowed.
    #[error("more than {max} functions; the last one found is at {at}")]
    Functions {
        /// Limit.
        max: u64,
        /// Entry of the first function beyond the limit.
        at: GuestAddr,
    },
    /// More blocks than allowed.
    #[error("more than {max} blocks; the last one found is at {at}")]
    Blocks {
        /// Limit.
        max: u64,
        /// Start of the function that exceeds the limit.
        at: GuestAddr,
    },
}
