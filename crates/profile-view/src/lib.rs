//! Profiles for people and tools: symbols of guests, tables, and the formats that other tools read.
//!
//! ```text
//! Symbols::of   finds the functions and lines of an ELF, by its symbols, its DWARF, or its code alone
//! View::new     a profile with its addresses named: functions, inlined ones included
//! View::top     functions by what they cost
//! Format        writes a view as pprof, folded, speedscope, callgrind, LCOV, OTLP, LLVM sample profile, or HTML
//! ```
//! No IO. ELF files may be hostile: whatever they say, names are bounded and nothing panics.
#![forbid(unsafe_code)]

mod archive;
mod dwarf;
mod formats;
pub mod limits;
mod recognise;
mod symbols;
mod tables;
mod view;

pub use archive::{ArchiveError, read_archive, write_archive};
pub use formats::{Format, FormatError, otlp_request};
pub use symbols::{Line, Location, Symbols};
pub use tables::{CallGraph, Change, Edge, Row, diff, diff_markdown};
pub use view::{Function, FunctionId, Programs, Stack, TreeNode, View};
