//! Resource limits per role, each with a unit and a value.

use std::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    Layer, SandboxError,
    roles::{EXTRA_FD, RETAINED_FDS_END},
};

/// Address space of a run child, bytes: 8 GiB of inaccessible guards for each machine of a transaction, plus
/// [`RUN_DATA_BYTES_MAX`] and the code of its libraries.
pub const RUN_ADDRESS_SPACE_BYTES_MAX: u64 = 192 << 30;
/// Private writable memory of a run child, bytes, whether used or not: guest memory, machines and stacks of
/// all VMs of a transaction, 72 MiB each, and heap.
pub const RUN_DATA_BYTES_MAX: u64 = 3 << 30;
/// Maximum resident bytes of its writable memory.
pub const RUN_MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Processor time of a run child, seconds. A second limit in addition to the supervisor's deadline.
pub const RUN_CPU_SECONDS_MAX: u64 = 600;
/// Stack of any child, bytes. Native guest code uses a separate stack.
const STACK_BYTES_MAX: u64 = 8 << 20;
/// Maximum bytes of each file that a compile child writes: the output and the linker's input, all memory
/// files.
const COMPILE_FILE_BYTES_MAX: u64 = 256 << 20;
/// The memory files of a compile child may together use its address space divided by this.
const COMPILE_FILES_PART: u64 = 2;
/// Descriptor limit of a child: the retained descriptors, and those that a loader opens temporarily.
const CHILD_FDS_MAX: u64 = RETAINED_FDS_END as u64 + 11;
/// Initial number of descriptors of a compile child, the last of which is the output. It may replace each of
/// them by a new file.
const COMPILE_FDS: u64 = EXTRA_FD as u64 + 1;
/// Descriptor limit of a zygote: one pidfd for each child, and temporarily those of a job.
const ZYGOTE_FDS_MAX: u64 = 4096;

/// One resource limit; soft and hard limit are equal, except for processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    resource: Resource,
    name: &'static str,
    value: u64,
}

impl Limit {
    /// Lowers the limit of the calling process to this one; an existing stricter limit stays.
    pub(crate) fn apply(self) -> Result<(), SandboxError> {
        // SIGXCPU reports the reason one second before SIGKILL.
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

/// Resources that no role needs. `RLIMIT_NPROC` counts all processes of the user, so a zygote cannot set it.
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

/// Descriptor limit of a compile child that creates `files`, and opens one more to read it.
fn compile_fds_max(files: u64) -> u64 {
    COMPILE_FDS + if files > 0 { files.saturating_add(1) } else { 0 }
}

/// Maximum bytes of each file of a compile child with `memory_bytes_max` of address space that creates
/// `files` in addition to its output. The kernel charges memory files to no process, so all files that it
/// could create are limited to half of its address space.
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
