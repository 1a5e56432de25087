//! When a block's cycles are charged.

use antares_program::{FunctionId, GuestAddr};

/// When a block's cycles are charged, and to which function. The choice does not change the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// At block entry, to the block's function.
    #[default]
    Entered,
    /// This number at block entry: other blocks charge for this one, or it charges for others. The total is
    /// balanced before control leaves the function.
    Moved(u64),
    /// After the bounded loop around this block, a copy of a block of a function that the loop calls.
    Deferred,
    /// The loop has ended: makes the deferred charges, to `callee`.
    OfDeferred {
        /// The function whose blocks the loop contains.
        callee: FunctionId,
        /// A guest address inside the call instruction.
        call: GuestAddr,
    },
}
