//! What is kept of a run that failed: where it was, who had called it, its last system calls, where its
//! values came from.
//!
//! ```text
//! Evidence   made by the machine in a jailed worker; read by `antares-diagnosis`, which names what it says
//! ```
//! It knows addresses and numbers only, and it is bounded, whatever the script does. No IO.

mod encode;
pub mod limits;
pub mod seen;

pub use encode::EvidenceError;
pub use seen::Evidence;
