//! A CKB transaction with the cells it uses: parsed, checked, and which programs it may run.
//!
//! ```text
//! template::expand       a text with placeholders for files      -> JSON
//! Mock::from_json        ckb-debugger's mock transaction (JSON)  -> Mock
//! Mock::from_molecule    the same in molecule encoding           -> Mock
//! Mock::document         the same, as workers read it           -> bytes
//! groups                 the scripts that run, and their cells  -> [Group]
//! programs               the cells that are worth compiling      -> [ProgramCandidate]
//! ```
//! Nothing here runs a script or links a VM: this is what a service or the command line may know of a transaction.
#![forbid(unsafe_code)]

mod check;
mod document;
mod environment;
mod error;
mod groups;
pub mod limits;
mod mock;
mod programs;
pub mod template;

pub use document::Share;
pub use environment::Environment;
pub use error::{CellPlace, MockError, Problem};
pub use groups::{Group, groups};
pub use mock::{CellData, CellFields, DepFields, Fields, Mock, SharedData, data_hash, hashed_bytes};
pub use programs::{ProgramCandidate, is_program, programs};
