//! Zygotes and workers: fork, lease, time out, kill, replace; the frames between parent and child.
//!
//! ```text
//! service: Pool ------- socket ------- zygote (worker binary, one thread, locked in)
//!   |  run, compile       Spawn + fds     | fork
//!   +------ channel: job ----------------> child (locked in further; one job, or more of the same kind)
//!          <------------- report
//! ```
//! Services use [`Pool`]; worker binaries implement [`Worker`] and call [`serve`]. Bulk data travels as
//! [`Sealed`] memory files. A child that does not answer in time, dies, or breaks its rules is a [`Verdict`]
//! for its own caller.
#![allow(unsafe_code, reason = "shared memory and processes")]

mod artifact;
mod call;
mod cancel;
mod channel;
mod checks;
mod child;
mod code;
mod conclude;
mod config;
mod control_group;
mod early;
mod error;
mod exchange;
mod frame;
mod futex;
mod heap;
mod hosted;
mod inspect;
pub mod job;
mod ledger;
mod mapped;
mod output;
mod parts;
mod pool;
mod process_state;
mod reaper;
mod reuse;
mod ring;
mod script;
mod sealed;
mod spare;
mod standalone;
mod started;
mod stats;
mod supervisor;
mod surroundings;
mod text;
mod verdict;
mod wire;
mod zygote;
mod zygote_error;

pub use antares_sandbox::{Layer, LayerStatus, RUN_MEMORY_BYTES_MAX, Speculation};
pub use artifact::{ArtifactError, verify_library};
pub use cancel::{Cancel, Recall, Until};
pub use checks::batch_output_bytes;
pub use child::{Files, Worker};
pub use config::PoolConfig;
pub use control_group::GroupConfig;
pub use early::{EARLY_RUNS_MIN, EARLY_TRY_ONE_IN, EarlyBailouts, NativeEnd};
pub use error::{PoolError, describe, is_exhausted};
pub use frame::{JOB_BYTES_MAX, REPORT_BYTES_MAX};
pub use heap::give_large_blocks_back;
pub use hosted::{
    HostPipes, Hosted, ParentLink, ParentPipes, is_hosted, layer_names, layers_missing, serve_hosted,
};
pub use output::OUTPUT_BYTES_MAX;
pub use pool::{BatchEnd, Compiled, Pool, WORKERS_MAX, worker_path};
pub use process_state::{ProcessKind, settle};
pub use reaper::kill_zygotes;
pub use reuse::{Renewal, Reuse};
pub use script::{COMPILE_HEAD_START, LONG_COMPILE_BYTES, executable_bytes};
pub use sealed::{Sealed, copied_bytes, digest, digested_bytes};
pub use standalone::{StandaloneWorker, in_memory, is_standalone, serve_standalone};
pub use started::{Answers, StartedRun};
pub use stats::PoolStats;
pub use surroundings::surroundings;
pub use text::{TEXT_BYTES_MAX, cut_text};
pub use verdict::Verdict;
pub use zygote::serve;
pub use zygote_error::ZygoteError;
