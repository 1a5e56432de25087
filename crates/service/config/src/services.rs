//! Sections `[compiler]`, `[runner]`, `[sandbox]` and `[node]`.

use antares_abi::{CYCLES_MAX_DEFAULT, CompileLimits, DEADLINE_MS_DEFAULT, SCRIPT_BYTES_MAX};

use crate::{
    check::Checker,
    section::{MIB, parallelism, section},
};

section! {
/// The runner service.
"runner": RawRunner => RunnerSection(
    /// Maximum length of an inline script in bytes: that of the compiler.
    script_bytes_max: u64,
) {
    /// Runs at once.
    workers_max: workers = parallelism();
    /// Calls that wait for a worker, at most; more get RESOURCE_EXHAUSTED. Tenants share the workers' time.
    queue_max: count = 1_024;
    /// Maximum number of idle workers, in addition to those that run; 0 gives each run a worker of
    /// its own. A worker waits for another run of the same script and native code for the same tenant, or after
    /// a transaction for another one of that tenant whose native code and shared cells it has loaded; not with
    /// `groups_apart`, nor after a second run, a transaction of more than 1 MiB beside its shared cells, or one
    /// that took more than 32 MiB of memory.
    idle_workers_max: at_most(1_024) = 16;
    /// The compiler service, such as `http://antares-compiler:50051`, or `https://...`, or several with
    /// commas between; empty where both run in one process. Names are looked up every five seconds: each
    /// address of a name is a compiler by itself, and equal scripts go to the same one.
    compiler_url as compiler_urls: urls;
    /// PEM file with the authorities of the compiler service's certificate; empty for the system's.
    compiler_ca: file;
    /// PEM file with the certificate that the compiler service is shown; empty for that of `[tls]`, if there
    /// is one.
    compiler_certificate: file;
    /// PEM file with its private key.
    compiler_key: file;
    /// File with a bearer token that the compiler service is shown; empty for none.
    compiler_token_file: file;
    /// Highest cycle limit.
    max_cycles_max: positive = 1_000_000_000_000;
    /// Wall time of a run: default and cap.
    deadline_ms_max as deadline_max: time = DEADLINE_MS_DEFAULT;
    /// Wall time of a whole call (queue, compile and run) where the caller sets no shorter one.
    call_ms_max as call_time_max: time = 300_000;
    /// Scripts and artifacts cached in memory: whole pages, and one page more for each. For each 256 KiB
    /// one of them, which takes a file descriptor.
    ready_bytes_max: positive = 256 * MIB;
    /// Data of cells that transactions name by digest, kept in memory, as with `ready_bytes_max`.
    hot_cells_bytes_max: positive = 256 * MIB;
    /// Cycles between the samples of profiles, on average; 0 for no profiles.
    sample_cycles: one_in = 2_097_152;
    /// One native run in so many, drawn by lot, is run again in the interpreter by another worker, behind the
    /// answer, and compared (outcome, cycles, output); 0 for none. A batch, or the inputs of a session that
    /// went to a worker together, are run again together, a transaction as a whole. A difference puts the
    /// artifacts into quarantine. Callers may ask for it too (`recheck` in `Execute`, `ExecuteBatch`,
    /// `VerifyTransaction`), whatever this says: their answer waits for it, and both runs count in their
    /// quotas.
    recheck_one_in: one_in = 10_000;
    /// Each script group of a transaction in a worker of its own: a script that takes its worker over cannot
    /// answer for the others of its transaction. Costs a worker's start for each group.
    groups_apart: flag;
}
}

/// Bytes of the budget per entry in memory: each entry takes a file descriptor.
const BYTES_PER_ENTRY: u64 = 256 << 10;

impl RunnerSection {
    /// Cycle limit of requests that set none.
    #[must_use]
    pub fn max_cycles_default(&self) -> u64 {
        CYCLES_MAX_DEFAULT.min(self.max_cycles_max)
    }

    /// Maximum number of scripts and artifacts ready in memory.
    #[must_use]
    pub fn ready_entries_max(&self) -> u64 {
        (self.ready_bytes_max / BYTES_PER_ENTRY).max(1)
    }

    /// Maximum number of cells with data in memory.
    #[must_use]
    pub fn hot_cells_entries_max(&self) -> u64 {
        (self.hot_cells_bytes_max / BYTES_PER_ENTRY).max(1)
    }
}

impl RawRunner {
    pub(crate) fn agree(&self, checker: &mut Checker) {
        if self.deadline_ms_max > self.call_ms_max {
            checker.record("runner.deadline_ms_max", "is more than runner.call_ms_max");
        }
    }
}

impl Default for RunnerSection {
    fn default() -> Self {
        RawRunner::default().check(&mut Checker::default(), SCRIPT_BYTES_MAX)
    }
}

/// Limits of a compile, for a separate compiler service and for one in the same process.
const COMPILE: CompileLimits = CompileLimits::DEFAULT;

section! {
/// The compiler service.
"compiler": RawCompiler => CompilerSection {
    /// Compiles at once.
    workers_max: workers = parallelism();
    /// Longest script, uploaded or inline; also read by a runner alone. A message has at most 4 MiB more.
    script_bytes_max: positive = SCRIPT_BYTES_MAX;
    /// Uploads in progress at once. Each holds a chunk in memory, and one at a time all of a script, when it
    /// is stored.
    fixed uploads_max: count = 16;
    /// Bytes of uploads that are not complete, on the volume of the store; a tenant may have half of it.
    fixed upload_bytes_max: whole = 512 * MIB;
    /// Uploads that are not complete, in progress or broken off; a tenant may have half of it. Each has a
    /// file open.
    fixed partial_uploads_max: count = 64;
    /// How long an upload that broke off can go on.
    fixed upload_keep_ms as upload_keep: time = 300_000;
    /// An upload that sends nothing, or a download that takes nothing, for so long is ended.
    fixed idle_ms_max as idle_max: time = 30_000;
    /// How long a compile may wait for a free worker.
    fixed queue_ms_max as queue_time_max: time = 60_000;
    /// One compile in so many, drawn by lot, is made again by another worker behind the answer, one at a
    /// time, and the libraries compared, which are the same where all is well; 0 for none. One that differs
    /// is taken out of the store, and both digests are revoked.
    recompile_one_in: one_in = 1_000;
    /// Bytes of executable pages of a script.
    fixed code_bytes_max: positive = COMPILE.code_bytes_max;
    /// Operations of the intermediate form of a script.
    fixed operations_max: positive = COMPILE.operations_max;
    /// Address space of a compile worker.
    memory_bytes_max: positive = COMPILE.memory_bytes_max;
    /// Processor time of a compile; its wall time may be ten times that.
    wall_ms_max as wall_time_max: time = COMPILE.wall_ms_max;
    /// Whether new scripts get native code from the fast generator at once, with the full compile behind it.
    baseline: flag = true;
}
}

impl Default for CompilerSection {
    fn default() -> Self {
        RawCompiler::default().check(&mut Checker::default())
    }
}

section! {
/// Where cells and headers of bare transactions come from.
"node": RawNode => NodeSection {
    /// A CKB node's JSON-RPC, `http://HOST:PORT` or the same with `https`, which cells and headers of bare
    /// transactions come from; empty refuses those. No other address is asked, also where the node names one.
    rpc: text;
    /// Transactions, headers and extensions that are kept in memory.
    fixed cache_bytes_max: whole = 64 * MIB;
}
}

impl RawNode {
    /// `None` without a node. The URL may contain a secret.
    pub(crate) fn section(&self, checker: &mut Checker) -> Option<NodeSection> {
        let section = self.check(checker);
        if section.rpc.is_empty() {
            return None;
        }
        checker.url_of("node.rpc", &section.rpc, &["http", "https"]);
        Some(section)
    }
}

section! {
/// The fence around workers.
"sandbox": RawSandbox => SandboxSection {
    /// Required layers whose absence on this machine is accepted, by name. Without it the service does not
    /// start.
    allow_degraded: list;
    /// Workers after which a zygote is replaced by one with another layout of its address space, which its
    /// workers have too. The old one's finish what they do; no call waits for it.
    fixed zygote_workers_max: positive = 10_000;
    /// Time after which it is. While both are there the machine holds two, and three for the moment in which
    /// the next one starts.
    fixed zygote_age_ms_max as zygote_age_max: time = 3_600_000;
    /// What workers ask the kernel for, where the machine offers it. `store_bypass`: no loads ahead of stores
    /// (Spectre v4); it guards data of the worker's own tenant, and costs 12 % of the speed, up to 59 % in code
    /// with many loads and stores. `indirect_branches`: no branches predicted by what others have trained
    /// (Spectre v2); for tenants who distrust each other; where cores have two threads it costs up to half of
    /// the speed. `core_scheduling`: nothing else on the threads of a worker's core; where cores have two
    /// threads, that is up to half of the machine.
    speculation_limits: speculation;
    /// Folder of a control group in which the service may make one for each worker; empty for none. Compile
    /// workers then have `compiler.memory_bytes_max`, run workers 2 GiB, with their memory files. No process
    /// is in it; the service may be in a group inside.
    cgroup: absolute_or_none;
}
}

/// A limit on a processor's speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeculationLimit {
    /// Loads wait for the stores before them.
    StoreBypass,
    /// Other code cannot train the worker's branch predictor.
    IndirectBranches,
    /// The worker has its core to itself.
    CoreScheduling,
}

impl RawSandbox {
    /// `layers`: the valid names of layers.
    pub(crate) fn check_layers(&self, layers: &[&str], checker: &mut Checker) {
        for name in self.allow_degraded.iter().filter(|name| !layers.contains(&name.as_str())) {
            let known = layers.join(", ");
            checker
                .record("sandbox.allow_degraded", format!("no layer is called {name:?}; there are {known}"));
        }
    }
}
