//! Limits that are no matter of configuration, each with its unit.

use std::time::Duration;

/// What samples stand for beyond their runs and is not counted yet, of a script in a window: so many stacks.
pub(crate) const PROFILE_CLAIMS_MAX: usize = 4096;

/// Inputs of one session that wait for their answers.
pub(crate) const SESSION_INPUTS_MAX: usize = 256;

/// Bytes of the arguments of a session's waiting inputs, with [`INPUT_BYTES`] for each.
pub(crate) const SESSION_BYTES_MAX: u32 = 8 << 20;

/// Bytes that an input takes beside its arguments.
pub(crate) const INPUT_BYTES: u32 = 256;

/// Answers of a session that wait for its caller to take them.
pub(crate) const SESSION_ANSWERS_MAX: usize = 16;

/// Transactions of one batch or session that are in progress at once, at least and at most; between them,
/// four for each worker.
pub(crate) const SHARED_TRANSACTIONS_MIN: usize = 16;
pub(crate) const SHARED_TRANSACTIONS_MAX: usize = 256;

/// Data of a shared cell up to which it goes along with each transaction, bytes; more is kept once, in a file
/// of its own.
pub(crate) const SHARED_INLINE_BYTES_MAX: usize = 4 << 10;

/// Bytes of debug output of all runs of a batch together, after which their lines are left out.
pub(crate) const BATCH_OUTPUT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of a diagnosis, in JSON; a longer one is shortened.
pub(crate) const DIAGNOSIS_BYTES_MAX: u32 = 256 << 10;

/// Wall time of the second run that a diagnosis takes.
pub(crate) const DIAGNOSIS_TIME_MAX: Duration = Duration::from_secs(10);

/// Diagnoses of one batch, and of the inputs of a session that go to a worker together.
pub(crate) const DIAGNOSES_OF_BATCH_MAX: usize = 8;

/// Diagnoses that are made at once, at most: each may take a gibibyte.
pub(crate) const DIAGNOSES_AT_ONCE_MAX: usize = 4;

/// Bytes of each text about a mistake in a transaction. Statuses travel in headers, and the transaction
/// decides the text.
pub(crate) const PROBLEM_BYTES_MAX: usize = 600;

/// Native code that is remembered for broken rules; beyond that the oldest is forgotten.
pub(crate) const QUARANTINE_MAX: usize = 16_384;

/// Tenants (peers, where tenants are not proven) for whom native code that ran alone has broken a rule, from
/// which on nobody gets it.
pub(crate) const QUARANTINE_TENANTS: usize = 3;

/// Libraries that are remembered for having been left.
pub(crate) const EARLY_LIBRARIES_MAX: usize = 1024;

/// Hot programs that wait to be compiled.
pub(crate) const HOT_QUEUE_MAX: usize = 16;

/// Hot programs that are remembered for all tenants, each in one VM version, and their bytes.
pub(crate) const HOT_REMEMBERED_MAX: u64 = 256;
pub(crate) const HOT_BYTES_REMEMBERED_MAX: u64 = 64 << 20;

/// Programs with which a hot program is remembered to go.
pub(crate) const HOT_CELLS_MAX: usize = 64;

/// Windows of time that the kept profiles are divided into.
pub(crate) const PROFILE_WINDOWS_MAX: usize = 60;

/// Scripts in a window that have a profile of their own.
pub(crate) const PROFILE_SCRIPTS_MAX: usize = 128;

/// Tenants in a window that have a profile of their own beside those of scripts; others count together.
pub(crate) const PROFILE_TENANTS_MAX: usize = 128;

/// Nodes of a script's profile in a window; with more, callers that cost least are folded away. One takes
/// about 100 bytes.
pub(crate) const PROFILE_NODES_MAX: usize = 4096;

/// Nodes of a run's profile that are added: what a folded profile of a window has room for.
pub(crate) const PROFILE_RUN_NODES_MAX: usize = PROFILE_NODES_MAX / 4;

/// Profiles of scripts and tenants that wait for the next push; runs of others are left out and counted.
pub(crate) const PROFILE_PENDING_MAX: usize = 2 * PROFILE_SCRIPTS_MAX;

/// Profiles in a row that a receiver does not take, after which it gets no more of this push.
pub(crate) const PUSH_FAILURES_MAX: u32 = 3;

/// Stacks of all profiles together; the oldest windows go first.
pub(crate) const PROFILES_NODES_MAX: usize = 1 << 20;

/// Functions in an answer.
pub(crate) const PROFILE_ROWS_MAX: u32 = 1000;

/// Functions in an answer where the caller names no number.
pub(crate) const PROFILE_ROWS_DEFAULT: u32 = 20;

/// Programs of a profile whose symbols are read for an answer.
pub(crate) const PROFILE_PROGRAMS_MAX: usize = 32;

/// Scripts of which it is remembered with which hints they are compiled.
pub(crate) const LEARNT_SCRIPTS_MAX: usize = 4096;

/// Reports on a script, one after another, that brought nothing new: then no more are sent until it is
/// compiled anew.
pub(crate) const LEARNT_VAIN_MAX: u32 = 3;

/// Bytes of a transaction, as it was sent, that are read where they arrive: some tens of microseconds. More
/// are read on a thread that may block.
pub(crate) const READ_AT_ONCE_BYTES: usize = 64 << 10;

/// Arguments of one run.
pub(crate) const ARGS_MAX: u64 = 1_024;

/// Bytes of all arguments of one run.
pub(crate) const ARGS_BYTES_MAX: u64 = 1 << 20;

/// Inputs of one batch.
pub(crate) const BATCH_RUNS_MAX: u64 = 1_024;

/// Bytes of the caller's `request_id`.
pub(crate) const REQUEST_ID_BYTES_MAX: u64 = 128;

/// A session whose inputs all have their answers ends after so long without another one.
pub(crate) const SESSION_IDLE_MAX: Duration = Duration::from_secs(60);

/// How long profiles are kept.
pub(crate) const PROFILE_AGE_MAX: Duration = Duration::from_secs(3_600);

/// How long a connection to a compiler may take.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Calls in progress that are passed on to compilers.
pub(crate) const PROXIED_CALLS_MAX: u64 = 256;

/// How often the names of compilers are looked up.
pub(crate) const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);

/// Transactions whose cells are fetched from the node at once; more wait for as long as their calls have.
pub(crate) const LOOKUPS_MAX: usize = 4;

/// Of these, of one tenant.
pub(crate) const LOOKUPS_PER_TENANT_MAX: usize = 3;

/// Time for one request to the node and its whole answer.
pub(crate) const NODE_REQUEST_TIME_MAX: Duration = Duration::from_secs(20);

/// How often a request is sent that finds no node, or a busy one.
pub(crate) const NODE_ATTEMPTS_MAX: u32 = 4;
