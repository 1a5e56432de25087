//! Runs the script groups of a transaction: ckb-script's rules and system calls, on any machine.
//!
//! ```text
//! Prepared::new      finds the cells
//! Verifier::new      sorts the scripts into groups
//! Verifier::verify   runs the groups in ckb-script's order, answers with a Report
//! ```
//! ckb-script decides what a transaction means: order of groups, system calls, scheduling of VMs, errors. What is ours is
//! the machine behind its seam (an [`Engine`]), the report for each group, the limit of debug output, and cancellation.
#![forbid(unsafe_code)]

mod cancel;
mod cells;
mod engine;
pub mod limits;
mod log;
mod report;
mod verify;

pub use cancel::StopHandle;
pub use cells::Cells;
pub use engine::{Engine, Interpreter, TierCycles};
pub use report::{GroupError, GroupKind, GroupReport, TransactionOutcome, TransactionReport};
pub use verify::{CellName, PrepareError, Prepared, Selection, TransactionLimits, Verifier};
