//! Resource limits per role, each with a unit and a value.

use std::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    Layer, SandboxError,
    roles::{EXTRA_FD, RETAINED_FDS_END},
};

/// Address space of a run child, bytes: the guards of the machines of a transaction, 8 GiB each, which nobody
/// can touch, and [`RUN_DATA_BYTES_MAX`] with the code of its libraries.
pub const RUN_ADDRESS_SPACE_BYTES_MAX: u64 = 192 << 30;
/// Private memory that a run child may write to, bytes, whether it does or not: guest memory, machines and
/// stacks of all VMs of a transaction, 72 MiB each, and heap.
pub const RUN_DATA_BYTES_MAX: u64 = 3 << 30;
/// Bytes that it can have in memory, of all that it may write to.
pub const RUN_MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Processor time of a run child, seconds. A second line behind the supervisor's deadline.
pub const RUN_CPU_SECONDS_MAX: u64 = 600;
/// Stack of any child, bytes. (Native guest code has a stack of its own.)
const STACK_BYTES_MAX: u64 = 8 << 20;
/// Bytes of any file that a compile child writes, at most: the output and the linker's input, all memory
/// files.
const COMPILE_FILE_BYTES_MAX: u64 = 256 << 20;
/// All memory files of a compile child together may have its address space divided by this.
const COMPILE_FILES_PART: u64 = 2;
/// Descriptor numbers of a child, one above the highest: the kept ones, and what a loader opens for a moment.
const CHILD_FDS_MAX: u64 = RETAINED_FDS_END as u64 + 11;
/// Descriptor numbers that a compile child is born with, the output the last of them. It may make files in
/// place of each.
const COMPILE_FDS: u64 = EXTRA_FD as u64 + 1;
/// Descriptor numbers of a zygote: one pidfd for each child, and a job's descriptors for a moment.
const ZYGOTE_FDS_MAX: u64 = 4096;

/// One resource limit; soft and hard are the same, but for processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    resource: Resource,
    name: &'static str,
    value: u64,
}

impl Limit {
    /// Lowers the limit of the calling process to this one; a stricter one that is already there stays.
    pub(crate) fn apply(self) -> Result<(), SandboxError> {
        // SIGXCPU says why, a second before SIGKILL.
        let grace = u64::from(matches!(self.resource, Resource::Cpu));
        let maximum = getrlimit(self.resource).maximum.unwrap_or(u64::MAX).min(self.value + grace);
        let wanted = Rlimit { current: Some(self.value.min(maximum)), maximum: Some(maximum) };
        setrlimit(self.resource, wanted).map_err(SandboxError::step(Layer::Rlimits, self.name))?;
        if getrlimit(self.resource) == wanted {
            Ok(())
        } else {
            Err(SandboxError::NoEffect { layer: Layer::Rlimits, step: self.name })
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

const fn limit(resource: Resource, name: &'static str, value: u64) -> Limit {
    Limit { resource, name, value }
}

/// What no role needs. `RLIMIT_NPROC` counts all processes of the user, so a zygote cannot set it.
const NONE: [Limit; 4] = [
    limit(Resource::Core, "core file bytes", 0),
    limit(Resource::Memlock, "locked memory bytes", 0),
    limit(Resource::Msgqueue, "message queue bytes", 0),
    limit(Resource::Rtprio, "real-time priority", 0),
];

pub(crate) fn zygote() -> Vec<Limit> {
    let own = [limit(Resource::Nofile, "descriptor numbers", ZYGOTE_FDS_MAX)];
    NONE.into_iter().chain(own).collect()
}

/// Descriptor numbers of a compile child that makes `files`, and opens one more to read it.
fn compile_fds_max(files: u64) -> u64 {
    COMPILE_FDS + if files > 0 { files.saturating_add(1) } else { 0 }
}

/// Bytes of each file that a compile child may write which has `memory_bytes_max` of address space and makes
/// `files` beside its output. The kernel counts memory files with no process: all that it could make come to
/// half of its address space together.
#[must_use]
pub fn compile_file_bytes_max(memory_bytes_max: u64, files: u64) -> u64 {
    (memory_bytes_max / COMPILE_FILES_PART / compile_fds_max(files)).min(COMPILE_FILE_BYTES_MAX)
}

pub(crate) fn compile(memory_bytes_max: u64, cpu_seconds_max: u64, files: u64) -> Vec<Limit> {
    let own = [
        limit(Resource::As, "address space bytes", memory_bytes_max),
        limit(Resource::Cpu, "processor seconds", cpu_seconds_max),
        limit(Resource::Fsize, "file bytes", compile_file_bytes_max(memory_bytes_max, files)),
        limit(Resource::Nofile, "descriptor numbers", compile_fds_max(files)),
        limit(Resource::Nproc, "processes", 0),
        limit(Resource::Stack, "stack bytes", STACK_BYTES_MAX),
    ];
    NONE.into_iter().chain(own).collect()
}

pub(crate) fn run_load() -> Vec<Limit> {
    let own = [
        limit(Resource::As, "address space bytes", RUN_ADDRESS_SPACE_BYTES_MAX),
        limit(Resource::Data, "data bytes", RUN_DATA_BYTES_MAX),
        limit(Resource::Cpu, "processor seconds", RUN_CPU_SECONDS_MAX),
        limit(Resource::Fsize, "file bytes", 0),
        limit(Resource::Nofile, "descriptor numbers", CHILD_FDS_MAX),
        limit(Resource::Nproc, "processes", 0),
        limit(Resource::Stack, "stack bytes", STACK_BYTES_MAX),
    ];
    NONE.into_iter().chain(own).collect()
}

pub(crate) fn run() -> Vec<Limit> {
    vec![limit(Resource::Nofile, "descriptor numbers", 0)]
}
