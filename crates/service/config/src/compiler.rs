//! Section `[compiler]`.

use antares_abi::{CompileLimits, SCRIPT_BYTES_MAX};

use crate::{
    check::Checker,
    listen::CHUNK_BYTES,
    section::{KIB, MIB, parallelism, section},
};

/// What a compile may cost, where a service stands alone or not.
const COMPILE: CompileLimits = CompileLimits::DEFAULT;

section! {
/// The compiler service.
"compiler": RawCompiler => CompilerSection {
    /// Compiles at once.
    workers_max: workers = parallelism();
    /// Longest script.
    script_bytes_max: positive = SCRIPT_BYTES_MAX;
    /// Longest chunk of an upload and of a download.
    chunk_bytes_max: at_least(CHUNK_BYTES) = 256 * KIB;
    /// Uploads in progress at once. Each holds a chunk in memory, and one at a time all of a script, when it
    /// is stored.
    uploads_max: count = 16;
    /// Bytes of uploads that are not complete, on the volume of the store; a tenant may have half of it, so
    /// it is at least twice `script_bytes_max`.
    upload_bytes_max: whole = 512 * MIB;
    /// Uploads that are not complete, in progress or broken off; a tenant may have half of it. Each has a
    /// file open.
    partial_uploads_max: count = 64;
    /// How long an upload that broke off can go on.
    upload_keep_ms as upload_keep: time = 300_000;
    /// Downloads in progress at once. Each may hold one artifact in memory.
    downloads_max: count = 32;
    /// An upload that sends nothing, or a download that takes nothing, for so long is ended.
    idle_ms_max as idle_max: time = 30_000;
    /// Digests in one FindMissing.
    digests_max: positive = 1_000;
    /// How long a refusal (malformed, beyond a limit) is remembered, and a compile in which the compiler
    /// failed the first time.
    refused_ttl_ms as refused_ttl: time = 3_600_000;
    /// How long a compile that took too long the first time, or lost its worker for the second time, is
    /// remembered. Each further failure is remembered eight times as long, a day at the most.
    timeout_ttl_ms as timeout_ttl: time = 30_000;
    /// How long a compile may wait for a free worker.
    queue_ms_max as queue_time_max: time = 60_000;
    /// One compile in so many, drawn by lot, is made again by another worker behind the answer, one at a
    /// time, and the libraries compared, which are the same where all is well; 0 for none. One that differs
    /// is taken out of the store, and both digests are revoked.
    recompile_one_in: one_in = 1_000;
    /// Bytes of executable pages of a script.
    code_bytes_max: positive = COMPILE.code_bytes_max;
    /// Functions of a script.
    functions_max: positive = COMPILE.functions_max;
    /// Blocks of a script.
    blocks_max: positive = COMPILE.blocks_max;
    /// Operations of the intermediate form of a script.
    operations_max: positive = COMPILE.operations_max;
    /// Address space of a compile worker.
    memory_bytes_max: positive = COMPILE.memory_bytes_max;
    /// Wall time of a compile.
    wall_ms_max as wall_time_max: time = COMPILE.wall_ms_max;
    /// Whether new scripts get native code from the fast generator at once, with the full compile behind it.
    baseline: flag = true;
    /// Full compiles that follow a baseline and wait for their turn; more are left for a later run to ask
    /// for.
    followers_max: positive = 64;
}
}

impl RawCompiler {
    pub(crate) fn agree(&self, checker: &mut Checker) {
        if self.upload_bytes_max / 2 < self.script_bytes_max {
            let problem = "must be at least twice compiler.script_bytes_max: a tenant may have half of it";
            checker.note("compiler.upload_bytes_max", problem);
        }
    }
}

impl Default for CompilerSection {
    fn default() -> Self {
        RawCompiler::default().check(&mut Checker::default())
    }
}
