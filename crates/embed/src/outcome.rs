//! What came of a run.

use std::fmt;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How the script ended.
    pub end: End,
    /// Cycles of the run, without those for loading.
    pub cycles: u64,
    /// Cycles that a node charges for loading: a quarter of the bytes that the ELF and the arguments take in
    /// memory.
    pub load_cycles: u64,
    /// Cycles that ran in native code: all of `cycles`, or none.
    pub native_cycles: u64,
    /// Lines that the script wrote by system call 2177, in order.
    pub debug: Vec<String>,
    /// Lines beyond the limit, which are not among them.
    pub debug_lines_left_out: u64,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It exited with this code.
    Exited(i8),
    /// The VM, or a system call, ended it.
    Trapped(Trap),
    /// It had used its cycles.
    CyclesExceeded,
}

/// Why a script was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    name: String,
    detail: Option<String>,
}

impl Trap {
    /// A trap of a system call's own, with a text for people.
    pub fn new(detail: impl Into<String>) -> Self {
        Self { name: "External".to_owned(), detail: Some(detail.into()) }
    }

    pub(crate) fn named(name: &str, detail: Option<String>) -> Self {
        Self { name: name.to_owned(), detail }
    }

    /// Name of the variant of ckb-vm's `Error`: `MemOutOfBound`, `InvalidInstruction`, ...
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its particulars: an address, an instruction, a text.
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
