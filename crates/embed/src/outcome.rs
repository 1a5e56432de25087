//! Results of runs.

use std::fmt;

use antares_vm::Report;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How the script ended.
    pub end: End,
    /// Cycles of the run, without loading.
    pub cycles: u64,
    /// Cycles that a node charges for loading: one per four bytes of the ELF and the arguments in memory.
    pub load_cycles: u64,
    /// Cycles in native code: all of `cycles`, or none.
    pub native_cycles: u64,
    /// Lines that the script wrote by system call 2177, in order.
    pub debug: Vec<String>,
    /// Number of lines beyond the limit, which `debug` omits.
    pub debug_lines_left_out: u64,
}

impl From<Report> for Outcome {
    fn from(report: Report) -> Self {
        let end = match report.outcome {
            antares_vm::Outcome::Exit(code) => End::Exited(code),
            antares_vm::Outcome::Error { name, detail } => End::Trapped(Trap { name, detail }),
            antares_vm::Outcome::CyclesExceeded => End::CyclesExceeded,
        };
        Self {
            end,
            cycles: report.cycles,
            load_cycles: report.load_cycles,
            native_cycles: report.native_cycles,
            debug_lines_left_out: report.debug.omitted().lines,
            debug: report.debug.into(),
        }
    }
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It exited with this code.
    Exited(i8),
    /// The VM or a system call ended it.
    Trapped(Trap),
    /// It exceeded its cycle limit.
    CyclesExceeded,
}

/// The error that ended a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    pub(crate) name: String,
    pub(crate) detail: Option<String>,
}

impl Trap {
    /// A trap of your own system call, with a human-readable text.
    pub fn new(detail: impl Into<String>) -> Self {
        Self { name: "External".to_owned(), detail: Some(detail.into()) }
    }

    /// Variant name of ckb-vm's `Error`: `MemOutOfBound`, `InvalidInstruction`, ...
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Details: an address, an instruction or a text.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{}: {detail}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl std::error::Error for Trap {}
