//! Fixed limits that are not configurable, each with its unit.

use std::time::Duration;

/// Stacks of a script in a window whose samples claim cycles beyond their runs that are not counted yet.
pub(crate) const PROFILE_CLAIMS_MAX: usize = 4096;

/// Unanswered inputs of one session.
pub(crate) const SESSION_INPUTS_MAX: usize = 256;

/// Bytes of the arguments of a session's waiting inputs, with [`INPUT_BYTES`] for each.
pub(crate) const SESSION_BYTES_MAX: u32 = 8 << 20;

/// Overhead of an input in bytes, without its arguments.
pub(crate) const INPUT_BYTES: u32 = 256;

/// Answers of a session that wait for its caller to take them.
pub(crate) const SESSION_ANSWERS_MAX: usize = 16;

/// Limits of the transactions of one batch or session in progress; between them, four for each worker.
pub(crate) const SHARED_TRANSACTIONS_MIN: usize = 16;
pub(crate) const SHARED_TRANSACTIONS_MAX: usize = 256;

/// Largest shared cell data that each transaction carries inline, bytes; larger data is stored once, in its
/// own file.
pub(crate) const SHARED_INLINE_BYTES_MAX: usize = 4 << 10;

/// Bytes of debug output of all runs of a batch, after which further lines are dropped.
pub(crate) const BATCH_OUTPUT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of a diagnosis, in JSON; a longer one is shortened.
pub(crate) const DIAGNOSIS_BYTES_MAX: u32 = 256 << 10;

/// Wall time of a diagnosis's second run.
pub(crate) const DIAGNOSIS_TIME_MAX: Duration = Duration::from_secs(10);

/// Diagnoses of one batch, and of session inputs that share a worker.
pub(crate) const DIAGNOSES_OF_BATCH_MAX: usize = 8;

/// Concurrent diagnoses: each may take a gibibyte.
pub(crate) const DIAGNOSES_AT_ONCE_MAX: usize = 4;

/// Bytes of each error text about a transaction. Statuses travel in headers, and the transaction influences
/// the text.
pub(crate) const PROBLEM_BYTES_MAX: usize = 600;

/// Entries of the quarantine; beyond that the oldest is dropped.
pub(crate) const QUARANTINE_MAX: usize = 16_384;

/// Tenants (peers, if tenants are not proven) with rule violations of native code that ran alone, after which
/// it is barred for all.
pub(crate) const QUARANTINE_TENANTS: usize = 3;

/// Libraries with recorded bailouts.
pub(crate) const EARLY_LIBRARIES_MAX: usize = 1024;

/// Hot programs that wait to be compiled.
pub(crate) const HOT_QUEUE_MAX: usize = 16;

/// Hot programs remembered for all tenants, each in one VM version, and their bytes.
pub(crate) const HOT_REMEMBERED_MAX: u64 = 256;
pub(crate) const HOT_BYTES_REMEMBERED_MAX: u64 = 64 << 20;

/// Companion programs remembered for a hot program.
pub(crate) const HOT_CELLS_MAX: usize = 64;

/// Time windows of the stored profiles.
pub(crate) const PROFILE_WINDOWS_MAX: usize = 60;

/// Scripts in a window with their own profile.
pub(crate) const PROFILE_SCRIPTS_MAX: usize = 128;

/// Tenants in a window with their own profile in addition to those of scripts; others count together.
pub(crate) const PROFILE_TENANTS_MAX: usize = 128;

/// Nodes of a script's profile in a window; beyond that the cheapest callers are folded. A node takes about
/// 100 bytes.
pub(crate) const PROFILE_NODES_MAX: usize = 4096;

/// Nodes that a run's profile adds at most: the free space in a folded profile of a window.
pub(crate) const PROFILE_RUN_NODES_MAX: usize = PROFILE_NODES_MAX / 4;

/// Profiles of scripts and tenants that wait for the next push; other runs are dropped and counted.
pub(crate) const PROFILE_PENDING_MAX: usize = 2 * PROFILE_SCRIPTS_MAX;

/// Consecutive profiles refused by a receiver, after which this push stops.
pub(crate) const PUSH_FAILURES_MAX: u32 = 3;

/// Stacks of all profiles together; the oldest windows are dropped first.
pub(crate) const PROFILES_NODES_MAX: usize = 1 << 20;

/// Functions in an answer.
pub(crate) const PROFILE_ROWS_MAX: u32 = 1000;

/// Functions in an answer by default.
pub(crate) const PROFILE_ROWS_DEFAULT: u32 = 20;

/// Programs of a profile that are symbolized for an answer.
pub(crate) const PROFILE_PROGRAMS_MAX: usize = 32;

/// Scripts with remembered hints.
pub(crate) const LEARNT_SCRIPTS_MAX: usize = 4096;

/// Consecutive reports on a script without new information, after which none are sent until it is recompiled.
pub(crate) const LEARNT_VAIN_MAX: u32 = 3;

/// Bytes of a serialized transaction that are parsed inline, in some tens of microseconds. Larger ones are
/// parsed on a blocking thread.
pub(crate) const READ_AT_ONCE_BYTES: usize = 64 << 10;

/// Arguments of one run.
pub(crate) const ARGS_MAX: u64 = 1_024;

/// Bytes of all arguments of one run.
pub(crate) const ARGS_BYTES_MAX: u64 = 1 << 20;

/// Inputs of one batch.
pub(crate) const BATCH_RUNS_MAX: u64 = 1_024;

/// Bytes of the caller's `request_id`.
pub(crate) const REQUEST_ID_BYTES_MAX: u64 = 128;

/// Time after which an idle session without unanswered inputs ends.
pub(crate) const SESSION_IDLE_MAX: Duration = Duration::from_secs(60);

/// Retention of profiles.
pub(crate) const PROFILE_AGE_MAX: Duration = Duration::from_secs(3_600);

/// Timeout for connecting to a compiler.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Proxied calls to compilers in progress.
pub(crate) const PROXIED_CALLS_MAX: u64 = 256;

/// Interval between lookups of compilers' names.
pub(crate) const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);

/// Transactions whose cells are fetched from the node at once; others wait until their deadlines.
pub(crate) const LOOKUPS_MAX: usize = 4;

/// Share of one tenant.
pub(crate) const LOOKUPS_PER_TENANT_MAX: usize = 3;

/// Timeout for one request to the node, including the response.
pub(crate) const NODE_REQUEST_TIME_MAX: Duration = Duration::from_secs(20);

/// Attempts of a request to an unreachable or busy node.
pub(crate) const NODE_ATTEMPTS_MAX: u32 = 4;
