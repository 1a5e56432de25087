//! Limits and defaults of the command line, each with its unit. A server has limits of its own.

use std::time::Duration;

pub(crate) use antares_abi::{
    CYCLES_MAX_DEFAULT, CompileLimits, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, LIBRARY_BYTES_MAX,
    SCRIPT_BYTES_MAX,
};

/// Longest ELF that is read, bytes, debug data and all; what is loaded of it is a script's.
pub(crate) const ELF_BYTES_MAX: u64 = 256 << 20;
/// Longest profile that is read, bytes.
pub(crate) const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Longest wall time of a run, milliseconds: ten minutes, as long as a worker gets processor time.
pub const DEADLINE_MS_MAX: u64 = 600_000;
/// What the start of a worker may add to the wall time of a compile.
pub(crate) const WORKER_START_MAX: Duration = Duration::from_secs(5);
/// Native code that is kept on this machine, bytes of files.
pub(crate) const CACHED_BYTES_MAX: u64 = 256 << 20;
/// The same, files.
pub(crate) const CACHED_FILES_MAX: usize = 4096;
/// Programs that are kept as met beside another one: each may be passed to a run with it.
pub(crate) const DYNAMIC_PROGRAMS_MAX: usize = 8;
/// A failed run that took more cycles is not run again to tell why, unless that is asked for: ten seconds or
/// so.
pub(crate) const DIAGNOSIS_CYCLES_MAX: u64 = 700_000_000;
/// Instructions that -vvvv shows.
pub(crate) const STEPS_SHOWN: usize = 1000;
/// Files in the folder of a snapshot.
pub(crate) const SNAPSHOT_ENTRIES_MAX: usize = 4096;
/// Functions that a snapshot has of each entry.
pub(crate) const SNAPSHOT_FUNCTIONS_MAX: usize = 64;
/// Longest snapshot that is read, bytes.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;
/// Longest source map that is read, bytes.
pub(crate) const SOURCE_MAP_BYTES_MAX: u64 = 32 << 20;
/// Mappings of one; each takes 28 bytes of memory.
pub(crate) const MAPPINGS_MAX: usize = 2 << 20;
/// After a full compile that failed, none is tried for so long.
pub(crate) const RETRY_FULL_AFTER: Duration = Duration::from_secs(24 * 3600);
/// A compile that lasts longer shows that it is at work.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for a connection to `--server`.
#[cfg(feature = "server")]
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// What a call to `--server` may take beyond compile and run: queue and network.
#[cfg(feature = "server")]
pub(crate) const CALL_OVERHEAD_MAX: Duration = Duration::from_secs(30);
/// Longest answer of a server, bytes: debug output is the longest part of one.
#[cfg(feature = "server")]
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Blocks that a replay had already and that a chain takes back, all together.
#[cfg(feature = "server")]
pub(crate) const REORGANISED_BLOCKS_MAX: u64 = 1000;
/// How often a node may give blocks that do not fit together before it is believed no more.
#[cfg(feature = "server")]
pub(crate) const UNSETTLED_MAX: u32 = 5;
