//! Verification of a transaction: its job and its report.

use std::sync::Arc;

use antares_abi::{Seen, Sha256Digest, Tier};
use antares_hosted::job::{CellName, GroupKind, GroupReport, Rules, Samples, VerifyOutcome};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Sealed, early::NativeEnd};

/// How a transaction is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionForm {
    /// ckb-debugger's JSON.
    Json,
    /// The document of `antares_transaction::Mock`: its parts in molecule encoding, in postcard.
    #[default]
    Molecule,
}

/// Source of a library that accompanies the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryOf {
    /// One of its cells.
    Cell {
        /// ckb's hash of the cell's data.
        data_hash: [u8; 32],
    },
    /// An ELF that accompanies the transaction: these follow all libraries, in the order of the libraries.
    Beside,
}

/// Cell data in a file of its own, which workers map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCell {
    /// ckb's hash of the data.
    pub data_hash: [u8; 32],
    /// Bytes of the data.
    pub bytes: u64,
}

/// A script group of a parsed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownGroup {
    /// Hash of the script.
    pub script_hash: [u8; 32],
    /// Lock or type.
    pub kind: GroupKind,
    /// Inputs whose cells have the script.
    pub inputs: Vec<u32>,
    /// Outputs that have the script.
    pub outputs: Vec<u32>,
}

/// Maximum bytes of a transaction inside of its job, for any worker; a longer one is in a file, for a dedicated
/// worker.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Files of a verification, in the order of its job.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyFiles<'a> {
    /// The transaction, if it is not in the job.
    pub document: Option<&'a Sealed>,
    /// Native code.
    pub libraries: &'a [&'a Sealed],
    /// The ELFs of those libraries that are [`LibraryOf::Beside`].
    pub beside: &'a [&'a Sealed],
    /// Data of cells.
    pub cells: &'a [&'a Sealed],
}

/// A program without native code that took many cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotProgram {
    /// The ELF, or the file of code that was loaded at run time ([`LoadedCode`](antares_abi::LoadedCode)); at
    /// most [`HOT_BYTES_MAX`].
    pub elf: Vec<u8>,
    /// Its interpreted cycles.
    pub cycles: u64,
    /// Its observed jump targets, if recorded.
    pub seen: Seen,
}

/// Maximum programs that a verification reports as hot.
pub const HOT_PROGRAMS_MAX: usize = 8;

/// Maximum bytes of a program that is reported as hot.
pub const HOT_BYTES_MAX: usize = 512 << 10;

/// One verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyJob {
    /// Encoding of the transaction.
    pub form: TransactionForm,
    /// The rules.
    pub rules: Rules,
    /// The only group to run; all if there is none.
    pub group: Option<(GroupKind, CellName)>,
    /// The tiers that may run.
    pub tier: Tier,
    /// Cycles of all groups together.
    pub cycles_max: u64,
    /// Maximum retained bytes of debug output of all groups together, plus one for each line.
    pub debug_bytes_max: u64,
    /// Bytes of the transaction; determines the memory reserved for parsing.
    pub transaction_bytes: u64,
    /// The transaction, if it is not in a file; at most [`DOCUMENT_BYTES_MAX`].
    pub document: Bytes,
    /// Sources of the job's libraries, in order.
    pub libraries: Vec<LibraryOf>,
    /// Digests of the libraries, for a worker that already has them; set by the pool.
    pub library_digests: Vec<Sha256Digest>,
    /// The job's cell data, in the order of its numbers in the transaction.
    pub cells: Vec<SharedCell>,
    /// Whether it needs a worker that does no other job.
    pub is_alone: bool,
    /// Average cycles between samples; 0 disables the profile. Interpreted code is not sampled.
    pub sample_cycles: u64,
    /// Seed of the sample points, together with the group's number.
    pub sample_salt: u64,
    /// The groups of the transaction in execution order, if the supervisor has parsed it: reports are checked
    /// against them. Never sent.
    #[serde(skip)]
    pub groups: Option<Arc<[KnownGroup]>>,
    /// Digests of the libraries' sources, for the same purpose. Never sent.
    #[serde(skip)]
    pub scripts: Arc<[Sha256Digest]>,
}

/// The answer to a [`VerifyJob`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifyReport {
    /// Scripts ran, or could have.
    Done {
        /// How it ended.
        outcome: VerifyOutcome,
        /// Cycles of all groups that ran.
        cycles: u64,
        /// All groups, in the order in which they run.
        groups: Vec<GroupReport>,
        /// Programs that may be worth compiling, most cycles first, at most [`HOT_PROGRAMS_MAX`].
        hot: Vec<HotProgram>,
        /// Targets unknown to native code, by the library's number in the job.
        seen: Vec<(u32, Seen)>,
        /// Each group's result for the libraries whose native code it ran, by their number in the job.
        ran: Vec<(u32, NativeEnd)>,
        /// The sampled profile, if it was requested and a sample hit a script.
        samples: Option<Box<Samples>>,
        /// Time for parsing and checking the transaction, in microseconds.
        read_us: u64,
        /// Time of the verification itself, in microseconds.
        run_us: u64,
    },
    /// The transaction is malformed or incomplete, or has no such group.
    Refused {
        /// Path of the error in the document, if it has one.
        path: Option<String>,
        /// The error with its location.
        detail: String,
    },
}

impl VerifyReport {
    /// The groups; empty for a rejected transaction.
    pub(crate) fn groups(&self) -> &[GroupReport] {
        match self {
            Self::Done { groups, .. } => groups,
            Self::Refused { .. } => &[],
        }
    }

    /// Whether all scripts ended by themselves in one tier.
    pub(crate) fn is_clean(&self) -> bool {
        match self {
            Self::Done { outcome, groups, .. } => {
                *outcome != VerifyOutcome::NotRun && groups.iter().all(GroupReport::is_clean)
            }
            Self::Refused { .. } => false,
        }
    }
}
