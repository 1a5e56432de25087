//! Frames of a stack, and the programs that their addresses belong to.

use std::fmt;

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use serde::{Deserialize, Serialize};

use crate::ProgramId;

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Frame {
    /// A guest instruction: the call of a waiting frame, or the instruction itself in the last frame.
    Code {
        /// The program that the address belongs to.
        program: ProgramId,
        /// Guest address.
        pc: u64,
    },
    /// Cycles of a system call in addition to those of its `ecall`.
    Syscall {
        /// Its number.
        number: u64,
    },
    /// A program that replaced the caller's by `exec`.
    Exec {
        /// Number of the `exec` in the run, from 1.
        index: u32,
    },
    /// A VM that the caller spawned.
    Spawn {
        /// Number of the `spawn` in the run, from 1.
        index: u32,
    },
    /// A script group of a transaction.
    Group {
        /// Whether it is a type script; a lock script otherwise.
        is_type: bool,
        /// Position in the order of execution, from 0.
        index: u32,
    },
    /// Cycles for loading a program, if the run is charged for it.
    Load,
    /// Cycles for suspending and resuming VMs.
    Switch,
    /// The type id script, which is built into ckb.
    TypeId,
    /// Costs beyond the limits of the profile.
    Other,
}

impl Frame {
    /// The program and the address of code.
    #[must_use]
    pub fn code(self) -> Option<(ProgramId, u64)> {
        match self {
            Self::Code { program, pc } => Some((program, pc)),
            _ => None,
        }
    }
}

impl fmt::Display for Frame {
    /// The name of a frame without code; an address otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { pc, .. } => write!(f, "{pc:#x}"),
            Self::Syscall { number } => match syscall_name(*number) {
                Some(name) => write!(f, "[syscall {name}]"),
                None => write!(f, "[syscall {number}]"),
            },
            Self::Exec { index } => write!(f, "[exec #{index}]"),
            Self::Spawn { index } => write!(f, "[spawn #{index}]"),
            Self::Group { is_type: false, index } => write!(f, "[lock group #{index}]"),
            Self::Group { is_type: true, index } => write!(f, "[type group #{index}]"),
            Self::Load => f.write_str("[load]"),
            Self::Switch => f.write_str("[switch VMs]"),
            Self::TypeId => f.write_str("[type id]"),
            Self::Other => f.write_str("[other]"),
        }
    }
}

/// A program of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProfiledProgram {
    /// Digest of its ELF; `None` if the ELF was never available as a whole, as for code that a script loads
    /// itself.
    pub elf: Option<Sha256Digest>,
    /// VM version that ran it.
    pub vm_version: u32,
    /// ISA flags that it ran with.
    pub isa: u8,
}

impl ProfiledProgram {
    /// The options to read its ELF with.
    #[must_use]
    pub fn options(&self) -> CompileOptions {
        CompileOptions { vm_version: self.vm_version, isa: Isa(self.isa) }
    }
}

/// Name of a CKB system call, without the prefix `ckb_`.
#[must_use]
pub fn syscall_name(number: u64) -> Option<&'static str> {
    Some(match number {
        93 => "exit",
        2041 => "vm_version",
        2042 => "current_cycles",
        2043 => "exec",
        2051 => "load_transaction",
        2052 => "load_script",
        2061 => "load_tx_hash",
        2062 => "load_script_hash",
        2071 => "load_cell",
        2072 => "load_header",
        2073 => "load_input",
        2074 => "load_witness",
        2081 => "load_cell_by_field",
        2082 => "load_header_by_field",
        2083 => "load_input_by_field",
        2091 => "load_cell_data_as_code",
        2092 => "load_cell_data",
        2104 => "load_block_extension",
        2177 => "debug",
        2601 => "spawn",
        2602 => "wait",
        2603 => "process_id",
        2604 => "pipe",
        2605 => "write",
        2606 => "read",
        2607 => "inherited_fd",
        2608 => "close",
        _ => return None,
    })
}
