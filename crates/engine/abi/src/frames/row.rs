//! Rows of a frame table, and errors in them.

use std::fmt;

pub(super) const GROUP_ROWS_MAX: usize = 8;
/// Maximum guest functions at one code offset, which result from inlined calls.
pub(super) const CHAIN_MAX: usize = 64;

/// A part of a frame table, valid from an offset in the code to the next row's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRow {
    /// Bytes from the start of the executable segment.
    pub start: u32,
    /// Bytes from the stack pointer to the end of the frame; 0 if unknown.
    pub bytes: u32,
    /// Guest addresses, outermost first; empty in code that belongs to no guest function.
    pub chain: Vec<u32>,
}

/// The frame at a code offset. The type is large, so lookups fill it in place.
#[derive(Clone, Copy)]
pub struct FrameAt {
    /// Bytes from the stack pointer to the end of the frame; 0 if unknown.
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

/// A fault in the bytes of a frame table. Positions are bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The footer is missing or does not match the number of bytes.
    #[error("the frame table's end does not count its {bytes} bytes")]
    Length {
        /// Actual number of bytes.
        bytes: usize,
    },
    /// A group begins before the previous one, or outside the rows.
    #[error("group {group} of the frame table begins at byte {place} of the rows")]
    Group {
        /// Index of the group.
        group: usize,
        /// Position of its rows according to the table.
        place: usize,
    },
    /// The end of its group cuts off a row.
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
    /// A row removes more functions from the chain than it has, or adds more than it may have.
    #[error("the row at byte {place} of the frame table has no chain of 0 to {CHAIN_MAX} functions")]
    Chain {
        /// First byte of the row.
        place: usize,
    },
    /// A row does not start after the previous one.
    #[error("the row at byte {place} of the frame table starts no later than the one before")]
    Order {
        /// First byte of the row.
        place: usize,
    },
    /// A group has no rows, or too many.
    #[error("the group that ends at byte {place} of the frame table has not 1 to {GROUP_ROWS_MAX} rows")]
    Rows {
        /// End of the group.
        place: usize,
    },
}
