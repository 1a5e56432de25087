//! Differential testing: runs a case on the machine and on the oracle, and compares.

mod campaign;
mod compare;
mod minimise;
mod tally;

pub(crate) use campaign::on_threads;
pub use campaign::{Batch, Campaign, Choice, Failure, Subject, draw};
pub use compare::{Difference, Equal, compare, compare_in, outcome};
pub use minimise::{Reduced, disassembly, reduce};
pub use tally::{KindTally, Tally};
