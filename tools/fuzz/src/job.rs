//! Messages between a process that fuzzes and its parent.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use antares_hosted::job::{CellName, GroupKind, Rules};

/// What one process is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzJob {
    /// The document of `antares_transaction::Mock`.
    pub document: Bytes,
    /// The same transaction with another script in it, which must agree with the first on what is accepted.
    pub other: Option<Bytes>,
    /// The rules.
    pub rules: Rules,
    /// The script group that runs; all if none is named.
    pub group: Option<(GroupKind, CellName)>,
    /// Names of the fields that change, as `antares_transaction::FieldName` has them.
    pub fields: Vec<String>,
    /// Bytes of a field, at most.
    pub field_bytes_max: u32,
    /// Native code of programs.
    pub libraries: Vec<FuzzLibrary>,
    /// Bits of a counter's number.
    pub counter_bits: u8,
    /// Whether ckb-vm's interpreter in Rust counts, without native code.
    pub interprets: bool,
    /// What is a finding.
    pub invariants: Invariants,
    /// Inputs to begin with, beside the fields as the transaction has them.
    pub seeds: Vec<FieldBytes>,
    /// Where the drawing of numbers begins.
    pub seed: u64,
    /// Runs of scripts after which it ends.
    pub runs_max: Option<u64>,
    /// Findings after which it ends.
    pub findings_max: u32,
    /// Cycles of one run, at most.
    pub cycles_max: u64,
}

/// The bytes of each field, in the order of the job's names.
pub type FieldBytes = Vec<Bytes>;

/// A program and its counted library.
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
    /// End in an error of the VM, or at the limit of cycles.
    pub fails: bool,
    /// End with one of these exit codes.
    pub exits: Vec<i8>,
    /// Be accepted.
    pub accepts: bool,
    /// Be accepted with other bytes than the transaction has.
    pub accepts_other: bool,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzProgress {
    /// Runs of the transaction.
    pub runs: u64,
    /// Those of them that native code did not carry to the end.
    pub interpreted_runs: u64,
    /// Runs that were accepted.
    pub accepted: u64,
    /// Counters that were reached.
    pub edges: u64,
    /// Inputs that are kept.
    pub inputs: u64,
    /// Cycles of all runs.
    pub cycles: u64,
}

/// What violates an invariant, made as small as that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzFinding {
    /// What it is, in a word or two: two findings of one kind are one.
    pub kind: String,
    /// What happened.
    pub what: String,
    /// The fields.
    pub fields: FieldBytes,
    /// Bytes of all fields before they were made smaller.
    pub bytes_before: u64,
    /// The run that found it.
    pub run: u64,
}

/// From a fuzzing process to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FuzzNews {
    /// It has begun: how the transaction ends as it is.
    Ready(String),
    /// How far it is.
    Progress(FuzzProgress),
    /// An input that went where none went before.
    StoredFinding(FieldBytes),
    /// An invariant does not hold.
    Found(Box<FuzzFinding>),
    /// It has come to its end. The last word.
    Done(FuzzProgress),
    /// The job cannot be done. The last word.
    Refused(String),
}

/// From the parent to a fuzzing process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FuzzRequest {
    /// Another process has kept this input.
    Input(FieldBytes),
    /// Tell how far you are, and end.
    Stop,
}
