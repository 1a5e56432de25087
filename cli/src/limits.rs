//! Limits and defaults of the command line, each with its unit. A server has its own limits.

use std::time::Duration;

pub(crate) use antares_abi::{
    CYCLES_MAX_DEFAULT, CompileLimits, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, LIBRARY_BYTES_MAX,
    SCRIPT_BYTES_MAX,
};

/// Longest ELF to read, bytes, with debug data; the limits of scripts apply to its loaded part.
pub(crate) const ELF_BYTES_MAX: u64 = 256 << 20;
/// Longest profile to read, bytes.
pub(crate) const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Longest wall time of a run, milliseconds: ten minutes, a worker's limit of processor time.
pub const DEADLINE_MS_MAX: u64 = 600_000;
/// Time that the start of a worker may add to a compile.
pub(crate) const WORKER_START_MAX: Duration = Duration::from_secs(5);
/// Limit of the native code cached on this machine, bytes of files.
pub(crate) const CACHED_BYTES_MAX: u64 = 256 << 20;
/// Limit of the cached native code, files.
pub(crate) const CACHED_FILES_MAX: usize = 4096;
/// Dynamic programs remembered for each program: each may be passed to its runs.
pub(crate) const DYNAMIC_PROGRAMS_MAX: usize = 8;
/// A failed run beyond this is not repeated for a diagnosis unless requested: about ten seconds.
pub(crate) const DIAGNOSIS_CYCLES_MAX: u64 = 700_000_000;
/// Instructions that `-vvvv` shows.
pub(crate) const STEPS_SHOWN: usize = 1000;
/// Files in the folder of a snapshot.
pub(crate) const SNAPSHOT_ENTRIES_MAX: usize = 4096;
/// Functions of each entry of a snapshot.
pub(crate) const SNAPSHOT_FUNCTIONS_MAX: usize = 64;
/// Longest snapshot to read, bytes.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;
/// Longest source map to read, bytes.
pub(crate) const SOURCE_MAP_BYTES_MAX: u64 = 32 << 20;
/// Mappings of a source map; each takes 28 bytes of memory.
pub(crate) const MAPPINGS_MAX: usize = 2 << 20;
/// Time between a failed full compile and the next attempt.
pub(crate) const RETRY_FULL_AFTER: Duration = Duration::from_secs(24 * 3600);
/// A longer compile shows its progress.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for a connection to `--server`.
#[cfg(feature = "server")]
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time that a call to `--server` may take beyond compile and run: queue and network.
#[cfg(feature = "server")]
pub(crate) const CALL_OVERHEAD_MAX: Duration = Duration::from_secs(30);
/// Longest response of a server, bytes: debug output is its longest part.
#[cfg(feature = "server")]
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Limit of replayed blocks that the chain reverts, in total.
#[cfg(feature = "server")]
pub(crate) const REORGANISED_BLOCKS_MAX: u64 = 1000;
/// Inconsistent blocks accepted from a node before the replay fails.
#[cfg(feature = "server")]
pub(crate) const UNSETTLED_MAX: u32 = 5;
