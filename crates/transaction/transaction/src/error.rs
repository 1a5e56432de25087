//! What can be wrong with a transaction that was handed in, and where.

use std::fmt;

use ckb_types::{packed, prelude::Entity as _};

/// Why a transaction cannot be used. Its scripts were not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MockError {
    /// More bytes than a transaction may have.
    #[error("the transaction has {bytes} bytes, at most {bytes_max} are accepted")]
    TooLarge {
        /// Bytes it has.
        bytes: usize,
        /// Bytes it may have.
        bytes_max: usize,
    },
    /// More values than a transaction may have.
    #[error("the transaction has {values} values, at most {values_max} are accepted")]
    TooManyValues {
        /// Values it has.
        values: usize,
        /// Values it may have.
        values_max: usize,
    },
    /// This is no JSON.
    #[error("line {line}, column {column}: {detail}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What the parser says.
        detail: String,
    },
    /// JSON, but a value is missing or is not what it must be.
    #[error("{path} (line {line}, column {column}): {detail}")]
    Shape {
        /// Where in the document: `mock_info.inputs[2].output.lock`.
        path: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What was expected.
        detail: String,
    },
    /// A transaction as nodes and wallets have it, without the cells that it uses.
    #[error(
        "this is a bare transaction: the cells it uses are missing. Wrap it as {{\"mock_info\": {{\"inputs\": [...], \
         \"cell_deps\": [...], \"header_deps\": [...]}}, \"tx\": ...}}, with output and data of each input cell, each \
         cell dep and each member of a dep group: `antares dump --tx FILE --rpc URL` does that"
    )]
    BareTransaction,
    /// The encoding of a part is not molecule, or of another type.
    #[error("{path}: {detail}")]
    Molecule {
        /// Which part.
        path: String,
        /// What the decoder says.
        detail: String,
    },
    /// All values are well-formed, but they do not fit together.
    #[error("{path}: {problem}")]
    Inconsistent {
        /// Where: `tx.inputs[2].previous_output`.
        path: String,
        /// What is wrong there.
        problem: Problem,
    },
}

impl MockError {
    pub(crate) fn at(path: impl Into<String>, problem: Problem) -> Self {
        Self::Inconsistent { path: path.into(), problem }
    }

    /// Where the mistake is, if it has a place in the document.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Shape { path, .. } | Self::Molecule { path, .. } | Self::Inconsistent { path, .. } => {
                Some(path)
            }
            Self::TooLarge { .. }
            | Self::TooManyValues { .. }
            | Self::Syntax { .. }
            | Self::BareTransaction => None,
        }
    }
}

/// A place where a cell is: hash of its transaction and index among its outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellLocation(packed::OutPoint);

impl From<packed::OutPoint> for CellLocation {
    fn from(out_point: packed::OutPoint) -> Self {
        Self(out_point)
    }
}

impl fmt::Display for CellLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hash, index) = self.0.as_slice().split_at(32);
        f.write_str("0x")?;
        hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        let index = index.iter().rev().fold(0, |value: u32, byte| value << 8 | u32::from(*byte));
        write!(f, ":{index}")
    }
}

/// What does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key that nobody reads, and that is likely meant for another one.
    #[error("is no key; `{meant}` is one")]
    UnknownKey {
        /// The other one.
        meant: &'static str,
    },
    /// A list is longer than accepted.
    #[error("{entries} entries, at most {entries_max} are accepted")]
    TooMany {
        /// Entries it has.
        entries: usize,
        /// Entries it may have.
        entries_max: usize,
    },
    /// The transaction spends a cell that is not given.
    #[error("no entry of mock_info.inputs gives the cell {place}")]
    InputMissing {
        /// The cell.
        place: CellLocation,
    },
    /// The same cell is given, but spent with another `since`.
    #[error("is not the `since` of {input}, which spends the same cell")]
    SinceDiffers {
        /// Path of the transaction's input.
        input: String,
    },
    /// The transaction spends a cell twice.
    #[error("spends the cell {place} again, as {first} does")]
    SpentTwice {
        /// The cell.
        place: CellLocation,
        /// Path of the input that spends it first.
        first: String,
    },
    /// The transaction depends on a cell that is not given.
    #[error("no entry of mock_info.cell_deps gives the cell {place}")]
    DepMissing {
        /// The cell.
        place: CellLocation,
    },
    /// The cell is given, but as the other kind of dep.
    #[error("is not the `dep_type` of {dep}, which names the same cell")]
    DepTypeDiffers {
        /// Path of the transaction's cell dep.
        dep: String,
    },
    /// The data of a dep group is no list of places.
    #[error("must be a list of out points in molecule encoding, because this is a dep group: {detail}")]
    GroupMalformed {
        /// What the decoder says.
        detail: String,
    },
    /// A dep group without members.
    #[error("names no cell, but this is a dep group")]
    GroupEmpty,
    /// A member of a dep group is not given.
    #[error("the dep group names the cell {place}, which no entry of mock_info.cell_deps gives")]
    MemberMissing {
        /// The member.
        place: CellLocation,
    },
    /// A header that the transaction names is not given.
    #[error("no entry of mock_info.header_deps has this hash")]
    HeaderMissing,
    /// Given twice.
    #[error("is given already, as {first}")]
    Duplicate {
        /// Path of the first one.
        first: String,
    },
    /// Given, but the transaction has no use for it.
    #[error("is not used by the transaction")]
    Unused,
    /// `outputs` and `outputs_data` are of different length.
    #[error("{data} entries, but tx.outputs has {outputs}")]
    DataCount {
        /// Entries of `outputs_data`.
        data: usize,
        /// Entries of `outputs`.
        outputs: usize,
    },
    /// More or fewer input cells than inputs.
    #[error("{cells} entries, but the transaction has {inputs} inputs")]
    InputCount {
        /// Cells given.
        cells: usize,
        /// Inputs of the transaction.
        inputs: usize,
    },
}
