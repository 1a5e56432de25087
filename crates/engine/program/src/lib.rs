//! ELF bytes to [`Image`] to [`Program`]: segments, functions, blocks of decoded instructions. Knows no LLVM.
//!
//! `read` loads the ELF exactly as ckb-vm does; `recover` finds functions and blocks in what was loaded, with
//! ckb-vm's own decoder, so that fusions, hints and version rules are its and not ours.
#![forbid(unsafe_code)]

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
pub use instruction::{Instruction, Op, Reg, RegSet};
pub use recover::{Block, BlockId, Function, FunctionId, Program, Terminator, recover};

/// A guest address: any 64-bit value, no promise that memory is there.
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

/// Why an ELF cannot be compiled. The same bytes give the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// ckb-vm refuses to load the ELF.
    #[error("ckb-vm refuses the ELF: {error}")]
    Elf {
        /// ckb-vm's error, as text.
        error: String,
    },
    /// The options are none that ckb-vm runs.
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
        /// Entry of the function that was one too many.
        at: GuestAddr,
    },
    /// More blocks than allowed.
    #[error("more than {max} blocks; the last one found is at {at}")]
    Blocks {
        /// Limit.
        max: u64,
        /// Start of the block that was one too many.
        at: GuestAddr,
    },
}
