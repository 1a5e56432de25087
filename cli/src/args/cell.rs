//! A cell, selected by name.

use std::str::FromStr;

use antares_pool::job;

/// A cell of the transaction, as `input.N` or `output.N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellName(pub job::CellName);

impl FromStr for CellName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let cell = || {
            let (list, index) = text.split_once('.')?;
            match list {
                "input" => Some(job::CellName::Input(index.parse().ok()?)),
                "output" => Some(job::CellName::Output(index.parse().ok()?)),
                _ => None,
            }
        };
        cell().map(Self).ok_or("must be input.N or output.N")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names() {
        assert_eq!("input.0".parse(), Ok(CellName(job::CellName::Input(0))));
        assert_eq!("output.12".parse(), Ok(CellName(job::CellName::Output(12))));
        for text in ["", "input", "input.", "input.-1", "inputs.0", "input.0.lock"] {
            assert!(text.parse::<CellName>().is_err(), "{text}");
        }
    }
}
