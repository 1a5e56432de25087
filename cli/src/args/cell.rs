//! A script group: the lock or the type script of a cell.

use antares_pool::job::{CellName, GroupKind};

use crate::args::choice::Choice;

/// Which script of a cell.
pub(super) const KINDS: [Choice<GroupKind>; 2] =
    [("lock", GroupKind::Lock, "The lock script"), ("type", GroupKind::Type, "The type script")];

/// A cell of the transaction, as `input.N` or `output.N`.
pub(crate) fn cell_name(text: &str) -> Result<CellName, &'static str> {
    let cell = || match text.split_once('.')? {
        ("input", index) => Some(CellName::Input(index.parse().ok()?)),
        ("output", index) => Some(CellName::Output(index.parse().ok()?)),
        _ => None,
    };
    cell().ok_or("must be input.N or output.N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names() {
        assert_eq!(cell_name("input.0"), Ok(CellName::Input(0)));
        assert_eq!(cell_name("output.12"), Ok(CellName::Output(12)));
        for text in ["", "input", "input.", "input.-1", "inputs.0", "input.0.lock"] {
            assert!(cell_name(text).is_err(), "{text}");
        }
    }
}
