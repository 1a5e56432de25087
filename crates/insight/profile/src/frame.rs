//! What a stack is made of, and the programs that its addresses belong to.

use std::fmt;

use antares_abi::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::ProgramId;

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Frame {
    /// An instruction of the guest: the call for a frame that waits, the instruction itself for the last one.
    Code {
        /// The program that the address belongs to.
        program: ProgramId,
        /// Guest address.
        pc: u64,
    },
    /// Cycles that a system call takes beside those of its `ecall`.
    Syscall {
        /// Its number.
        number: u64,
    },
    /// Another program that took the place of the caller's, by `exec`.
    Exec {
        /// Which `exec` of the run it was, from 1.
        index: u32,
    },
    /// A VM that the caller spawned.
    Spawn {
        /// Which `spawn` of the run it was, from 1.
        index: u32,
    },
    /// A script group of a transaction.
    Group {
        /// Whether it is a type script; a lock script otherwise.
        is_type: bool,
        /// Its place in the order in which groups run, from 0.
        index: u32,
    },
    /// Cycles of loading a program, where the run is charged for it.
    Load,
    /// Cycles of putting VMs aside and of bringing them back.
    Switch,
    /// The type id script that ckb has built in.
    TypeId,
    /// What did not fit into the limits of the profile.
    Other,
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

/// A program that frames are in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProfiledProgram {
    /// Digest of its ELF; none where the ELF was never seen as a whole (code that a script loaded itself).
    pub elf: Option<Sha256Digest>,
    /// VM version that ran it.
    pub vm_version: u32,
    /// ISA flags that it ran with.
    pub isa: u8,
}

/// The name of a system call of CKB, without its prefix `ckb_`.
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
