//! Profiles for people and tools: symbols of guests, tables, and formats of other tools.
//!
//! ```text
//! Symbols::of     finds the functions and lines of an ELF, by its symbols, its DWARF, or its code alone
//! View::new       names the addresses of a profile: functions, including inlined ones
//! View::top       functions by cost
//! SourceCoverage  lines, functions and branches that ran, over many runs
//! Format          writes pprof, folded, speedscope, callgrind, LCOV, OTLP, LLVM sample profile or HTML
//! ```
//! No IO except in `Sources`. ELF files are untrusted input: names are bounded and nothing panics.

mod archive;
mod branches;
mod coverage;
mod coverage_page;
mod debugger;
mod dwarf;
mod formats;
pub mod limits;
mod listing;
mod location;
mod printable;
mod recognise;
mod sources;
mod symbols;
mod tables;
mod view;

pub use archive::{ArchiveError, read_archive, write_archive};
pub use coverage::{CoverageFigures, CoverageShare, CoveredBranch, CoveredFile, SourceCoverage};
pub use coverage_page::coverage_page;
pub use debugger::{DebuggerNames, SourceLine};
pub use formats::{Format, FormatError, otlp_request, profile_page, write_lcov};
pub use location::{Line, Location};
pub use printable::printable;
pub use sources::Sources;
pub use symbols::Symbols;
pub use tables::{CallGraph, Change, Edge, Row, diff, diff_markdown};
pub use view::{Function, FunctionId, Programs, TreeNode, View};
