//! How the script groups of a verification ended, in the form in which processes tell it.

use serde::{Deserialize, Serialize};

use super::lines::Lines;

/// Lock or type script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupKind {
    /// Guards inputs.
    Lock,
    /// Guards inputs and outputs that carry it.
    Type,
}

/// Names of the errors of ckb-vm: the variants of its `Error`.
pub const VM_ERRORS: [&str; 25] = [
    "Asm",
    "CyclesExceeded",
    "CyclesOverflow",
    "ElfBits",
    "ElfParseError",
    "ElfSegmentAddrOrSizeError",
    "ElfSegmentUnreadable",
    "ElfSegmentWritableAndExecutable",
    "External",
    "IO",
    "InvalidEcall",
    "InvalidInstruction",
    "InvalidOp",
    "InvalidVersion",
    "MemOutOfBound",
    "MemOutOfStack",
    "MemPageUnalignedAccess",
    "MemWriteOnExecutablePage",
    "MemWriteOnFreezedPage",
    "Pause",
    "SnapshotDataLoadError",
    "TraceLengthError",
    "Unexpected",
    "Unimplemented",
    "Yield",
];

/// Names of the errors of ckb-script: the variants of its `ScriptError`.
pub const SCRIPT_ERRORS: [&str; 11] = [
    "CyclesOverflow",
    "EncounteredKnownBugs",
    "ExceededMaximumCycles",
    "Interrupts",
    "InvalidScriptHashType",
    "InvalidVmVersion",
    "MultipleMatches",
    "Other",
    "ScriptNotFound",
    "VMInternalError",
    "ValidationFailure",
];

/// How a group, or the whole transaction, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifyOutcome {
    /// Accepted.
    Ok,
    /// A script did not accept it.
    Failed,
    /// A group that was not run: one before it did not end well, or it was not asked for.
    NotRun,
}

/// Why a group failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupError {
    /// Name of the variant of ckb-script's `ScriptError`.
    pub kind: String,
    /// With `VMInternalError`: name of the variant of ckb-vm's `Error`.
    pub vm_error: Option<String>,
    /// The script, as ckb-script names it: `Inputs[0].Lock`.
    pub source: String,
    /// The error's text.
    pub detail: String,
}

/// How one script group ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Hash of the script.
    pub script_hash: [u8; 32],
    /// Lock or type.
    pub kind: GroupKind,
    /// How it ended.
    pub outcome: VerifyOutcome,
    /// What the script exited with, if it did.
    pub exit_code: Option<i8>,
    /// With [`VerifyOutcome::Failed`].
    pub error: Option<GroupError>,
    /// Cycles, up to the failure if there was one.
    pub cycles: u64,
    /// Of these in native code.
    pub native_cycles: u64,
    /// Of these in the interpreter.
    pub interpreted_cycles: u64,
    /// Why native code was left and the group run again, if it was: a `BailoutReason` name.
    pub restarted: Option<String>,
    /// Lines of debug output, in order.
    pub debug: Lines,
    /// Inputs whose cells have the script.
    pub inputs: Vec<u32>,
    /// Outputs that have the script.
    pub outputs: Vec<u32>,
}

impl GroupReport {
    /// Whether its script came to its own end in one tier, or did not run.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.restarted.is_none() && (self.error.is_none() || self.exit_code.is_some())
    }
}
