//! Runs the script groups of a transaction: ckb-script's rules and system calls on any machine.
//!
//! ```text
//! Prepared::new      resolves the cells
//! Verifier::new      sorts the scripts into groups
//! Verifier::verify   runs the groups in ckb-script's order, returns a report
//! ```
//! ckb-script defines the semantics of a transaction: order of groups, system calls, scheduling of VMs,
//! errors. This crate adds the machine (an [`Engine`]), the report for each group, the limit of debug output,
//! and cancellation.

mod calls;
mod cancel;
mod cells;
mod decode;
mod dump;
mod engine;
mod guest;
mod host_calls;
pub mod limits;
mod quick;
mod report;
mod served;
mod verify;
mod watched;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod zeroed;

pub use antares_hosted::job::{CellName, GroupError, GroupKind, GroupReport, VerifyOutcome};
pub use cancel::StopHandle;
pub use cells::Cells;
pub use ckb_script::DataPieceId;
pub use decode::decode;
pub use engine::{CallsOf, Engine, Interpreter, PageSources, TierCycles};
pub use quick::{QuickInterpreter, TalliedMachine};
pub use report::TransactionReport;
pub use served::serve_job;
pub use verify::{Prepared, TransactionLimits, Verifier, VerifyError, scheduler};
