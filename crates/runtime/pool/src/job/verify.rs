//! Verification of a transaction: what is asked of a run worker, and what it answers.

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

/// What a library beside the transaction was compiled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryOf {
    /// One of its cells.
    Cell {
        /// ckb's hash of the cell's data.
        data_hash: [u8; 32],
    },
    /// An ELF that is beside the transaction too: behind all libraries, in the order of the libraries.
    Beside,
}

/// Data of cells that is in a file of its own, for workers to map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCell {
    /// ckb's hash of the data.
    pub data_hash: [u8; 32],
    /// Bytes of the data.
    pub bytes: u64,
}

/// A script group of a transaction, as whoever has read it knows.
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

/// Bytes of a transaction that travels in its job, to whatever worker; a longer one is in a file, for a
/// worker of its own.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Files beside a verification, in the order that its job lists them.
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

/// A program that was met without native code and took many cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotProgram {
    /// The ELF, or the file of code that was loaded at run time ([`LoadedCode`](antares_abi::LoadedCode)); at
    /// most [`HOT_BYTES_MAX`].
    pub elf: Vec<u8>,
    /// Cycles that the interpreter took for it.
    pub cycles: u64,
    /// Where it was seen to go, if somebody looked.
    pub seen: Seen,
}

/// Programs that a verification may report as hot.
pub const HOT_PROGRAMS_MAX: usize = 8;

/// Bytes of a program that is reported as hot.
pub const HOT_BYTES_MAX: usize = 512 << 10;

/// One verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyJob {
    /// How the transaction is encoded.
    pub form: TransactionForm,
    /// The rules.
    pub rules: Rules,
    /// The only group to run; all if there is none.
    pub group: Option<(GroupKind, CellName)>,
    /// Which tiers may run.
    pub tier: Tier,
    /// Cycles of all groups together.
    pub cycles_max: u64,
    /// Bytes of debug output of all groups together that are kept, with one more for each line.
    pub debug_bytes_max: u64,
    /// Bytes of the transaction; what parsing it may take is reserved by them.
    pub transaction_bytes: u64,
    /// The transaction, if it is not in a file; at most [`DOCUMENT_BYTES_MAX`].
    pub document: Bytes,
    /// What the libraries beside the job are, in their order.
    pub libraries: Vec<LibraryOf>,
    /// Digests of the libraries, for a worker that has them already; filled in by the pool.
    pub library_digests: Vec<Sha256Digest>,
    /// Data of cells beside the job, in the order of their numbers in the transaction.
    pub cells: Vec<SharedCell>,
    /// Whether it is for a worker that did nothing before and does nothing after.
    pub is_alone: bool,
    /// Cycles between the samples of its profile, on average; 0 for no profile. What the interpreter runs is
    /// not sampled.
    pub sample_cycles: u64,
    /// What the sample points follow from, with the group's number.
    pub sample_salt: u64,
    /// The groups of the transaction, in the order in which they run, if the supervisor has read it: what a
    /// report is checked against. Never sent.
    #[serde(skip)]
    pub groups: Option<Arc<[KnownGroup]>>,
    /// Digests of what the libraries were compiled from, for the same purpose. Never sent.
    #[serde(skip)]
    pub scripts: Arc<[Sha256Digest]>,
}

/// What a run worker answers to a [`VerifyJob`].
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
        /// What may be worth compiling for another time, most cycles first, at most [`HOT_PROGRAMS_MAX`].
        hot: Vec<HotProgram>,
        /// What native code did not know, by the number of the library in the job.
        seen: Vec<(u32, Seen)>,
        /// What each group says of the libraries whose native code it ran, by their number in the job.
        ran: Vec<(u32, NativeEnd)>,
        /// Where the cycles went, if that was asked for and a sample hit a script.
        samples: Option<Box<Samples>>,
        /// Time to read and check the transaction, microseconds.
        read_us: u64,
        /// Time of the verification itself, microseconds.
        run_us: u64,
    },
    /// The transaction is malformed or incomplete, or has no such group.
    Refused {
        /// Where the mistake is in the document, if it has such a place.
        path: Option<String>,
        /// What is wrong, with its place.
        detail: String,
    },
}

impl VerifyReport {
    /// The groups; none of a transaction that was refused.
    pub(crate) fn groups(&self) -> &[GroupReport] {
        match self {
            Self::Done { groups, .. } => groups,
            Self::Refused { .. } => &[],
        }
    }

    /// Whether all scripts came to their own ends in one tier.
    pub(crate) fn is_clean(&self) -> bool {
        match self {
            Self::Done { outcome, groups, .. } => {
                *outcome != VerifyOutcome::NotRun && groups.iter().all(GroupReport::is_clean)
            }
            Self::Refused { .. } => false,
        }
    }
}
