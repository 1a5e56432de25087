//! The configuration as it is written: every key with its unit and its default, in one place.
//!
//! One file serves all binaries; a section that a role does not use is checked and otherwise ignored. Zero
//! never means "default", and an empty text switches the thing off where that is possible.

mod admin;
mod audit;
mod auth;
mod node;
mod quota;
mod sandbox;
mod shared_tier;
mod signing;
mod tls;
mod trace;
mod usage;
mod web;

use std::path::PathBuf;

use antares_abi::{
    CYCLES_MAX_DEFAULT, CompileLimits, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, LIBRARY_BYTES_MAX,
    SCRIPT_BYTES_MAX,
};
use serde::{Deserialize, Serialize};

pub use admin::RawAdmin;
pub use audit::RawAudit;
pub use auth::{RawAuth, RawRule};
pub use node::RawNode;
pub use quota::{RawQuotas, RawTenantQuotas, RawTenants};
pub use sandbox::RawSandbox;
pub use shared_tier::RawShared;
pub use signing::{RawSigning, RawVerdict};
pub use tls::RawTls;
pub use trace::RawTrace;
pub use usage::RawUsage;
pub use web::RawWeb;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What a compile may cost, where a service stands alone or not.
const COMPILE: CompileLimits = CompileLimits::DEFAULT;

/// A configuration as written, defaults filled in. [`RawConfig::check`] gives what it means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawConfig {
    /// The gRPC listener.
    pub listen: RawListen,
    /// The listener for gRPC-web and JSON.
    pub web: RawWeb,
    /// Encryption of the gRPC listener.
    pub tls: RawTls,
    /// Who may call.
    pub auth: RawAuth,
    /// Who administers, beside whom `[auth]` lets.
    pub admin: RawAdmin,
    /// What tenants may use up.
    pub quotas: RawQuotas,
    /// What tenants see of each other.
    pub tenants: RawTenants,
    /// What tenants used, by the hour.
    pub usage: RawUsage,
    /// The log of who did what.
    pub audit: RawAudit,
    /// The HTTP listener of `/metrics` and `/healthz`.
    pub metrics: RawMetrics,
    /// Logs.
    pub log: RawLog,
    /// Traces.
    pub trace: RawTrace,
    /// Profiles that are sent to others.
    pub profile_push: RawProfilePush,
    /// The fence around workers.
    pub sandbox: RawSandbox,
    /// The store of scripts and artifacts (compiler).
    pub cache: RawCache,
    /// The object store that several servers share (compiler).
    pub shared: RawShared,
    /// Who signs native code, and whose is taken.
    pub signing: RawSigning,
    /// Who signs verdicts of transactions.
    pub verdict: RawVerdict,
    /// Where cells of bare transactions come from.
    pub node: RawNode,
    /// The compiler service.
    pub compiler: RawCompiler,
    /// The runner service.
    pub runner: RawRunner,
}

/// Section `[listen]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawListen {
    /// Address and port for gRPC; port 0 takes a free one.
    pub address: String,
    /// Accept an address beyond loopback without encryption, or without asking anybody who they are.
    pub allow_open: bool,
    /// Whether reflection is served.
    pub reflection: bool,
    /// Longest message in either direction, bytes.
    pub message_bytes_max: u64,
    /// Calls in progress at once; more get RESOURCE_EXHAUSTED. Health checks do not count. The last eighth is
    /// for peers that have few.
    pub calls_max: u64,
    /// Of these, of one peer: an IPv4 address, or an IPv6 network of 64 bits.
    pub calls_per_peer_max: u64,
    /// Of these, of one tenant of a peer.
    pub calls_per_tenant_max: u64,
    /// Bytes of requests that are being received or worked at, over all connections; more get
    /// RESOURCE_EXHAUSTED. The last eighth is for peers that have few.
    pub request_bytes_max: u64,
    /// Of these, of one peer.
    pub request_bytes_per_peer_max: u64,
    /// How long the server waits for the bytes of a message, milliseconds.
    pub request_ms_max: u64,
    /// Connections at once; one more gets the place of an idle one of the peer that has most, or is closed.
    pub connections_max: u64,
    /// Of these, of one peer; one more gets the place of an idle one of its own, or is closed.
    pub connections_per_peer_max: u64,
    /// A connection without calls is closed after so long, milliseconds.
    pub connection_idle_ms_max: u64,
    /// A connection takes no more calls after so long, give or take a tenth, milliseconds.
    pub connection_age_ms_max: u64,
    /// How long its calls may then take to end, milliseconds.
    pub connection_age_grace_ms: u64,
    /// Calls in progress at once on one connection.
    pub streams_per_connection_max: u64,
    /// Longest header list of a call, bytes.
    pub header_bytes_max: u64,
    /// Streams that a connection may open and reset before they are accepted (rapid reset); more closes it.
    pub pending_resets_max: u64,
    /// A connection without traffic is pinged after so long, milliseconds.
    pub keepalive_interval_ms: u64,
    /// A connection that does not answer a ping for so long is closed, milliseconds.
    pub keepalive_timeout_ms: u64,
    /// At SIGTERM: how long health says NOT_SERVING before the listener closes, milliseconds; 0 for at once.
    pub drain_delay_ms: u64,
    /// At SIGTERM: how long calls in progress may take to end, milliseconds.
    pub drain_grace_ms: u64,
}

/// Section `[metrics]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawMetrics {
    /// Address and port for HTTP; port 0 takes a free one; empty switches it off.
    pub address: String,
    /// Names of this host by which `/` and `/debug/*` may be asked for, beside `localhost` and IP addresses.
    pub hosts: Vec<String>,
}

/// Section `[log]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawLog {
    /// `text` or `json`.
    pub format: String,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `info,antares_pool=debug`.
    pub filter: String,
    /// Lines of one kind (a place in the code) that are written, on average over ten seconds; of levels from
    /// `info` up.
    pub lines_per_second: u64,
}

/// Section `[profile_push]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawProfilePush {
    /// Whether profiles go to `trace.endpoint`, as OTLP profiles (v1development).
    pub otlp: bool,
    /// Pyroscope, or what takes its `/ingest`, such as `http://localhost:4040`; empty sends nothing there.
    pub pyroscope_url: String,
    /// Whether Pyroscope is told the tenant of each profile, as `X-Scope-OrgID`.
    pub pyroscope_tenants: bool,
    /// How often what was run meanwhile is sent, milliseconds.
    pub interval_ms: u64,
    /// How long a receiver may take for one profile, milliseconds.
    pub timeout_ms: u64,
}

/// Section `[cache]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawCache {
    /// Directory, made if it is not there. One process at a time.
    pub dir: PathBuf,
    /// Disk that entries may take, bytes: three for each byte stored, so a third of it is what fits. Plan the
    /// volume at twice this.
    pub budget_bytes: u64,
    /// Largest artifact or script that is stored, bytes.
    pub entry_bytes_max: u64,
    /// Free bytes of the file system under which nothing more is stored.
    pub free_bytes_min: u64,
    /// Accept network, FUSE and overlay file systems, whose locks and syncs cannot be relied on.
    pub allow_any_filesystem: bool,
}

/// Section `[compiler]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawCompiler {
    /// Compiles at once.
    pub workers_max: u64,
    /// Longest script, bytes.
    pub script_bytes_max: u64,
    /// Longest chunk of an upload and of a download, bytes.
    pub chunk_bytes_max: u64,
    /// Uploads in progress at once. Each holds a chunk in memory, and one at a time all of a script, when it
    /// is stored.
    pub uploads_max: u64,
    /// Bytes of uploads that are not complete, on the volume of the store; a tenant may have half of it.
    pub upload_bytes_max: u64,
    /// Uploads that are not complete, in progress or broken off; a tenant may have half of it.
    pub partial_uploads_max: u64,
    /// How long an upload that broke off can go on, milliseconds.
    pub upload_keep_ms: u64,
    /// Downloads in progress at once. Each may hold one artifact in memory.
    pub downloads_max: u64,
    /// An upload that sends nothing, or a download that takes nothing, for so long is ended, milliseconds.
    pub idle_ms_max: u64,
    /// Digests in one FindMissing.
    pub digests_max: u64,
    /// How long a refusal (malformed, beyond a limit) is remembered, milliseconds.
    pub refused_ttl_ms: u64,
    /// How long a compile that took too long is remembered, milliseconds.
    pub timeout_ttl_ms: u64,
    /// How long a compile may wait for a free worker, milliseconds.
    pub queue_ms_max: u64,
    /// One compile in so many is made again by another worker, and the libraries compared; 0 for none.
    pub recompile_one_in: u64,
    /// Bytes of executable pages of a script.
    pub code_bytes_max: u64,
    /// Functions of a script.
    pub functions_max: u64,
    /// Blocks of a script.
    pub blocks_max: u64,
    /// Operations of the intermediate form of a script.
    pub operations_max: u64,
    /// Address space of a compile worker, bytes.
    pub memory_bytes_max: u64,
    /// Wall time of a compile, milliseconds.
    pub wall_ms_max: u64,
    /// Whether new scripts get native code from the fast generator at once, with the full compile behind it.
    pub baseline: bool,
    /// Full compiles that follow a baseline and wait for their turn; more are left for a later run to ask
    /// for.
    pub followers_max: u64,
}

/// Section `[runner]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawRunner {
    /// Runs at once.
    pub workers_max: u64,
    /// Calls that wait for a worker, at most; more get RESOURCE_EXHAUSTED. Tenants that wait take turns.
    pub queue_max: u64,
    /// What a worker does after a run that went well: `per_execution` ends it, `per_artifact` lets it wait
    /// for another run of the same script and native code for the same tenant.
    pub reuse: String,
    /// Runs after which a worker is replaced.
    pub reuse_runs_max: u64,
    /// Workers that wait for another run at once, at most, beside those that run; 0 for none.
    pub idle_workers_max: u64,
    /// The compiler service, such as `http://antares-compiler:50051`, or `https://...`, or several with
    /// commas between; empty where both run in one process.
    pub compiler_url: String,
    /// How often the names of the compiler service are looked up, milliseconds: each address that a name has
    /// is a compiler by itself, and equal scripts go to the same one. 0 leaves names alone.
    pub compiler_resolve_ms: u64,
    /// PEM file with the authorities of the compiler service's certificate; empty for the system's.
    pub compiler_ca: String,
    /// PEM file with the certificate that the compiler service is shown; empty for that of `[tls]`, if there
    /// is one.
    pub compiler_certificate: String,
    /// PEM file with its private key.
    pub compiler_key: String,
    /// File with a bearer token that the compiler service is shown; empty for none.
    pub compiler_token_file: String,
    /// How long a connection to the compiler service may take, milliseconds.
    pub compiler_connect_ms_max: u64,
    /// Of a hundred calls for scripts and native code, so many may be made by the next compiler too, when the
    /// first one takes longer than most of them do; 0 for none.
    pub compiler_hedge_percent: u64,
    /// Longest inline ELF, bytes.
    pub script_bytes_max: u64,
    /// Number of arguments.
    pub args_max: u64,
    /// All arguments together, bytes.
    pub args_bytes_max: u64,
    /// Inputs of one batch.
    pub batch_runs_max: u64,
    /// The caller's `request_id`, bytes.
    pub request_id_bytes_max: u64,
    /// Cycle limit where the request has none.
    pub max_cycles_default: u64,
    /// Highest cycle limit.
    pub max_cycles_max: u64,
    /// Wall time of a run: default and cap, milliseconds.
    pub deadline_ms_max: u64,
    /// Wall time of a whole call (queue, compile and run) where the caller sets no shorter one, milliseconds.
    pub call_ms_max: u64,
    /// A session whose inputs all have their answers, and that sends none for so long, is ended,
    /// milliseconds.
    pub session_idle_ms_max: u64,
    /// Debug output of a run: default and cap, bytes.
    pub debug_bytes_max: u64,
    /// Scripts and artifacts kept ready in memory, bytes: whole pages, and one page more for each.
    pub ready_bytes_max: u64,
    /// Scripts and artifacts kept ready in memory, each of which takes a file descriptor.
    pub ready_entries_max: u64,
    /// Data of cells that transactions name by digest, kept in memory, bytes: whole pages, and one page more
    /// for each.
    pub hot_cells_bytes_max: u64,
    /// Cells whose data is kept in memory, each of which takes a file descriptor.
    pub hot_cells_entries_max: u64,
    /// Cycles between the samples of profiles, on average; 0 for no profiles.
    pub sample_cycles: u64,
    /// How long profiles are kept, milliseconds.
    pub profile_keep_ms: u64,
    /// One native run in so many is run again in the interpreter and compared; 0 for none.
    pub recheck_one_in: u64,
    /// Each script group of a transaction in a worker of its own.
    pub groups_apart: bool,
}

impl Default for RawListen {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:50051".to_owned(),
            allow_open: false,
            reflection: true,
            message_bytes_max: 20 * MIB,
            calls_max: 1024,
            calls_per_peer_max: 768,
            calls_per_tenant_max: 512,
            request_bytes_max: 256 * MIB,
            request_bytes_per_peer_max: 128 * MIB,
            request_ms_max: 30_000,
            connections_max: 1024,
            connections_per_peer_max: 256,
            connection_idle_ms_max: 120_000,
            connection_age_ms_max: 1_800_000,
            connection_age_grace_ms: 300_000,
            streams_per_connection_max: 256,
            header_bytes_max: 16 * KIB,
            pending_resets_max: 32,
            keepalive_interval_ms: 20_000,
            keepalive_timeout_ms: 10_000,
            drain_delay_ms: 500,
            drain_grace_ms: 25_000,
        }
    }
}

impl Default for RawMetrics {
    fn default() -> Self {
        Self { address: "127.0.0.1:9464".to_owned(), hosts: Vec::new() }
    }
}

impl Default for RawLog {
    fn default() -> Self {
        Self { format: "text".to_owned(), filter: "info,opentelemetry=warn".to_owned(), lines_per_second: 50 }
    }
}

impl Default for RawProfilePush {
    fn default() -> Self {
        Self {
            otlp: false,
            pyroscope_url: String::new(),
            pyroscope_tenants: false,
            interval_ms: 15_000,
            timeout_ms: 2_000,
        }
    }
}

impl Default for RawCache {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("antares-data"),
            budget_bytes: 2 * GIB,
            entry_bytes_max: LIBRARY_BYTES_MAX,
            free_bytes_min: 64 * MIB,
            allow_any_filesystem: false,
        }
    }
}

impl Default for RawCompiler {
    fn default() -> Self {
        Self {
            workers_max: parallelism(),
            script_bytes_max: SCRIPT_BYTES_MAX,
            chunk_bytes_max: 256 * KIB,
            uploads_max: 16,
            upload_bytes_max: 512 * MIB,
            partial_uploads_max: 64,
            upload_keep_ms: 300_000,
            downloads_max: 32,
            idle_ms_max: 30_000,
            digests_max: 1_000,
            refused_ttl_ms: 3_600_000,
            timeout_ttl_ms: 30_000,
            queue_ms_max: 60_000,
            recompile_one_in: 1_000,
            code_bytes_max: COMPILE.code_bytes_max,
            functions_max: COMPILE.functions_max,
            blocks_max: COMPILE.blocks_max,
            operations_max: COMPILE.operations_max,
            memory_bytes_max: COMPILE.memory_bytes_max,
            wall_ms_max: COMPILE.wall_ms_max,
            baseline: true,
            followers_max: 64,
        }
    }
}

impl Default for RawRunner {
    fn default() -> Self {
        Self {
            workers_max: parallelism(),
            queue_max: 1_024,
            reuse: "per_artifact".to_owned(),
            reuse_runs_max: 10_000,
            idle_workers_max: 16,
            compiler_url: String::new(),
            compiler_resolve_ms: 0,
            compiler_ca: String::new(),
            compiler_certificate: String::new(),
            compiler_key: String::new(),
            compiler_token_file: String::new(),
            compiler_connect_ms_max: 2_000,
            compiler_hedge_percent: 10,
            script_bytes_max: SCRIPT_BYTES_MAX,
            args_max: 1_024,
            args_bytes_max: MIB,
            batch_runs_max: 1_024,
            request_id_bytes_max: 128,
            max_cycles_default: CYCLES_MAX_DEFAULT,
            max_cycles_max: 1_000_000_000_000,
            deadline_ms_max: DEADLINE_MS_DEFAULT,
            call_ms_max: 300_000,
            session_idle_ms_max: 60_000,
            debug_bytes_max: DEBUG_BYTES_MAX,
            ready_bytes_max: 256 * MIB,
            ready_entries_max: 1_024,
            hot_cells_bytes_max: 256 * MIB,
            hot_cells_entries_max: 1_024,
            sample_cycles: 2_097_152,
            profile_keep_ms: 3_600_000,
            recheck_one_in: 10_000,
            groups_apart: false,
        }
    }
}

/// CPUs that this process may use, cgroup quota included.
fn parallelism() -> u64 {
    std::thread::available_parallelism().map_or(1, |number| number.get() as u64)
}
