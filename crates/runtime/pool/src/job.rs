//! The frames between a supervisor and its workers: what is asked and what is answered.
//!
//! Encoded with postcard behind a `u32` little-endian length. Bulk data (ELF, library) travels beside them as
//! sealed memfds, never inside them.

mod ask;
mod batch;
mod profile;
mod verify;

pub use antares_abi::{CompileLimits, Stage, Tier};
use antares_abi::{CompileOptions, Hints, Seen, Sha256Digest};
pub use antares_hosted::job::{
    CellName, DEBUG_LINES_MAX, GroupError, GroupKind, GroupReport, HostedJob, HostedNews, LeftOut, Lines,
    Rules, SCRIPT_ERRORS, VM_ERRORS, VerifyOutcome,
};
use serde::{Deserialize, Serialize};

use crate::early::NativeEnd;

pub use batch::{BatchJob, BatchReport};
pub use profile::{
    DiagnosisJob, DiagnosisReport, EVIDENCE_BYTES_MAX, PROFILE_BYTES_MAX, ProfileJob, ProfileReport,
    ProfiledReport, SAMPLES_BYTES_MAX, SAMPLES_NODES_MAX, Samples,
};
pub use verify::{
    DOCUMENT_BYTES_MAX, HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, KnownGroup, LibraryOf, SharedCell,
    TransactionForm, VerifyFiles, VerifyJob, VerifyReport,
};

/// What a run worker is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunWorkerJob<R = RunJob, V = VerifyJob, B = BatchJob, P = ProfileJob, D = DiagnosisJob> {
    /// To run the script that is beside the job.
    Run(R),
    /// To verify the transaction that is beside the job.
    Verify(V),
    /// To run the script that is beside the job with each of many inputs.
    Batch(B),
    /// To run the script or verify the transaction that is beside the job, and tell where its cycles went.
    Profile(P),
    /// The same, and to keep evidence of how it ended.
    Diagnose(D),
}

/// What a run worker answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunWorkerReport {
    /// To [`RunWorkerJob::Run`], and to each input of a [`RunWorkerJob::Batch`].
    Run(RunReport),
    /// To [`RunWorkerJob::Verify`].
    Verify(VerifyReport),
    /// To [`RunWorkerJob::Batch`], behind the reports of its runs.
    Batch(BatchReport),
    /// To [`RunWorkerJob::Profile`].
    Profile(ProfileReport),
    /// To [`RunWorkerJob::Diagnose`].
    Diagnose(DiagnosisReport),
}

/// Bytes of debug output that a run worker takes memory for at least, so that the next job may have more than
/// the first.
pub const DEBUG_BYTES_LEAST: u64 = 1 << 20;

impl RunWorkerReport {
    /// The report of a run.
    pub(crate) fn into_run(self) -> Option<RunReport> {
        match self {
            Self::Run(report) => Some(report),
            _ => None,
        }
    }

    /// Whether it has more debug output than `bytes_max`. A worker stops before that, as long as it is its
    /// own master.
    pub(crate) fn talks_too_much(&self, bytes_max: u64) -> bool {
        let bytes = self.debug().map(Lines::bytes).fold(0, u64::saturating_add);
        bytes > bytes_max || self.debug().map(Lines::count).sum::<usize>() > DEBUG_LINES_MAX
    }

    /// The debug output in it.
    fn debug(&self) -> impl Iterator<Item = &Lines> {
        let (run, verified) = match self {
            Self::Run(run) => (Some(run), None),
            Self::Verify(report) => (None, Some(report)),
            Self::Profile(ProfileReport { report, .. })
            | Self::Diagnose(DiagnosisReport { report: ProfileReport { report, .. }, .. }) => match report {
                ProfiledReport::Run(run) => (Some(run), None),
                ProfiledReport::Verify(report) => (None, Some(report)),
            },
            Self::Batch(_) => (None, None),
        };
        let groups = verified.map_or(&[][..], VerifyReport::groups);
        run.map(|run| &run.debug).into_iter().chain(groups.iter().map(|group| &group.debug))
    }
}

/// One execution of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Which tiers may run.
    pub tier: Tier,
    /// Arguments as the guest sees them (argv, without a program name).
    pub args: Vec<Vec<u8>>,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Bytes of debug output (syscall 2177) that are kept, with one more for each line; what is beyond them
    /// is left out and counted.
    pub debug_bytes_max: u64,
    /// Cycles between the samples of its profile, on average; 0 for no profile. What the interpreter runs is
    /// not sampled.
    pub sample_cycles: u64,
    /// What the sample points follow from, with the arguments.
    pub sample_salt: u64,
}

/// How a script ended, as far as the worker can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// The script exited with this code.
    Exit(i8),
    /// A ckb-vm error: the variant's name (`MemOutOfBound`) and its details as text, if it has any.
    Error {
        /// Name of the variant of ckb-vm's `Error`.
        name: String,
        /// Its fields as text.
        detail: Option<String>,
    },
    /// The cycle limit was passed.
    CyclesExceeded,
}

/// How one execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the script ended.
    pub outcome: RunOutcome,
    /// Cycles of the run, without [`RunReport::load_cycles`].
    pub cycles: u64,
    /// ceil(loaded bytes / 4).
    pub load_cycles: u64,
    /// Cycles that count for the outcome and ran in native code.
    pub native_cycles: u64,
    /// Cycles that count for the outcome and ran in the interpreter.
    pub interpreted_cycles: u64,
    /// Why native code was left before the end, if it was: a `BailoutReason` name.
    pub restarted: Option<String>,
    /// What native code did not know, if it was left for such a place.
    pub seen: Option<Seen>,
    /// Lines of debug output, in order.
    pub debug: Lines,
    /// Time to load the library and the ELF, microseconds.
    pub load_us: u64,
    /// Time of the run itself, microseconds.
    pub run_us: u64,
    /// Where the cycles went, if that was asked for and a sample hit the run.
    pub samples: Option<Samples>,
}

impl RunReport {
    /// Whether the script came to its own end in one tier.
    pub(crate) fn is_clean(&self) -> bool {
        self.restarted.is_none() && matches!(self.outcome, RunOutcome::Exit(_))
    }

    /// What the run says of its native code. What ends in an error would have gone no further natively.
    #[must_use]
    pub fn native_end(&self) -> NativeEnd {
        match (&self.restarted, &self.outcome) {
            (None, _) if self.native_cycles > 0 => NativeEnd::Whole,
            (Some(_), RunOutcome::Exit(_)) => NativeEnd::Left,
            _ => NativeEnd::Unknown,
        }
    }
}

/// What a compile worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileTask {
    /// Compiles the ELF up to this stage.
    Compile(Stage),
    /// Links the parts that are given in place of an ELF, each behind its length as a `u64`, to a shared
    /// object.
    Link,
    /// No output: looks at the machine code of the library that is given in place of an ELF, and refuses it
    /// ([`CompileReport::Refused`] with the reason `code`) if it is not such as our generators make.
    Check,
}

impl From<Stage> for CompileTask {
    fn from(stage: Stage) -> Self {
        Self::Compile(stage)
    }
}

impl CompileTask {
    /// Whether it gives a shared object.
    #[must_use]
    pub fn is_library(self) -> bool {
        match self {
            Self::Compile(stage) => stage.is_library(),
            Self::Link => true,
            Self::Check => false,
        }
    }
}

/// One compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// What to do.
    pub task: CompileTask,
    /// Where the script was seen to go.
    pub hints: Hints,
    /// Limits.
    pub limits: CompileLimits,
}

/// What a compile worker answers. The bytes of a successful compile are in the output memfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileReport {
    /// Done.
    Done(CompileSummary),
    /// The input cannot be compiled: it is malformed or beyond a limit. The same input gives the same answer.
    Refused {
        /// Closed set: `elf`, `limit_code_bytes`, `limit_functions`, `limit_blocks`, `limit_operations`,
        /// `options`, and `code` for [`CompileTask::Check`].
        reason: String,
        /// What and where, for people.
        detail: String,
    },
    /// We failed.
    Failed {
        /// What and where, for people.
        detail: String,
    },
}

/// Figures of a successful compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileSummary {
    /// Digest of the output bytes.
    pub sha256: Sha256Digest,
    /// Bytes of output.
    pub output_bytes: u64,
    /// Bytes of guest code that were compiled.
    pub guest_code_bytes: u64,
    /// Functions compiled.
    pub functions: u64,
    /// Blocks compiled.
    pub blocks: u64,
    /// Functions of which the verifier refused the optimized form: if there is one, the script was compiled
    /// without optimisation of its address checks and charges.
    pub unproved_functions: u64,
    /// Blocks whose new order of instructions was refused, so that they keep the one that LLVM gave them.
    pub refused_orders: u64,
    /// Wall time, milliseconds.
    pub compile_ms: u64,
}
