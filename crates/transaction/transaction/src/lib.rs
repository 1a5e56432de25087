//! Parses and checks a CKB transaction with the cells it uses, and finds its scripts and programs.
//!
//! ```text
//! template::expand       a text with placeholders for files      -> JSON
//! Mock::from_json        ckb-debugger's mock transaction (JSON)  -> Mock
//! Mock::from_molecule    the same in molecule encoding           -> Mock
//! Mock::document         the transaction for workers             -> bytes
//! groups                 the scripts that run, and their cells   -> [Group]
//! programs               the cells worth compiling               -> [ProgramCandidate]
//! ```
//! This crate runs no script and links no VM. A service or the command line may use all of it.

mod changed;
mod check;
mod document;
mod environment;
mod error;
mod groups;
mod keys;
pub mod limits;
mod lookup;
mod malformed;
mod mock;
mod programs;
mod synthetic;
pub mod template;

pub use changed::{FieldName, FieldNameError};
pub use document::{Share, is_same_memory};
pub use environment::Environment;
pub use error::{MockError, Problem};
pub use groups::{Group, groups};
pub use malformed::worded;
pub use mock::{
    CellData, CellFields, DepFields, Fields, Mock, SharedData, copied_bytes, data_hash, hashed_bytes,
};
pub use programs::{ProgramCandidate, is_program, programs};
pub use synthetic::{AsLock, ScriptLocation};
