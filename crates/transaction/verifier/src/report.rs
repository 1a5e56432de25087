//! Reports of a verification, as a whole and for each script group.

use std::fmt::{self, Display, Write};

use ckb_script::{ScriptError, ScriptGroup, ScriptGroupType};
use ckb_vm::Error as VmError;

use crate::{TierCycles, limits::DETAIL_BYTES_MAX};

/// Lock or type script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Guards inputs.
    Lock,
    /// Guards inputs and outputs that have it.
    Type,
}

impl From<ScriptGroupType> for GroupKind {
    fn from(kind: ScriptGroupType) -> Self {
        match kind {
            ScriptGroupType::Lock => Self::Lock,
            ScriptGroupType::Type => Self::Type,
        }
    }
}

impl From<GroupKind> for ScriptGroupType {
    fn from(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Lock => Self::Lock,
            GroupKind::Type => Self::Type,
        }
    }
}

/// How a group or the whole verification ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// All selected groups accepted the transaction.
    Ok,
    /// A script rejected it or failed.
    Failed,
    /// The verification was cancelled.
    Cancelled,
    /// Not run: an earlier group failed, or the group was not selected. Never the outcome of the whole.
    NotRun,
}

/// Why a group failed, in ckb-script's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupError {
    /// Name of the variant of ckb-script's `ScriptError`.
    pub name: &'static str,
    /// For `VMInternalError`: name of the variant of ckb-vm's `Error`.
    pub vm_error: Option<&'static str>,
    /// The script, named by the first cell that has it: `Inputs[0].Lock`.
    pub source: String,
    /// The error's text, truncated to [`DETAIL_BYTES_MAX`] bytes.
    pub detail: String,
}

impl GroupError {
    pub(crate) fn new(error: &ScriptError, group: &ScriptGroup) -> Self {
        let vm_error = match error {
            ScriptError::VMInternalError(error) => Some(vm_error_name(error)),
            _ => None,
        };
        Self { name: error_name(error), vm_error, source: source(group), detail: shorten(error) }
    }
}

impl Display for GroupError {
    /// Like ckb-script's `TransactionScriptError`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionScriptError {{ source: {}, cause: {} }}", self.source, self.detail)
    }
}

/// How one script group ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Hash of the script.
    pub script_hash: [u8; 32],
    /// Lock or type.
    pub kind: GroupKind,
    /// How it ended.
    pub outcome: TransactionOutcome,
    /// The script's exit code, if it exited.
    pub exit_code: Option<i8>,
    /// Why the group failed, with [`TransactionOutcome::Failed`].
    pub error: Option<GroupError>,
    /// Cycles, up to the failure if there was one.
    pub cycles: u64,
    /// Cycles by tier. The built-in type id script runs in neither.
    pub counts: TierCycles,
    /// Lines of debug output, in order.
    pub debug: Vec<String>,
    /// Number of dropped lines: the first beyond the limit, and all after it.
    pub debug_lines_left_out: u64,
    /// Bytes of the dropped lines, plus one for the end of each.
    pub debug_bytes_left_out: u64,
    /// Inputs whose cells have the script.
    pub inputs: Vec<usize>,
    /// Outputs that have the script.
    pub outputs: Vec<usize>,
}

/// How a verification ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionReport {
    /// How it ended.
    pub outcome: TransactionOutcome,
    /// Cycles of all groups that ran.
    pub cycles: u64,
    /// All groups, in the order in which they run.
    pub groups: Vec<GroupReport>,
}

impl TransactionReport {
    /// Why the transaction was not accepted.
    #[must_use]
    pub fn error(&self) -> Option<&GroupError> {
        self.groups.iter().find_map(|group| group.error.as_ref())
    }
}

fn error_name(error: &ScriptError) -> &'static str {
    match error {
        ScriptError::ScriptNotFound(_) => "ScriptNotFound",
        ScriptError::ExceededMaximumCycles(_) => "ExceededMaximumCycles",
        ScriptError::CyclesOverflow(..) => "CyclesOverflow",
        ScriptError::MultipleMatches => "MultipleMatches",
        ScriptError::ValidationFailure(..) => "ValidationFailure",
        ScriptError::EncounteredKnownBugs(..) => "EncounteredKnownBugs",
        ScriptError::InvalidScriptHashType(_) => "InvalidScriptHashType",
        ScriptError::InvalidVmVersion(_) => "InvalidVmVersion",
        ScriptError::VMInternalError(_) => "VMInternalError",
        ScriptError::Interrupts => "Interrupts",
        ScriptError::Other(_) => "Other",
    }
}

fn vm_error_name(error: &VmError) -> &'static str {
    match error {
        VmError::Asm(_) => "Asm",
        VmError::CyclesExceeded => "CyclesExceeded",
        VmError::CyclesOverflow => "CyclesOverflow",
        VmError::ElfBits => "ElfBits",
        VmError::ElfParseError(_) => "ElfParseError",
        VmError::ElfSegmentUnreadable => "ElfSegmentUnreadable",
        VmError::ElfSegmentWritableAndExecutable => "ElfSegmentWritableAndExecutable",
        VmError::ElfSegmentAddrOrSizeError => "ElfSegmentAddrOrSizeError",
        VmError::External(_) => "External",
        VmError::InvalidEcall(_) => "InvalidEcall",
        VmError::InvalidInstruction { .. } => "InvalidInstruction",
        VmError::InvalidOp(_) => "InvalidOp",
        VmError::InvalidVersion => "InvalidVersion",
        VmError::IO { .. } => "IO",
        VmError::MemOutOfBound => "MemOutOfBound",
        VmError::MemOutOfStack => "MemOutOfStack",
        VmError::MemPageUnalignedAccess => "MemPageUnalignedAccess",
        VmError::MemWriteOnExecutablePage => "MemWriteOnExecutablePage",
        VmError::MemWriteOnFreezedPage => "MemWriteOnFreezedPage",
        VmError::Pause => "Pause",
        VmError::SnapshotDataLoadError => "SnapshotDataLoadError",
        VmError::TraceLengthError => "TraceLengthError",
        VmError::Unexpected(_) => "Unexpected",
        VmError::Unimplemented => "Unimplemented",
        VmError::Yield => "Yield",
    }
}

/// ckb-script's name for the location of the script.
fn source(group: &ScriptGroup) -> String {
    // Only the location is needed, so the error is arbitrary.
    ScriptError::Interrupts.source(group).originating_script().to_string()
}

/// The text of `value`, truncated to [`DETAIL_BYTES_MAX`]; the rest is never formatted.
fn shorten(value: &impl Display) -> String {
    struct Cut(String);
    impl Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = DETAIL_BYTES_MAX - self.0.len();
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut cut = Cut(String::new());
    // An error means that the text was truncated.
    let _ = write!(cut, "{value}");
    cut.0
}

#[cfg(test)]
mod tests {
    use antares_hosted::job::{SCRIPT_ERRORS, VM_ERRORS};

    use super::*;

    #[test]
    fn the_names_that_supervisors_accept_are_these() {
        let source = include_str!("report.rs");
        let names = |function: &str| {
            let body = source.split(function).nth(1).unwrap().split("\n}\n").next().unwrap();
            let mut names: Vec<&str> = body.lines().filter_map(|line| line.split('"').nth(1)).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names("fn error_name("), SCRIPT_ERRORS);
        assert_eq!(names("fn vm_error_name("), VM_ERRORS);
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shorten(&"short"), "short");
        let long = format!("a{}", "ü".repeat(DETAIL_BYTES_MAX));
        assert_eq!(shorten(&long).len(), DETAIL_BYTES_MAX - 1);
        let error = ScriptError::VMInternalError(VmError::External("\n".repeat(1 << 20)));
        assert_eq!(shorten(&error).len(), DETAIL_BYTES_MAX);
    }
}
