//! When the cycles of a block are charged.

use antares_program::{FunctionId, GuestAddr};

/// When a block's cycles are charged, and whose they are. Their sum is the same, whoever takes no notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// When the block is entered, to the function that it is in.
    #[default]
    Entered,
    /// As many when the block is entered: other blocks charge for it, or it for others. It is balanced before
    /// control leaves the function.
    Moved(u64),
    /// When the bounded loop that it is in has ended: it is a copy of a block of a function that the loop
    /// calls.
    Deferred,
    /// The loop has ended: here the deferred charges are made, to `callee`.
    OfDeferred {
        /// The function whose blocks are in the loop.
        callee: FunctionId,
        /// A guest address inside of the instruction that called it.
        call: GuestAddr,
    },
}
