//! How a script ended, and ckb-vm's errors by name.

use std::time::Duration;

use antares_abi::{BailoutReason, Seen};
use ckb_vm::Error;

use crate::limits::DETAIL_BYTES_MAX;

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this code.
    Exit(i8),
    /// A ckb-vm error.
    Error {
        /// Name of the variant of ckb-vm's `Error`.
        name: &'static str,
        /// Its fields as text, at most [`DETAIL_BYTES_MAX`] bytes.
        detail: Option<String>,
    },
    /// The cycle limit was passed.
    CyclesExceeded,
}

/// Report of a run. Cycles are those of the run itself; loading is reported separately and not charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the script ended.
    pub outcome: Outcome,
    /// Cycles of the run, without [`Report::load_cycles`].
    pub cycles: u64,
    /// ceil((bytes of ELF segments + bytes of initial stack) / 4), 0 when loading failed.
    pub load_cycles: u64,
    /// Native cycles of the outcome: all or none of [`Report::cycles`].
    pub native_cycles: u64,
    /// Interpreted cycles of the outcome: none or all of [`Report::cycles`].
    pub interpreted_cycles: u64,
    /// Why native code bailed out, if it did.
    pub restarted: Option<BailoutReason>,
    /// Jump targets of the restarted run that native code did not know, if it bailed out for one.
    pub seen: Option<Seen>,
    /// Lines of debug output, in order.
    pub debug: Vec<String>,
    /// Number of dropped lines: the first beyond the limit, and all after it.
    pub debug_lines_left_out: u64,
    /// Bytes of the dropped lines, plus one for the end of each.
    pub debug_bytes_left_out: u64,
    /// Time for clearing memory and the first load of the ELF.
    pub load: Duration,
    /// Time of the run itself, including a restart and its load.
    pub run: Duration,
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        let (name, detail) = match error {
            Error::CyclesExceeded => return Self::CyclesExceeded,
            Error::Asm(code) => ("Asm", Some(code.to_string())),
            Error::CyclesOverflow => ("CyclesOverflow", None),
            Error::ElfBits => ("ElfBits", None),
            Error::ElfParseError(text) => ("ElfParseError", Some(text)),
            Error::ElfSegmentUnreadable => ("ElfSegmentUnreadable", None),
            Error::ElfSegmentWritableAndExecutable => ("ElfSegmentWritableAndExecutable", None),
            Error::ElfSegmentAddrOrSizeError => ("ElfSegmentAddrOrSizeError", None),
            Error::External(text) => ("External", Some(text)),
            Error::InvalidEcall(number) => ("InvalidEcall", Some(number.to_string())),
            Error::InvalidInstruction { pc, instruction } => {
                ("InvalidInstruction", Some(format!("pc={pc:#x} instruction={instruction:#x}")))
            }
            Error::InvalidOp(opcode) => ("InvalidOp", Some(opcode.to_string())),
            Error::InvalidVersion => ("InvalidVersion", None),
            Error::IO { kind, data } => ("IO", Some(format!("{kind:?} {data}"))),
            Error::MemOutOfBound => ("MemOutOfBound", None),
            Error::MemOutOfStack => ("MemOutOfStack", None),
            Error::MemPageUnalignedAccess => ("MemPageUnalignedAccess", None),
            Error::MemWriteOnExecutablePage => ("MemWriteOnExecutablePage", None),
            Error::MemWriteOnFreezedPage => ("MemWriteOnFreezedPage", None),
            Error::Pause => ("Pause", None),
            Error::SnapshotDataLoadError => ("SnapshotDataLoadError", None),
            Error::TraceLengthError => ("TraceLengthError", None),
            Error::Unexpected(text) => ("Unexpected", Some(text)),
            Error::Unimplemented => ("Unimplemented", None),
            Error::Yield => ("Yield", None),
        };
        Self::Error { name, detail: detail.map(shorten) }
    }
}

/// Truncates `text` to [`DETAIL_BYTES_MAX`] bytes, at a character boundary.
fn shorten(mut text: String) -> String {
    if text.len() > DETAIL_BYTES_MAX {
        let end = (0..=DETAIL_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_details() {
        let outcome = Outcome::from(Error::InvalidInstruction { pc: 0x1000, instruction: 0 });
        let detail = Some("pc=0x1000 instruction=0x0".to_owned());
        assert_eq!(outcome, Outcome::Error { name: "InvalidInstruction", detail });
        assert_eq!(Outcome::from(Error::CyclesExceeded), Outcome::CyclesExceeded);
        assert_eq!(Outcome::from(Error::ElfBits), Outcome::Error { name: "ElfBits", detail: None });
    }

    #[test]
    fn long_details_are_cut_at_a_character() {
        let text = "é".repeat(DETAIL_BYTES_MAX);
        let Outcome::Error { detail: Some(detail), .. } = Outcome::from(Error::External(format!("x{text}")))
        else {
            panic!("not an error with details");
        };
        assert_eq!(detail.len(), DETAIL_BYTES_MAX - 1);
    }
}
