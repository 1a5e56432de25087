//! Reports on the script groups of a verification, in the form that processes exchange.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::lines::Lines;

/// Lock or type script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Guards inputs.
    Lock,
    /// Guards inputs and outputs that have it.
    Type,
}

impl GroupKind {
    /// `lock` or `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Type => "type",
        }
    }
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

/// The variant of an `error` that is one of `names`. The error's fields are not formatted.
#[must_use]
pub fn variant_name(error: &impl fmt::Debug, names: &[&'static str]) -> Option<&'static str> {
    struct First(String);
    impl fmt::Write for First {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric());
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            end.map_or(Ok(()), |_| Err(fmt::Error))
        }
    }
    let mut first = First(String::new());
    // An error means that the name has ended.
    let _ = fmt::write(&mut first, format_args!("{error:?}"));
    names.iter().find(|name| **name == first.0).copied()
}

/// How a group or the whole transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifyOutcome {
    /// Accepted.
    Ok,
    /// A script rejected it or failed.
    Failed,
    /// The group was not run: an earlier group failed, or the group was not requested.
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

impl fmt::Display for GroupError {
    /// Like ckb-script's `TransactionScriptError`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionScriptError {{ source: {}, cause: {} }}", self.source, self.detail)
    }
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
    /// The script's exit code, if it exited.
    pub exit_code: Option<i8>,
    /// Why the group failed, with [`VerifyOutcome::Failed`].
    pub error: Option<GroupError>,
    /// Cycles, up to the failure if there was one.
    pub cycles: u64,
    /// Native part of the cycles.
    pub native_cycles: u64,
    /// Interpreted part of the cycles.
    pub interpreted_cycles: u64,
    /// Why native code bailed out and the group restarted, if it did: a `BailoutReason` name.
    pub restarted: Option<String>,
    /// Lines of debug output, in order.
    pub debug: Lines,
    /// Inputs whose cells have the script.
    pub inputs: Vec<u32>,
    /// Outputs that have the script.
    pub outputs: Vec<u32>,
}

impl GroupReport {
    /// Whether its script ended normally without a restart, or did not run.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.restarted.is_none() && (self.error.is_none() || self.exit_code.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_their_names() {
        #[derive(Debug)]
        #[allow(dead_code, reason = "only formatted")]
        enum Error {
            Pause,
            Asm(u8),
            IO { data: &'static str },
            Else,
        }
        let errors = [Error::Pause, Error::Asm(3), Error::IO { data: "Asm" }, Error::Else];
        let names = errors.map(|error| variant_name(&error, &VM_ERRORS));
        assert_eq!(names, [Some("Pause"), Some("Asm"), Some("IO"), None]);
    }
}
