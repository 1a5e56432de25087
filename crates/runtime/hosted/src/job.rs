//! Jobs, messages and reports of an interpreted script group, including the host calls that debuggers offer
//! to scripts.

mod groups;
mod lines;
mod run;

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use groups::{GroupError, GroupKind, GroupReport, SCRIPT_ERRORS, VM_ERRORS, VerifyOutcome, variant_name};
pub use lines::{DEBUG_LINES_MAX, DebugLog, Lines, Omitted};
pub use run::{RunOutcome, RunReport, Samples};

/// The consensus rules that apply to a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// First epoch in which VM version 1 runs.
    pub vm_1_epoch: u64,
    /// First epoch in which VM version 2 runs.
    pub vm_2_epoch: u64,
    /// Epoch of the block that commits the transaction.
    pub epoch: u64,
}

/// A cell of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellName {
    /// The cell that this input spends.
    Input(u32),
    /// This output.
    Output(u32),
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(index) => write!(f, "input.{index}"),
            Self::Output(index) => write!(f, "output.{index}"),
        }
    }
}

/// A job of a hosted process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostedJob {
    /// Run a script group.
    Run(Box<HostedRun>),
    /// Run a script group under a gdb.
    Debug(Box<HostedDebug>),
    /// Decode an instruction.
    Decode(u32),
}

/// One script group to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedRun {
    /// The document of `antares_transaction::Mock`.
    pub document: Bytes,
    /// Cell data outside of the document: ckb's hash, as the transaction's scripts use it, and the data.
    pub cells: Vec<([u8; 32], Bytes)>,
    /// The rules.
    pub rules: Rules,
    /// Lock or type.
    pub kind: GroupKind,
    /// A cell of the group.
    pub cell: CellName,
    /// Arguments of the first VM.
    pub args: Vec<Bytes>,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Whether there is content for [`HostCall::Input`].
    pub has_input: bool,
    /// Whether a guest may dump itself.
    pub may_dump: bool,
    /// Observations to make step by step during the run; `None` for the fastest interpreter.
    pub watch: Option<Watch>,
}

/// One script group to debug with gdb. After the job, the connection carries only gdb's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedDebug {
    /// The group, without the features that a host serves.
    pub run: HostedRun,
    /// Whether the only available system call is the one that prints.
    pub only_prints: bool,
    /// Whether it stops before an exit with a nonzero code.
    pub breaks_on_error: bool,
    /// Where it stops once, in total cycles of all VMs.
    pub break_at_cycles: Option<u64>,
    /// The VM to debug, which stops before its first instruction.
    pub vm: u64,
    /// Whether gdb gets the script as a file.
    pub has_file: bool,
}

/// How a gdb session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DebugEnd {
    /// gdb saw the script exit with this code.
    Exited(i8),
    /// gdb saw the VM fail.
    Failed,
    /// gdb detached or disconnected.
    Left,
    /// gdb killed the script.
    Killed,
}

/// Observations to make while a group runs step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The observed VM.
    pub vm: u64,
    /// Report its calls, with the cycles of each.
    pub calls: bool,
    /// Report the instructions that it ran.
    pub reached: bool,
    /// Report its registers before each instruction.
    pub steps: bool,
    /// Stop if its stack overlaps its heap. Requires `calls`.
    pub overlap: bool,
    /// Cycle limit of the observation, after which the VM is treated as ended.
    pub cycles_max: u64,
}

/// A message from a hosted process to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostedNews {
    /// A line of debug output of this VM.
    Line {
        /// The VM's number.
        vm: u64,
        /// The line.
        text: String,
    },
    /// A guest's call, which waits for a [`HostAnswer`].
    Call(HostCall),
    /// A part of the observations.
    Watched(Watched),
    /// How the group ended. The last message.
    Ended(HostedEnd),
    /// The decoded instruction; empty if the VM has none. The last message.
    Decoded(Vec<DecodedInstruction>),
    /// There is a VM for gdb to debug.
    Ready,
    /// Data for gdb.
    Words(Vec<u8>),
    /// gdb detached or saw the end. The last message.
    Debugged(DebugEnd),
    /// The job cannot be done. The last message.
    Refused(String),
    /// Required layers of the sandbox are missing. The last message.
    LayersMissing {
        /// Which, and why.
        text: String,
        /// Their names, with commas between them.
        names: String,
    },
}

/// An instruction of one instruction set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodedInstruction {
    /// `I`, `M`, `A`, `C` or `B`.
    pub set: char,
    /// The assembly text.
    pub text: String,
}

/// A part of the observations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watched {
    /// The call tree from its root, each node after its parent: depth, address, own cycles.
    Calls(Vec<CallNode>),
    /// Addresses of executed instructions.
    Reached(Vec<u64>),
    /// The next part of the step log.
    Steps(String),
}

/// A call in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallNode {
    /// Depth; 0 for the root.
    pub depth: u32,
    /// Address of the function.
    pub address: u64,
    /// Cycles of its own instructions.
    pub cycles: u64,
}

/// How a group ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedEnd {
    /// Exit code and cycles, or the VM's error text.
    pub result: Result<(i8, u64), String>,
    /// With a [`Watch`]: the VMs in the order of their start.
    pub vms: Vec<WatchedVm>,
    /// State of the VM at the end of the observation, if that was before the VM's end.
    pub stopped: Option<StoppedVm>,
}

/// State of a VM at the end of its observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedVm {
    /// The reason, for people.
    pub error: String,
    /// The reason, as ckb-vm names it.
    pub name: String,
    /// Return addresses of its calls, outermost first, then its pc.
    pub stack: Vec<u64>,
    /// Its registers.
    pub registers: String,
}

/// An observed VM of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedVm {
    /// Its number.
    pub vm: u64,
    /// How often another program replaced the VM's program before.
    pub generation: u64,
    /// VM and generation of its creator; `None` for the first VM.
    pub parent: Option<(u64, u64)>,
    /// The list that contains its program.
    pub source: u64,
    /// Index of the cell in the list.
    pub index: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Cycles of its instructions, excluding loads and system calls.
    pub cycles: u64,
    /// Its exit code, if it exited.
    pub exit_code: Option<i8>,
}

/// A guest's request to the host. Descriptors and streams are numbers that the host assigned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// Close a descriptor.
    Close(i32),
    /// Seek in a descriptor.
    Seek(i32, i64, i32),
    /// Read from a descriptor, up to this number of bytes.
    Read(i32, u64),
    /// Write to a descriptor.
    Write(i32, Vec<u8>),
    /// Query the status of a descriptor.
    Stat(i32),
    /// Read the next part of the input, up to this number of bytes.
    Input(u64, u64),
    /// Query the time in nanoseconds since 1970.
    Time,
    /// Get a random number.
    Random,
    /// Open a stream: path, mode, and the stream that it replaces.
    Open(Vec<u8>, Vec<u8>, Option<u64>),
    /// Read items from a stream: size and number.
    ReadStream(u64, u64, u64),
    /// Query whether a stream is at its end.
    IsAtEnd(u64),
    /// Query whether a stream has failed.
    HasFailed(u64),
    /// Read one byte of a stream.
    Next(u64),
    /// Close a stream.
    CloseStream(u64),
    /// Query the position in a stream.
    Tell(u64),
    /// Seek in a stream.
    SeekStream(u64, i64, i32),
    /// Write items to a stream: item size, and the bytes of all items.
    WriteStream(u64, u64, Vec<u8>),
    /// Write a whole file.
    WriteFile(Vec<u8>, Vec<u8>),
    /// Store an ELF of the guest's current state.
    Dump(Vec<u8>),
    /// Query the functions of a program. The answer has 8 bytes each for the address of `_sbrk`, the start of
    /// the heap, and the address of each function.
    Functions(Vec<u8>),
}

/// The host's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// The result of the call.
    pub value: i64,
    /// Bytes for the guest's memory.
    pub bytes: Vec<u8>,
    /// An error that ends the guest instead.
    pub error: Option<String>,
}

/// Maximum bytes that one call of a guest may transfer.
pub const HOST_CALL_BYTES_MAX: u64 = 3 << 20;
