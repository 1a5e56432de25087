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
    /// Maximum concurrent runs.
    workers_max: workers = parallelism();
    /// Maximum calls that wait for a worker; further calls get RESOURCE_EXHAUSTED. Tenants share the workers'
    /// time.
    queue_max: count = 1_024;
    /// Maximum number of idle workers, in addition to those that run; 0 gives each run a worker of
    /// its own. A worker waits for another run of the same script and native code for the same tenant, or after
    /// a transaction for another one of that tenant whose native code and shared cells it has loaded; not with
    /// `groups_apart`, nor after a second run, a transaction of more than 1 MiB without its shared cells, or
    /// one that took more than 32 MiB of memory.
    idle_workers_max: at_most(1_024) = 16;
    /// The compiler service, such as `http://antares-compiler:50051`, or `https://...`, or several separated
    /// by commas; empty if both run in one process. Names are resolved every five seconds: each address is a
    /// compiler, and equal scripts go to the same one.
    compiler_url as compiler_urls: urls;
    /// PEM file with the authorities of the compiler service's certificate; empty for the system's.
    compiler_ca: file;
    /// PEM file with the client certificate for the compiler service; empty for that of `[tls]`, if any.
    compiler_certificate: file;
    /// PEM file with its private key.
    compiler_key: file;
    /// File with a bearer token for the compiler service; empty for none.
    compiler_token_file: file;
    /// Highest cycle limit.
    max_cycles_max: positive = 1_000_000_000_000;
    /// Wall time of a run: default and cap.
    deadline_ms_max as deadline_max: time = DEADLINE_MS_DEFAULT;
    /// Maximum wall time of a whole call (queue, compile and run); callers may set a shorter one.
    call_ms_max as call_time_max: time = 300_000;
    /// Bytes of scripts and artifacts cached in memory, in whole pages plus one page each. Holds one of them
    /// per 256 KiB, each of which takes a file descriptor.
    ready_bytes_max: positive = 256 * MIB;
    /// Bytes of cell data cached in memory for transactions that name cells by digest, counted as for
    /// `ready_bytes_max`.
    hot_cells_bytes_max: positive = 256 * MIB;
    /// Average cycles between profile samples; 0 disables profiles.
    sample_cycles: one_in = 8_388_608;
    /// One of this many native runs, chosen at random, is repeated in the interpreter by another worker after
    /// the answer, and compared (outcome, cycles, output); 0 disables this. A batch, or the inputs of a
    /// session that went to a worker together, are run again together, a transaction as a whole. A difference
    /// puts the artifacts into quarantine. Callers may request it regardless (`recheck` in `Execute`,
    /// `ExecuteBatch`, `VerifyTransaction`): their answer waits for it, and both runs count in their quotas.
    recheck_one_in: one_in = 10_000;
    /// Run each script group of a transaction in a separate worker, so that a script that takes over its
    /// worker cannot answer for the others. Each group costs the start of a worker.
    groups_apart: flag;
}
}

/// Bytes of the budget per entry in memory: each entry takes a file descriptor.
const BYTES_PER_ENTRY: u64 = 256 << 10;

impl RunnerSection {
    /// Cycle limit of requests that set none.
    pub fn max_cycles_default(&self) -> u64 {
        CYCLES_MAX_DEFAULT.min(self.max_cycles_max)
    }

    /// Maximum number of scripts and artifacts ready in memory.
    pub fn ready_entries_max(&self) -> u64 {
        (self.ready_bytes_max / BYTES_PER_ENTRY).max(1)
    }

    /// Maximum number of cells with data in memory.
    pub fn hot_cells_entries_max(&self) -> u64 {
        (self.hot_cells_bytes_max / BYTES_PER_ENTRY).max(1)
    }
}

impl RawRunner {
    pub(crate) fn section(&self, script_bytes_max: u64, checker: &mut Checker) -> RunnerSection {
        if self.deadline_ms_max > self.call_ms_max {
            checker.record("runner.deadline_ms_max", "is more than runner.call_ms_max");
        }
        self.check(checker, script_bytes_max)
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
    /// Maximum concurrent compiles.
    workers_max: workers = parallelism();
    /// Maximum bytes of a script, uploaded or inline; also for a split runner. A message may have 4 MiB more.
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
    /// One of this many compiles, chosen at random, is repeated by another worker after the answer, one at a
    /// time. If the libraries differ, the stored one is removed and both digests are revoked; 0 disables
    /// this.
    recompile_one_in: one_in = 1_000;
    /// Bytes of executable pages of a script.
    fixed code_bytes_max: positive = COMPILE.code_bytes_max;
    /// Operations of the intermediate form of a script.
    fixed operations_max: positive = COMPILE.operations_max;
    /// Address space of a compile worker.
    memory_bytes_max: positive = COMPILE.memory_bytes_max;
    /// Processor time of a compile; its wall time may be ten times that.
    wall_ms_max as wall_time_max: time = COMPILE.wall_ms_max;
    /// Compile new scripts with the fast generator first, and with the full one in the background.
    baseline: flag = true;
}
}

impl Default for CompilerSection {
    fn default() -> Self {
        RawCompiler::default().check(&mut Checker::default())
    }
}

section! {
/// The source of cells and headers of bare transactions.
"node": RawNode => NodeSection {
    /// A CKB node's JSON-RPC, `http://HOST:PORT` or the same with `https`, the source of cells and headers of
    /// bare transactions; empty refuses such transactions. Redirects are not followed.
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
/// The sandbox of workers.
"sandbox": RawSandbox => SandboxSection {
    /// Names of required sandbox layers that this machine may lack. If another one is missing, the service
    /// does not start.
    allow_degraded: list;
    /// Workers after which a zygote is replaced by one with another layout of its address space, which its
    /// workers have too. The old one's finish what they do; no call waits for it.
    fixed zygote_workers_max: positive = 10_000;
    /// Time after which it is. While both are there the machine holds two, and three for the moment in which
    /// the next one starts.
    fixed zygote_age_ms_max as zygote_age_max: time = 3_600_000;
    /// Mitigations that workers request from the kernel, if the machine has them. `store_bypass`: no loads
    /// ahead of stores (Spectre v4); it guards data of the worker's own tenant, and costs 12 % of the speed,
    /// up to 59 % in code with many loads and stores. `indirect_branches`: no branches predicted by what
    /// others have trained (Spectre v2); for tenants who distrust each other; where cores have two threads it
    /// costs up to half of the speed. `core_scheduling`: nothing else on the threads of a worker's core;
    /// where cores have two threads, that is up to half of the machine.
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
    pub(crate) fn section(&self, layers: &[&str], checker: &mut Checker) -> SandboxSection {
        for name in self.allow_degraded.iter().filter(|name| !layers.contains(&name.as_str())) {
            let known = layers.join(", ");
            checker
                .record("sandbox.allow_degraded", format!("no layer is called {name:?}; there are {known}"));
        }
        self.check(checker)
    }
}
