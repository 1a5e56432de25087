//! The data model of evidence.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

pub use crate::ProfiledProgram as Program;

/// Evidence of a run, or of one script group of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The programs that ran.
    pub programs: Vec<Program>,
    /// How VMs ended, in that order: the last one decided the result.
    pub vms: Vec<Vm>,
    /// The last system calls, in order.
    pub system_calls: Vec<SystemCall>,
    /// Number of earlier system calls that are not recorded.
    pub system_calls_left_out: u64,
    /// Code that scripts loaded from cells.
    pub codes: Vec<Code>,
    /// The last instructions, in order.
    pub steps: Vec<Step>,
}

/// Code that a script loaded with `load_cell_data_as_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Number of the VM.
    pub vm: u64,
    /// Guest address of the code.
    pub address: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// Offset in the cell's data.
    pub offset: u64,
    /// Index of the cell.
    pub index: u64,
    /// Source of the cell: which list the index refers to.
    pub source: u64,
}

/// How a VM ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Number of the VM.
    pub id: u64,
    /// Index of its program.
    pub program: u32,
    /// How it ended.
    pub ending: Ending,
    /// Address of its last instruction; for an exit, the system call.
    pub pc: u64,
    /// Registers `x0..x31`.
    pub registers: [u64; 32],
    /// Its call stack.
    pub stack: Stack,
    /// The exit code or the faulting address, with its origin.
    pub value: Option<Value>,
    /// Branches that may have decided the value, each in its last execution: first those of the call that computed
    /// it, then those of its callers, the last one first in each.
    pub branches: Vec<Branch>,
    /// Branches after the instruction that computed the exit code, the last one first. One is decisive if its other
    /// direction computes another code.
    pub later_branches: Vec<Branch>,
    /// Memory from the stack pointer on.
    pub memory: Option<Excerpt>,
    /// Whether its last instructions were traced.
    pub is_followed: bool,
}

/// How a VM ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited.
    Exit(i8),
    /// An error of the VM.
    Error {
        /// Variant name of ckb-vm's `Error`.
        name: String,
        /// Its fields, as text.
        detail: Option<String>,
        /// The operation that failed, if it was traced.
        fault: Option<Fault>,
    },
}

/// The operation that an instruction could not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// A load.
    Load {
        /// Guest address.
        address: u64,
        /// Length of the access.
        bytes: u8,
    },
    /// A store.
    Store {
        /// Guest address.
        address: u64,
        /// Length of the access.
        bytes: u8,
    },
    /// No instruction can be fetched.
    Fetch {
        /// Guest address.
        address: u64,
        /// Address of the last jump.
        from: Option<u64>,
    },
    /// A system call failed.
    SystemCall {
        /// Number of the system call.
        number: u64,
    },
    /// The next straight-line trace would exceed the cycle limit.
    Cycles,
    /// Another operation.
    Other,
}

/// Bytes of guest memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// Guest address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Called {
    /// A call instruction.
    At {
        /// Index in [`Evidence::programs`].
        program: u32,
        /// Guest address.
        pc: u64,
    },
    /// A program that replaced the one below by `exec`.
    Exec(u32),
    /// A VM that the entry below spawned.
    Spawn(u32),
}

/// A call stack, the outermost call first: each entry is the call instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The outermost calls.
    pub outer: Vec<Called>,
    /// Number of omitted calls between the two lists.
    pub left_out: u64,
    /// The innermost calls.
    pub inner: Vec<Called>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The value.
    pub value: u64,
    /// Its origin.
    pub made: Made,
    /// Origin of the operand that it was computed from, if there is one.
    pub of: Option<Made>,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// It existed before tracing started.
    Before,
    /// An instruction.
    Code {
        /// Call stack with the instruction as its last entry.
        stack: Stack,
        /// Whether it computes nothing.
        is_constant: bool,
    },
    /// The result of a system call, by its index in the run.
    SystemCall(u64),
    /// Memory without a traced write.
    Memory {
        /// Guest address.
        address: u64,
        /// The last system call that wrote there, by its index in the run.
        system_call: Option<u64>,
    },
}

/// An executed conditional branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Call stack with the branch as its last entry.
    pub stack: Stack,
    /// Calls between it and what made the value.
    pub calls_above: u32,
    /// Name of the instruction.
    pub name: String,
    /// The compared registers.
    pub registers: [u8; 2],
    /// Its target.
    pub to: u64,
    /// The target of its other direction.
    pub instead: u64,
    /// Whether it was taken.
    pub is_taken: bool,
    /// The left operand.
    pub left: Value,
    /// The right operand.
    pub right: Value,
}

/// An executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Index in [`Evidence::programs`].
    pub program: u32,
    /// Guest address.
    pub pc: u64,
    /// The register that it changed, and the new value.
    pub changed: Option<(u8, u64)>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCall {
    /// Its index in the run, from 0.
    pub index: u64,
    /// Number of the calling VM.
    pub vm: u64,
    /// Number of the system call.
    pub number: u64,
    /// Registers `a0..a5`.
    pub arguments: [u64; 6],
    /// Its result; `None` if it did not return.
    pub result: Option<u64>,
    /// Size of the buffer, or of the data to write.
    pub room: Option<u64>,
    /// The length that it returned.
    pub length: Option<u64>,
    /// The first bytes that it read or wrote.
    pub data: Vec<u8>,
    /// Arguments of a started program.
    pub words: Vec<Vec<u8>>,
    /// Cycles of the VM at the call.
    pub cycles: u64,
    /// Cycles that it cost.
    pub cost: u64,
    /// Call stack with the instruction as its last entry.
    pub stack: Stack,
}
