//! The machine against the oracle: the same case on both, and what differs.

mod campaign;
mod compare;
mod minimise;
mod tally;

pub use campaign::{Batch, Campaign, Choice, Failure, Subject, draw};
pub use compare::{Difference, Equal, compare, compare_in};
pub use minimise::{Reduced, disassembly, reduce};
pub use tally::{KindTally, Tally};
