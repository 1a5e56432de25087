//! The data model: what was seen.

use antares_abi::Sha256Digest;
use serde::{Deserialize, Serialize};

/// What is kept of a run, or of one script group of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The programs that ran.
    pub programs: Vec<Program>,
    /// How VMs ended, in that order: the one that decided is the last.
    pub vms: Vec<Vm>,
    /// The last system calls, in order.
    pub system_calls: Vec<SystemCall>,
    /// System calls before those.
    pub system_calls_left_out: u64,
    /// Code that a script has loaded from cells.
    pub codes: Vec<Code>,
    /// The last instructions, in order.
    pub steps: Vec<Step>,
}

/// A program that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Digest of its ELF; none if that was never seen as a whole.
    pub elf: Option<Sha256Digest>,
    /// VM version.
    pub vm_version: u32,
    /// ISA flags.
    pub isa: u8,
}

/// Code that a script has loaded with `load_cell_data_as_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The VM.
    pub vm: u64,
    /// Where it was loaded.
    pub address: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// Where in the cell's data it begins.
    pub offset: u64,
    /// Which cell.
    pub index: u64,
    /// Of which list.
    pub source: u64,
}

/// How a VM ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its number.
    pub id: u64,
    /// What ran in it.
    pub program: u32,
    /// How it ended.
    pub ending: Ending,
    /// The instruction that it ended at: of an exit, the system call.
    pub pc: u64,
    /// `x0..x31`.
    pub registers: [u64; 32],
    /// Calls under way.
    pub stack: Stack,
    /// The exit code, or the address that faulted, and where it came from.
    pub value: Option<Value>,
    /// The branches that may have decided it, each in its last execution: those of the call that made the value
    /// first, then those of its callers, in each of them the last first.
    pub branches: Vec<Branch>,
    /// The same of branches behind the instruction that made the exit code, the last first: one of them decided
    /// if its other way makes another code.
    pub later_branches: Vec<Branch>,
    /// Memory from the stack pointer on.
    pub memory: Option<Excerpt>,
    /// Whether its last instructions were followed one by one.
    pub is_followed: bool,
}

/// How a VM came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited.
    Exit(i8),
    /// An error of the VM.
    Error {
        /// Name of the variant of ckb-vm's `Error`.
        name: String,
        /// Its fields as text.
        detail: Option<String>,
        /// What the instruction was about to do, if it was seen.
        fault: Option<Fault>,
    },
}

/// What an instruction could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It was to read so many bytes.
    Load {
        /// Guest address.
        address: u64,
        /// How many.
        bytes: u8,
    },
    /// It was to write so many bytes.
    Store {
        /// Guest address.
        address: u64,
        /// How many.
        bytes: u8,
    },
    /// There is no instruction to be had.
    Fetch {
        /// Guest address.
        address: u64,
        /// The last jump.
        from: Option<u64>,
    },
    /// A system call failed.
    SystemCall {
        /// Its number.
        number: u64,
    },
    /// The next straight line of code would pass the limit.
    Cycles,
    /// Something else.
    Other,
}

/// Bytes of guest memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// Where they begin.
    pub address: u64,
    /// They.
    pub bytes: Vec<u8>,
}

/// A call, or what stands for one in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Called {
    /// An instruction.
    At {
        /// Which of [`Evidence::programs`].
        program: u32,
        /// Guest address.
        pc: u64,
    },
    /// A program that took the place of what is below.
    Exec(u32),
    /// A VM that what is below has started.
    Spawn(u32),
}

/// Calls under way, the outermost first: each with the instruction that calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The outermost.
    pub outer: Vec<Called>,
    /// Calls between those two that are left out.
    pub left_out: u64,
    /// The innermost.
    pub inner: Vec<Called>,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The value.
    pub value: u64,
    /// Where it came from.
    pub made: Made,
    /// Where the value that it was computed of came from, if it was computed of one.
    pub of: Option<Made>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// It was there before instructions were followed.
    Before,
    /// An instruction.
    Code {
        /// Calls with the instruction, which is the last.
        stack: Stack,
        /// Whether it computes nothing.
        is_constant: bool,
    },
    /// The result of a system call, by its number in the run.
    SystemCall(u64),
    /// Memory that nobody was seen writing to.
    Memory {
        /// Guest address.
        address: u64,
        /// The system call that wrote there last, by its number in the run.
        system_call: Option<u64>,
    },
}

/// A conditional branch that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Calls with the branch, which is the last.
    pub stack: Stack,
    /// Calls between it and what made the value.
    pub calls_above: u32,
    /// Name of the instruction.
    pub name: String,
    /// Registers that it compares.
    pub registers: [u8; 2],
    /// Where it went.
    pub to: u64,
    /// Where it would have gone otherwise.
    pub instead: u64,
    /// Whether it was taken.
    pub is_taken: bool,
    /// What it compared.
    pub left: Value,
    /// With what.
    pub right: Value,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Which of [`Evidence::programs`].
    pub program: u32,
    /// Guest address.
    pub pc: u64,
    /// The register that it has changed, and to what.
    pub changed: Option<(u8, u64)>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCall {
    /// Its number in the run, from 0.
    pub index: u64,
    /// The VM that made it.
    pub vm: u64,
    /// Number of the system call.
    pub number: u64,
    /// `a0..a5`.
    pub arguments: [u64; 6],
    /// What it gave; none if it did not come back.
    pub result: Option<u64>,
    /// Bytes that there was room for, or that were to be written.
    pub room: Option<u64>,
    /// The length that it told.
    pub length: Option<u64>,
    /// The first bytes that it read or wrote.
    pub data: Vec<u8>,
    /// Arguments of a program that it starts.
    pub words: Vec<Vec<u8>>,
    /// Cycles of the VM when it was made.
    pub cycles: u64,
    /// Cycles that it took.
    pub cost: u64,
    /// Calls with the instruction, which is the last.
    pub stack: Stack,
}
