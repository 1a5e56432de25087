//! Every size and limit of the machine: name, unit, default.

use antares_abi::LOADED_CODE_HEAD_BYTES;

/// Bytes of native stack (address space; the kernel allocates memory on first touch).
pub const NATIVE_STACK_BYTES: usize = 64 << 20;

/// Bytes of inaccessible address space below the native stack. Larger than any frame that generated code may
/// have.
pub const NATIVE_STACK_GUARD_BYTES: usize = 1 << 20;

/// Bytes of the alternate stack for signals. A frame with AVX-512 and AMX state takes about 11 KiB.
pub const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// Bytes of a host page.
pub const PAGE_BYTES: usize = 4096;

/// Entries of a library's entry table: as many groups as its directory can name.
pub const TABLE_ENTRIES_MAX: u32 = 1 << 20;

/// Entries of the directory of a library's entry table: one for each 32 bytes of guest memory.
pub const DIRECTORY_ENTRIES_MAX: u32 = 128 << 10;

/// Bytes of an error's detail text. A script controls part of that text.
pub const DETAIL_BYTES_MAX: usize = 4096;

/// Maximum heap bytes of a run, excluding its debug output: the program headers of a hostile ELF (65,535 of
/// them, in three forms), the interpreter's decoder, texts. For [`crate::reserve_heap`].
pub const RUN_HEAP_BYTES: usize = 48 << 20;

/// Minimum cycles that a session runs before it pauses: many times the cost of a trace.
pub const PAUSE_CYCLES_MIN: u64 = 1 << 16;

/// Cycles that native code is granted at a time, which bounds the delay of a pause. A secp256k1 verification
/// takes slightly more cycles, in 0.06 ms.
pub const SLICE_CYCLES: i64 = 1 << 20;

/// Maximum VMs of one transaction that stay mapped while suspended or suspendable. Others are copied.
/// ckb-script permits 17 at once.
pub const PARKED_MAX: usize = 16;

/// Maximum machines that ckb-script holds at once: four that run or wait, one that starts, and one that it
/// replaces.
const MACHINES_HELD_MAX: usize = 6;

/// Maximum mapped machines of a transaction.
pub const MACHINES_MAX: usize = MACHINES_HELD_MAX + PARKED_MAX;

/// Maximum pages of an idle machine, and of an idle stack, with [`crate::cache_machines`]: 2 MiB, twice the
/// data of the secp256k1 lock.
pub(crate) const CACHED_PAGES_MAX: usize = 512;

/// Maximum cells that a machine's memory caches. Each takes one of a process's 15 protection keys.
pub(crate) const CACHED_CELLS_MAX: usize = 4;
/// Maximum parts of code with a key.
pub(crate) const CODE_PARTS_MAX: usize = 4;

/// Minimum bytes of a cell that memory caches. Code is cached whatever its length, because the change of its
/// protection costs more than the copy.
pub(crate) const CACHED_CELL_BYTES_MIN: u64 = 32 << 10;

/// Number of machines from which ckb-script may suspend one (its `MAX_INSTANTIATED_VMS`).
pub const MACHINES_CROWDED: usize = 4;

/// Number of stays in native code after which their average length is evaluated.
pub const STAYS_MIN: u64 = 256;

/// Average cycles of a stay in native code below which tier switches are assumed to cost more than they save.
/// Not measured: it targets scripts that provoke switches.
pub const STAY_CYCLES_MIN: u64 = 200;

/// Number of resumed runs after which their average length decides whether native code pays off.
pub const RESUMED_RUNS_MIN: u64 = 8;

/// Average cycles of such a run below which it is interpreted. Finding the program in memory and marking its
/// pages take about 12 us, and pages that came from cells are copied. With 0, 5,000, 20,000, 50,000 and
/// 150,000, ckb-debugger's spawn example took 1.40, 1.46, 0.91, 0.91 and 0.98 of the interpreter's time.
pub const RESUMED_CYCLES_MIN: u64 = 20_000;

/// Maximum system calls of a machine that make pages executable outside of its programs. Each costs a scan of
/// all pages and a change of their protection. After the limit, the script is interpreted.
pub const LOADS_MAX: u32 = 64;

/// Interpreted cycles of a machine from which it reports the code it loaded. The report takes some tens of
/// microseconds, which is negligible at this point.
pub const LOADED_CYCLES_MIN: u64 = 100_000;

/// Maximum bytes of a reported piece of loaded code: with its header, half a mebibyte. A session holds as
/// many as programs without native code.
pub const LOADED_CODE_BYTES_MAX: usize = (512 << 10) - LOADED_CODE_HEAD_BYTES;

/// Maximum programs without native code that a session remembers.
pub const UNKNOWN_PROGRAMS_MAX: usize = 64;

/// Maximum contexts (call stacks) of a recording. Calls beyond the limit count for their caller's context.
pub const RECORDED_NODES_MAX: usize = 1 << 17;

/// Maximum calls in a context; deeper calls count at the deepest.
pub const RECORDED_DEPTH_MAX: u16 = 256;

/// Maximum active calls of a VM; further calls are ignored. This never affects cycle counts.
pub const RECORDED_CALLS_MAX: usize = 1 << 16;

/// Maximum traces (straight-line code) of a recording; further traces count as unknown.
pub const RECORDED_TRACES_MAX: usize = 1 << 17;

/// Maximum pairs of context and trace of a recording; further pairs count as unknown.
pub const RECORDED_COUNTS_MAX: usize = 1 << 20;

/// Maximum programs of a recording.
pub const RECORDED_PROGRAMS_MAX: usize = 256;

/// Maximum heap bytes of a recording: its tables at their limits, twice that while they grow. For
/// [`crate::reserve_heap`].
pub const RECORDING_HEAP_BYTES: usize = 256 << 20;

/// Maximum programs of a transaction whose jump targets are recorded if native code does not know them. Each
/// takes a mebibyte and a half.
pub(crate) const OBSERVED_PROGRAMS_MAX: usize = 8;

/// Maximum guest functions in a sample; of deeper stacks, the innermost ones.
pub const SAMPLED_FRAMES_MAX: usize = 250;

/// Maximum conditional branches that are remembered of a followed VM.
pub const BRANCHES_MAX: usize = 1 << 16;

/// Maximum calls of a followed VM whose callers are remembered.
pub const CALLERS_MAX: usize = 1 << 16;

/// Maximum stores that are remembered of a followed VM, by address.
pub const SHADOWED_WORDS: usize = 1 << 15;

/// Maximum VMs that are followed at once: ckb-script's maximum.
pub const SHADOWS_MAX: usize = 16;

/// Maximum heap bytes for evidence of a run, in addition to its recording: values and branches of each VM,
/// system calls and instructions in three forms. For [`crate::reserve_heap`].
pub const WATCHING_HEAP_BYTES: usize = SHADOWS_MAX * (24 << 20) + (64 << 20);
