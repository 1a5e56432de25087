//! Limits and defaults of the command line, each with its unit. A server has limits of its own.

use std::time::Duration;

pub(crate) use antares_abi::{
    CYCLES_MAX_DEFAULT, CompileLimits, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, LIBRARY_BYTES_MAX,
    SCRIPT_BYTES_MAX,
};

/// Longest profile that is read, bytes; a script is shorter.
pub(crate) const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Longest wall time of a run, milliseconds: ten minutes, as long as a worker gets processor time.
pub(crate) const DEADLINE_MS_MAX: u64 = 600_000;
/// What the start of a worker may add to the wall time of a compile.
pub(crate) const WORKER_START_MAX: Duration = Duration::from_secs(5);
/// Native code that is kept on this machine, bytes of files.
pub(crate) const KEPT_BYTES_MAX: u64 = 256 << 20;
/// The same, files.
pub(crate) const KEPT_FILES_MAX: usize = 4096;
/// Programs that are kept as met beside another one: each may be passed to a run with it.
pub(crate) const BESIDE_MAX: usize = 8;
/// After a full compile that failed, none is tried for so long.
pub(crate) const KEPT_AGAIN_AFTER: Duration = Duration::from_secs(24 * 3600);
/// A compile that lasts longer shows that it is at work.
pub(crate) const PROGRESS_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for a connection to `--server`.
#[cfg(feature = "server")]
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(5);
/// What a call to `--server` may take beyond compile and run: queue and network.
#[cfg(feature = "server")]
pub(crate) const CALL_OVERHEAD_MAX: Duration = Duration::from_secs(30);
/// Length of the pieces in which a script is uploaded, bytes.
#[cfg(feature = "server")]
pub(crate) const UPLOAD_CHUNK_BYTES: usize = 64 << 10;
/// Longest answer of a server, bytes: debug output is the longest part of one.
#[cfg(feature = "server")]
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
