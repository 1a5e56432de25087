//! A cell, selected by name.

use std::{fmt, str::FromStr};

use antares_pool::job;

/// A cell of the transaction, as `input.N` or `output.N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellName(pub job::CellName);

/// Not a cell name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCellName;

impl fmt::Display for NoCellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be input.N or output.N")
    }
}

impl std::error::Error for NoCellName {}

impl FromStr for CellName {
    type Err = NoCellName;

    fn from_str(text: &str) -> Result<Self, NoCellName> {
        let (list, index) = text.split_once('.').ok_or(NoCellName)?;
        let index = index.parse().map_err(|_| NoCellName)?;
        match list {
            "input" => Ok(Self(job::CellName::Input(index))),
            "output" => Ok(Self(job::CellName::Output(index))),
            _ => Err(NoCellName),
        }
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
            assert_eq!(text.parse::<CellName>(), Err(NoCellName), "{text}");
        }
    }
}
