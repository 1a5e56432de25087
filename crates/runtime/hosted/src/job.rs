//! A script group that somebody interprets, and what it asks of its host meanwhile: what debuggers offer
//! scripts.

mod groups;
mod lines;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use groups::{GroupError, GroupKind, GroupReport, SCRIPT_ERRORS, VM_ERRORS, VerifyOutcome};
pub use lines::{DEBUG_LINES_MAX, LeftOut, Lines};

/// The rules under which a transaction is judged.
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

/// What a hosted process is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostedJob {
    /// Run a script group.
    Run(Box<HostedRun>),
    /// Serve a gdb a script group.
    Debug(Box<HostedDebug>),
    /// Tell what an instruction is.
    Decode(u32),
}

/// One script group to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedRun {
    /// The document of `antares_transaction::Mock`.
    pub document: Bytes,
    /// Data of cells beside it: ckb's hash, as the transaction's scripts have it, and the data.
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
    /// Whether a guest may have itself dumped.
    pub may_dump: bool,
    /// What to look at while it runs, step by step; none for the fastest interpreter.
    pub watch: Option<Watch>,
}

/// One script group that a gdb looks at. From the job on, what comes is the gdb's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedDebug {
    /// The group, without what a host serves.
    pub run: HostedRun,
    /// Whether its only system call is the one that prints.
    pub only_prints: bool,
    /// Whether it stops before an exit with another code than 0.
    pub breaks_on_error: bool,
    /// Where it stops once, in cycles of all VMs.
    pub break_at_cycles: Option<u64>,
    /// The VM before whose first instruction it begins.
    pub vm: u64,
    /// Whether the gdb is given the script as a file.
    pub has_file: bool,
}

/// How a gdb's session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DebugEnd {
    /// The gdb saw the script exit with this code.
    Exited(i8),
    /// It saw the VM fail.
    Failed,
    /// It left, or is gone.
    Left,
    /// It wants the script gone.
    Killed,
}

/// What is looked at while a group runs step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The VM that is looked at.
    pub vm: u64,
    /// Tell its calls, with the cycles of each.
    pub calls: bool,
    /// Tell which instructions it ran.
    pub reached: bool,
    /// Tell its registers before each instruction.
    pub steps: bool,
    /// End it where its stack meets its heap. Takes `calls`.
    pub overlap: bool,
    /// Cycles after which it is looked at no longer, as if it ended there.
    pub cycles_max: u64,
}

/// From a hosted process to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostedNews {
    /// A line of debug output of this VM.
    Line {
        /// The VM's number.
        vm: u64,
        /// The line.
        text: String,
    },
    /// A guest's call. It waits for a [`HostAnswer`].
    Call(HostCall),
    /// A part of what is watched.
    Watched(Watched),
    /// How the group ended. The last word.
    Ended(HostedEnd),
    /// What an instruction is; none that the VM has. The last word.
    Decoded(Vec<DecodedInstruction>),
    /// There is something that a gdb can look at.
    Ready,
    /// Words for the gdb.
    Words(Vec<u8>),
    /// The gdb has left, or saw the end. The last word.
    Debugged(DebugEnd),
    /// The job cannot be done. The last word.
    Refused(String),
}

/// An instruction as one instruction set has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodedInstruction {
    /// `I`, `M`, `A`, `C` or `B`.
    pub set: char,
    /// In assembly.
    pub text: String,
}

/// A part of what is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watched {
    /// The tree of calls, from its root, each node behind the one that it is under: depth, address, own
    /// cycles.
    Calls(Vec<CallNode>),
    /// Addresses of instructions that ran.
    Reached(Vec<u64>),
    /// The next part of the text of steps.
    Steps(String),
}

/// A call in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallNode {
    /// How deep it is; the root has 0.
    pub depth: u32,
    /// Address of the function.
    pub address: u64,
    /// Cycles of its own instructions.
    pub cycles: u64,
}

/// How a group ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedEnd {
    /// Exit code and cycles, or what the VM says.
    pub result: Result<(i8, u64), String>,
    /// With a [`Watch`]: the VMs, in the order in which they began.
    pub vms: Vec<WatchedVm>,
    /// Where the VM was when it was looked at last, if that was before its end.
    pub stopped: Option<StoppedVm>,
}

/// Where a VM was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedVm {
    /// Why, as people read it.
    pub error: String,
    /// Why, as ckb-vm names it.
    pub name: String,
    /// Where its calls return to, outermost first, and where it is.
    pub stack: Vec<u64>,
    /// Its registers.
    pub registers: String,
}

/// A VM of a group that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedVm {
    /// Its number.
    pub vm: u64,
    /// How often another program had taken its place.
    pub generation: u64,
    /// Which VM, and which of its programs, made it; none for the first.
    pub parent: Option<(u64, u64)>,
    /// Where its program is.
    pub source: u64,
    /// Which cell there.
    pub index: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Cycles of its instructions alone.
    pub cycles: u64,
    /// What it exited with, if it did.
    pub exit_code: Option<i8>,
}

/// What a guest asks of the host. Numbers of descriptors and streams are those that the host gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// Close a descriptor.
    Close(i32),
    /// Move in a descriptor.
    Seek(i32, i64, i32),
    /// Read from a descriptor, at most so many bytes.
    Read(i32, u64),
    /// Write to a descriptor.
    Write(i32, Vec<u8>),
    /// What a descriptor is.
    Stat(i32),
    /// Read on in the input, at most so many bytes.
    Input(u64, u64),
    /// The time, nanoseconds since 1970.
    Time,
    /// A random number.
    Random,
    /// Open a stream: path, mode, and the stream that it takes the place of.
    Open(Vec<u8>, Vec<u8>, Option<u64>),
    /// Read items from a stream: their size and number.
    ReadStream(u64, u64, u64),
    /// Whether a stream is at its end.
    IsAtEnd(u64),
    /// Whether a stream has failed.
    HasFailed(u64),
    /// Read one byte of a stream.
    Next(u64),
    /// Close a stream.
    CloseStream(u64),
    /// Where a stream is.
    Tell(u64),
    /// Move in a stream.
    SeekStream(u64, i64, i32),
    /// Write items to a stream: their size, and all their bytes.
    WriteStream(u64, u64, Vec<u8>),
    /// Write a file whole.
    WriteFile(Vec<u8>, Vec<u8>),
    /// Keep an ELF of the guest as it is.
    Dump(Vec<u8>),
    /// Which functions a program has: where `_sbrk` begins, where its heap begins, and where each function
    /// begins, 8 bytes each.
    Functions(Vec<u8>),
}

/// What the host answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// What the call gives.
    pub value: i64,
    /// What goes to the guest's memory.
    pub bytes: Vec<u8>,
    /// Why the guest ends instead.
    pub error: Option<String>,
}

/// Bytes that one call of a guest may move.
pub const HOST_CALL_BYTES_MAX: u64 = 3 << 20;
