//! How a script ended, and ckb-vm's errors by name.

use antares_hosted::job::{RunOutcome, VM_ERRORS, variant_name};
use ckb_vm::Error;

use crate::limits::DETAIL_BYTES_MAX;

/// How a script ended that failed with `error`.
#[must_use]
pub fn failure(error: Error) -> RunOutcome {
    if error == Error::CyclesExceeded {
        return RunOutcome::CyclesExceeded;
    }
    let name = variant_name(&error, &VM_ERRORS).unwrap_or("Unexpected").to_owned();
    let detail = match error {
        Error::Asm(code) => Some(code.to_string()),
        Error::ElfParseError(text) | Error::External(text) | Error::Unexpected(text) => Some(text),
        Error::InvalidEcall(number) => Some(number.to_string()),
        Error::InvalidInstruction { pc, instruction } => {
            Some(format!("pc={pc:#x} instruction={instruction:#x}"))
        }
        Error::InvalidOp(opcode) => Some(opcode.to_string()),
        Error::IO { kind, data } => Some(format!("{kind:?} {data}")),
        _ => None,
    };
    RunOutcome::Error { name, detail: detail.map(shorten) }
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
        let error = |name: &str, detail: Option<&str>| RunOutcome::Error {
            name: name.to_owned(),
            detail: detail.map(str::to_owned),
        };
        let invalid = Error::InvalidInstruction { pc: 0x1000, instruction: 0 };
        assert_eq!(failure(invalid), error("InvalidInstruction", Some("pc=0x1000 instruction=0x0")));
        assert_eq!(failure(Error::CyclesExceeded), RunOutcome::CyclesExceeded);
        assert_eq!(failure(Error::ElfBits), error("ElfBits", None));
    }

    #[test]
    fn long_details_are_cut_at_a_character() {
        let text = "é".repeat(DETAIL_BYTES_MAX);
        let RunOutcome::Error { detail, .. } = failure(Error::External(format!("x{text}"))) else { panic!() };
        assert_eq!(detail.unwrap().len(), DETAIL_BYTES_MAX - 1);
    }
}
