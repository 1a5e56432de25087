//! Section `[compiler]`.

use antares_abi::{CompileLimits, SCRIPT_BYTES_MAX};

use crate::{
    check::Checker,
    section::{MIB, parallelism, section},
};

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
