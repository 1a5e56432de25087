//! The frames between a supervisor and its workers: what is asked and what is answered.
//!
//! Encoded with postcard behind a `u32` little-endian length. Bulk data (ELF, library) travels beside them as
//! sealed memfds, never inside them.

mod batch;
mod lease;
mod profile;
mod run;
mod verify;

pub use antares_abi::{CompileLimits, Stage, Tier};
use antares_abi::{CompileOptions, Hints, Sha256Digest};
pub use antares_hosted::job::{
    CellName, DEBUG_LINES_MAX, GroupError, GroupKind, GroupReport, HostedJob, HostedNews, Lines, Omitted,
    Rules, RunOutcome, RunReport, SCRIPT_ERRORS, Samples, VM_ERRORS, VerifyOutcome,
};
use serde::{Deserialize, Serialize};

pub use batch::{BatchJob, BatchReport};
pub use profile::{
    DiagnosisJob, DiagnosisReport, EVIDENCE_BYTES_MAX, PROFILE_BYTES_MAX, ProfileJob, ProfileReport,
    ProfiledReport,
};
pub use run::RunJob;
pub use verify::{
    DOCUMENT_BYTES_MAX, HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, KnownGroup, LibraryOf, SharedCell,
    TransactionForm, VerifyFiles, VerifyJob, VerifyReport,
};

/// Bytes of a sampled profile, at most; a larger one is left out.
pub const SAMPLES_BYTES_MAX: usize = 256 << 10;

/// Stacks of a sampled profile, at most; what is in others counts as other.
pub const SAMPLES_NODES_MAX: usize = 4096;

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
