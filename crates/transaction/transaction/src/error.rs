//! Errors of a transaction's input, with their location.

use ckb_types::packed::OutPoint;

use crate::limits::{TRANSACTION_BYTES_MAX, VALUES_MAX};

/// Why a transaction cannot be used. Its scripts did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MockError {
    /// Too many bytes.
    #[error("the transaction has {0} bytes, at most {TRANSACTION_BYTES_MAX} are accepted")]
    TooLarge(usize),
    /// Too many values.
    #[error("the transaction has {0} values, at most {VALUES_MAX} are accepted")]
    TooManyValues(usize),
    /// Not JSON.
    #[error("line {line}, column {column}: {detail}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// The parser's message.
        detail: String,
    },
    /// JSON, but a value is missing or invalid.
    #[error("{} (line {line}, column {column}): {detail}", if path == "." { "the whole" } else { path })]
    Shape {
        /// Path in the document: `mock_info.inputs[2].output.lock`; `.` is the whole.
        path: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What was expected.
        detail: String,
    },
    /// A transaction in the form of nodes and wallets, without the cells that it uses.
    #[error(
        "this is a bare transaction: the cells it uses are missing. Wrap it as {{\"mock_info\": {{\"inputs\": [...], \
         \"cell_deps\": [...], \"header_deps\": [...]}}, \"tx\": ...}}, with output and data of each input cell, each \
         cell dep and each member of a dep group: `antares dump --tx FILE --rpc URL` does that"
    )]
    BareTransaction,
    /// A part is not molecule, or is of another type.
    #[error("{path}: {detail}")]
    Molecule {
        /// Path of the part.
        path: String,
        /// The decoder's message.
        detail: String,
    },
    /// All values are well-formed, but inconsistent.
    #[error("{path}: {problem}")]
    Inconsistent {
        /// Path in the document: `tx.inputs[2].previous_output`.
        path: String,
        /// The inconsistency.
        problem: Problem,
    },
}

impl MockError {
    pub(crate) fn at(path: impl Into<String>, problem: Problem) -> Self {
        Self::Inconsistent { path: path.into(), problem }
    }

    /// The same error, with the column that `source_column` gives for its line and column.
    #[must_use]
    pub fn with_column(mut self, source_column: impl FnOnce(usize, usize) -> usize) -> Self {
        if let Self::Syntax { line, column, .. } | Self::Shape { line, column, .. } = &mut self {
            *column = source_column(*line, *column);
        }
        self
    }

    /// Path of the error, unless it is of the whole document.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Shape { path, .. } | Self::Molecule { path, .. } | Self::Inconsistent { path, .. } => {
                Some(path.as_str()).filter(|path| !matches!(*path, "" | "."))
            }
            Self::TooLarge(_) | Self::TooManyValues(_) | Self::Syntax { .. } | Self::BareTransaction => None,
        }
    }
}

/// Location of a cell: hash of its transaction and index among its outputs.
fn cell(place: &OutPoint) -> String {
    format!("{:#x}:{}", place.tx_hash(), u32::from(place.index()))
}

/// An inconsistency between the parts of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An unknown key that resembles a known one.
    #[error("is no key; `{0}` is one")]
    UnknownKey(&'static str),
    /// A list is too long.
    #[error("{entries} entries, at most {entries_max} are accepted")]
    TooMany {
        /// Actual number of entries.
        entries: usize,
        /// Maximum number of entries.
        entries_max: usize,
    },
    /// The transaction spends a cell that is missing.
    #[error("no entry of mock_info.inputs gives the cell {}", cell(.0))]
    InputMissing(OutPoint),
    /// The cell is present, but spent with another `since`.
    #[error("is not the `since` of {0}, which spends the same cell")]
    SinceDiffers(String),
    /// The transaction spends a cell twice.
    #[error("spends the cell {} again, as {first} does", cell(place))]
    SpentTwice {
        /// The cell.
        place: OutPoint,
        /// Path of the input that spends it first.
        first: String,
    },
    /// The transaction depends on a cell that is missing.
    #[error("no entry of mock_info.cell_deps gives the cell {}", cell(.0))]
    DepMissing(OutPoint),
    /// The cell is present, but as the other kind of dep.
    #[error("is not the `dep_type` of {0}, which names the same cell")]
    DepTypeDiffers(String),
    /// The data of a dep group is not a list of out points.
    #[error("is no list of out points, as a dep group has: the `dep_type` of a cell with a script is `code`")]
    GroupMalformed,
    /// A dep group without members.
    #[error("names no cell, but this is a dep group")]
    GroupEmpty,
    /// A member of a dep group is missing.
    #[error("the dep group names the cell {}, which no entry of mock_info.cell_deps gives", cell(.0))]
    MemberMissing(OutPoint),
    /// A header that the transaction names is missing.
    #[error("no entry of mock_info.header_deps has this hash")]
    HeaderMissing,
    /// An entry occurs twice.
    #[error("is given already, as {0}")]
    Duplicate(String),
    /// A dep that the transaction lists twice.
    #[error(
        "is {0} again, and nodes refuse the transaction (DuplicateCellDeps, DuplicateHeaderDeps): remove one"
    )]
    Repeated(String),
    /// An entry that the transaction does not use.
    #[error("is not used by the transaction: name it there, or remove it here")]
    Unused,
    /// `outputs` and `outputs_data` have different lengths.
    #[error("{data} entries, but tx.outputs has {outputs}")]
    DataCount {
        /// Entries of `outputs_data`.
        data: usize,
        /// Entries of `outputs`.
        outputs: usize,
    },
    /// The number of input cells differs from that of inputs.
    #[error("{cells} entries, but the transaction has {inputs} inputs")]
    InputCount {
        /// Cells given.
        cells: usize,
        /// Inputs of the transaction.
        inputs: usize,
    },
}
