//! Messages between a fuzzing process and its parent.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use antares_hosted::job::{CellName, GroupKind, Rules};

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzJob {
    /// The document of `antares_transaction::Mock`.
    pub document: Bytes,
    /// The same transaction with another script, which must accept the same inputs.
    pub other: Option<Bytes>,
    /// The rules.
    pub rules: Rules,
    /// The script group to run; all if `None`.
    pub group: Option<(GroupKind, CellName)>,
    /// Names of the mutated fields, in the form of `antares_transaction::FieldName`.
    pub fields: Vec<String>,
    /// Maximum bytes of a field.
    pub field_bytes_max: u32,
    /// Native code of programs.
    pub libraries: Vec<FuzzLibrary>,
    /// Bits of a counter's number.
    pub counter_bits: u8,
    /// Whether ckb-vm's Rust interpreter counts, instead of native code.
    pub interprets: bool,
    /// The conditions for findings.
    pub invariants: Invariants,
    /// Initial inputs, in addition to the original fields.
    pub seeds: Vec<FieldBytes>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Maximum runs.
    pub runs_max: Option<u64>,
    /// Maximum findings.
    pub findings_max: u32,
    /// Maximum cycles of one run.
    pub cycles_max: u64,
}

/// The bytes of each field, in the order of the job's names.
pub type FieldBytes = Vec<Bytes>;

/// A program and its instrumented library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzLibrary {
    /// The ELF.
    pub elf: Bytes,
    /// The shared object.
    pub library: Bytes,
}

/// What a transaction must never do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invariants {
    /// End in an error of the VM, or exceed the cycle limit.
    pub fails: bool,
    /// End with one of these exit codes.
    pub exits: Vec<i8>,
    /// Be accepted.
    pub accepts: bool,
    /// Be accepted with bytes other than the original ones.
    pub accepts_other: bool,
}

/// Progress of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzProgress {
    /// Runs of the transaction.
    pub runs: u64,
    /// Runs that native code did not complete.
    pub interpreted_runs: u64,
    /// Runs that were accepted.
    pub accepted: u64,
    /// Number of reached counters.
    pub edges: u64,
    /// Number of retained inputs.
    pub inputs: u64,
    /// Cycles of all runs.
    pub cycles: u64,
}

/// A minimised violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzFinding {
    /// Its kind in a word or two; findings of one kind are the same finding.
    pub kind: String,
    /// The description.
    pub what: String,
    /// The fields.
    pub fields: FieldBytes,
    /// Bytes of all fields before minimisation.
    pub bytes_before: u64,
    /// The run that found it.
    pub run: u64,
}

/// Messages from a fuzzing process to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FuzzNews {
    /// Fuzzing started; contains the result of the original transaction.
    Ready(String),
    /// Progress.
    Progress(FuzzProgress),
    /// An input with new coverage.
    StoredFinding(FieldBytes),
    /// An invariant is violated.
    Found(Box<FuzzFinding>),
    /// The job is complete. The last message.
    Done(FuzzProgress),
    /// The job is impossible. The last message.
    Refused(String),
}

/// Messages from the parent to a fuzzing process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FuzzRequest {
    /// An input that another process retained.
    Input(FieldBytes),
    /// Report the final progress and end.
    Stop,
}
