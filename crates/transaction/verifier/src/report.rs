//! Reports of a verification as a whole, and ckb's errors by name.

use std::fmt::{self, Display, Write};

use antares_hosted::job::{GroupError, GroupReport, SCRIPT_ERRORS, VM_ERRORS, VerifyOutcome, variant_name};
use ckb_script::{ScriptError, ScriptGroup};

use crate::limits::DETAIL_BYTES_MAX;

/// How a verification ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionReport {
    /// How it ended.
    pub outcome: VerifyOutcome,
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

/// Why `group` failed, in ckb-script's terms.
pub(crate) fn group_error(error: &ScriptError, group: &ScriptGroup) -> GroupError {
    let vm_error = match error {
        ScriptError::VMInternalError(error) => variant_name(error, &VM_ERRORS).map(str::to_owned),
        _ => None,
    };
    let kind = variant_name(error, &SCRIPT_ERRORS).unwrap_or("Other").to_owned();
    GroupError { kind, vm_error, source: source(group), detail: shorten(error) }
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
    use ckb_vm::Error as VmError;

    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shorten(&"short"), "short");
        let long = format!("a{}", "ü".repeat(DETAIL_BYTES_MAX));
        assert_eq!(shorten(&long).len(), DETAIL_BYTES_MAX - 1);
        let error = ScriptError::VMInternalError(VmError::External("\n".repeat(1 << 20)));
        assert_eq!(shorten(&error).len(), DETAIL_BYTES_MAX);
    }
}
