//! A row of a frame table, and what may be wrong with one.

use std::fmt;

/// Rows of a group, at most.
pub(super) const GROUP_ROWS_MAX: usize = 8;
/// Guest functions that one place is in, at most: calls that were replaced by what they call.
pub(super) const CHAIN_MAX: usize = 64;

/// Part of a frame table: what holds from a place in the code to the next row's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRow {
    /// Bytes from the start of the executable segment.
    pub start: u32,
    /// Bytes from the stack pointer to the end of the frame; 0 if that is not known.
    pub bytes: u32,
    /// Guest addresses, outermost first; none in code that is no guest's.
    pub chain: Vec<u32>,
}

/// Where a place in the code is; large, so it is filled in place.
#[derive(Clone, Copy)]
pub struct FrameAt {
    /// Bytes from the stack pointer to the end of the frame; 0 if that is not known.
    pub bytes: u32,
    pub(super) pcs: [u32; CHAIN_MAX],
    pub(super) depth: usize,
}

impl Default for FrameAt {
    fn default() -> Self {
        Self { bytes: 0, pcs: [0; CHAIN_MAX], depth: 0 }
    }
}

impl FrameAt {
    /// Guest addresses, outermost first.
    #[must_use]
    pub fn chain(&self) -> &[u32] {
        &self.pcs[..self.depth]
    }
}

impl fmt::Debug for FrameAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameAt").field("bytes", &self.bytes).field("chain", &self.chain()).finish()
    }
}

/// What is wrong with the bytes of a frame table; places are bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not as many as its end says, or it has no end.
    #[error("the frame table's end does not count its {bytes} bytes")]
    Length {
        /// Bytes there are.
        bytes: usize,
    },
    /// A group begins in front of the one before, or outside of the rows.
    #[error("group {group} of the frame table begins at byte {place} of the rows")]
    Group {
        /// Which one.
        group: usize,
        /// Where its rows are said to be.
        place: usize,
    },
    /// A row is cut off by the end of its group.
    #[error("the row at byte {place} of the frame table is cut off")]
    Cut {
        /// Its first byte.
        place: usize,
    },
    /// A number is wider than 32 bits.
    #[error("a number in the row at byte {place} of the frame table is too wide")]
    Wide {
        /// First byte of the row.
        place: usize,
    },
    /// More is taken off the chain than it has, or put on than it may have.
    #[error("the row at byte {place} of the frame table has no chain of 0 to {CHAIN_MAX} functions")]
    Chain {
        /// First byte of the row.
        place: usize,
    },
    /// A row does not start behind the one before it.
    #[error("the row at byte {place} of the frame table starts no later than the one before")]
    Order {
        /// First byte of the row.
        place: usize,
    },
    /// A group without rows, or with too many.
    #[error("the group that ends at byte {place} of the frame table has not 1 to {GROUP_ROWS_MAX} rows")]
    Rows {
        /// End of the group.
        place: usize,
    },
}
