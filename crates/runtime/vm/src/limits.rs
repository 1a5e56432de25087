//! Every size and limit of the machine: name, unit, default.

use antares_abi::LOADED_CODE_HEAD_BYTES;

/// Bytes of native stack (address space; memory is taken as it is touched).
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

/// Lines of debug output, whatever their length; the limit in bytes is a matter of each run.
pub const DEBUG_LINES_MAX: usize = 65_536;

/// Bytes of the text that details an error. A script decides part of that text.
pub const DETAIL_BYTES_MAX: usize = 4096;

/// Bytes of heap that a run needs at most beside its debug output: the program headers of a hostile ELF
/// (65,535 of them, in three forms), the interpreter's decoder, texts. For [`crate::reserve_heap`].
pub const RUN_HEAP_BYTES: usize = 48 << 20;

/// Cycles that a session runs at least before it pauses: many times what one line of code takes.
pub const PAUSE_CYCLES_MIN: u64 = 1 << 16;

/// Cycles that native code is granted at a time: how long a pause may be overlooked. A verification on
/// secp256k1 takes somewhat more of them, and 0.06 ms.
pub const SLICE_CYCLES: i64 = 1 << 20;

/// VMs of one transaction that stay mapped while they are put aside or may be. Others are copied. ckb-script
/// permits 17 at once.
pub const PARKED_MAX: usize = 16;

/// Machines that ckb-script holds at once, at most: four that run and wait, one that is being started, and
/// one that it replaces.
const MACHINES_HELD_MAX: usize = 6;

/// Machines that a transaction has mapped at once, at most.
pub const MACHINES_MAX: usize = MACHINES_HELD_MAX + PARKED_MAX;

/// Pages of an idle machine, and of an idle stack, with [`crate::cache_machines`]: 2 MiB, twice the data of
/// secp256k1's lock.
pub(crate) const CACHED_PAGES_MAX: usize = 512;

/// Machines from which on ckb-script may put one of them aside (its `MAX_INSTANTIATED_VMS`).
pub const MACHINES_CROWDED: usize = 4;

/// Stays in native code after which a machine that goes back and forth is judged.
pub const STAYS_MIN: u64 = 256;

/// Cycles of a stay in native code, on average, below which going there and back is taken to cost more than
/// it saves. Not measured: it is there for scripts that are made to go back and forth.
pub const STAY_CYCLES_MIN: u64 = 200;

/// Runs of VMs that were put aside after which their length decides whether native code is worth the way.
pub const RESUMED_RUNS_MIN: u64 = 8;

/// Cycles of such a run, on average, below which it is interpreted: finding the program in memory and marking
/// its pages take some 12 us, and pages that came from cells are copied. With 0, 5,000, 20,000, 50,000 and
/// 150,000, ckb-debugger's spawn example took 1.40, 1.46, 0.91, 0.91 and 0.98 of the interpreter's time.
pub const RESUMED_CYCLES_MIN: u64 = 20_000;

/// System calls of a machine that make pages executable outside of its programs. Each costs a look at all
/// pages and a change of their protection; a script that goes on is interpreted.
pub const LOADS_MAX: u32 = 64;

/// Cycles that a machine has interpreted from which on it says which code it has loaded: so much that finding
/// it, some tens of microseconds, is nothing beside.
pub const LOADED_CYCLES_MIN: u64 = 100_000;

/// Bytes of each piece of loaded code that a machine tells of: with what stands in front of it, half a
/// mebibyte. A session holds as many as programs without native code.
pub const LOADED_CODE_BYTES_MAX: usize = (512 << 10) - LOADED_CODE_HEAD_BYTES;

/// Programs without native code that a session remembers.
pub const UNKNOWN_PROGRAMS_MAX: usize = 64;

/// Contexts (stacks of calls) that a recording tells apart. What is called beyond them counts where it was
/// called.
pub const RECORDED_NODES_MAX: usize = 1 << 17;

/// Calls of a context; deeper ones count at the deepest.
pub const RECORDED_DEPTH_MAX: u16 = 256;

/// Calls that a VM may have under way before further ones are not looked at; none of it decides cycles.
pub const RECORDED_CALLS_MAX: usize = 1 << 16;

/// Different traces (straight lines of code) that a recording tells apart; what runs beyond counts as
/// unknown.
pub const RECORDED_TRACES_MAX: usize = 1 << 17;

/// Pairs of context and trace that a recording counts; what runs beyond counts as unknown.
pub const RECORDED_COUNTS_MAX: usize = 1 << 20;

/// Programs of a recording.
pub const RECORDED_PROGRAMS_MAX: usize = 256;

/// Bytes of heap that a recording needs at most, its tables at their limits and twice that while they grow.
/// For [`crate::reserve_heap`].
pub const RECORDING_HEAP_BYTES: usize = 256 << 20;

/// Cycles between the samples of a profile that is always on, on average.
pub const SAMPLE_CYCLES: u64 = 1 << 21;

/// Programs of one transaction whose ways are noted when native code does not know them; each takes a
/// mebibyte and a half.
pub(crate) const OBSERVED_PROGRAMS_MAX: usize = 8;

/// Guest functions of one sample; of deeper stacks the last ones that were called.
pub const SAMPLED_FRAMES_MAX: usize = 250;

/// Conditional branches that are remembered of a VM whose instructions are followed.
pub const BRANCHES_MAX: usize = 1 << 16;

/// Calls whose callers are remembered of such a VM.
pub const CALLERS_MAX: usize = 1 << 16;

/// Stores that are remembered of such a VM, by their address.
pub const SHADOWED_WORDS: usize = 1 << 15;

/// VMs that may be followed at once: as many as ckb-script lets be there.
pub const SHADOWS_MAX: usize = 16;

/// Bytes of heap that watching a run needs at most beside its recording: values and branches of each VM,
/// system calls and instructions in three forms. For [`crate::reserve_heap`].
pub const WATCHING_HEAP_BYTES: usize = SHADOWS_MAX * (24 << 20) + (64 << 20);
