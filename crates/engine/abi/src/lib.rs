//! The contract of generated code and host: state layout, symbol names, versions, artifact keys. Also the
//! parameters of compiles and runs.
//!
//! Generated code (crate `codegen`) and the machine (crate `vm`) share only this crate.

mod artifact;
mod compile;
mod counters;
mod entry_table;
mod frames;
mod hints;
mod loaded;
mod run;
mod state;

pub use artifact::{
    ArtifactKey, CodeTier, CompileOptions, ENGINE_VERSION, Isa, KeyParseError, LLVM_VERSION, Sha256Digest,
    TARGET_CPU, TARGET_FEATURES, TARGET_TRIPLE, parts_of,
};
pub use compile::{COMPILE_WALL_TIMES, CompileLimits, Stage};
pub use counters::{
    COUNTED_MAGIC, COUNTER_BITS_MAX, COUNTER_BITS_MIN, COUNTER_FACTOR, COUNTERS_BYTES, COUNTERS_OFFSET,
    branch_counter, jump_counter,
};
pub use entry_table::{ENTRIES_PER_GROUP, ENTRY_GROUPS_MAX, ENTRY_PAGE_BYTES, EntryTable};
pub use frames::{FrameAt, FrameError, FrameRow, FrameTable};
pub use hints::{HINTS_MAX, Hints, Seen};
pub use loaded::{LOADED_CODE_HEAD_BYTES, LOADED_CODE_MAGIC, LoadedCode};
pub use run::{
    CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX, LIBRARY_BYTES_MAX, SCRIPT_BYTES_MAX, Tier,
    TierParseError,
};
pub use state::{
    ABI_VERSION, BailoutReason, GUARD_BYTES, GUEST_MEMORY_BYTES, HOST_TABLE_OFFSET, HostTable, LIBRARY_MAGIC,
    LIBRARY_SYMBOL, LibraryHeader, METER_MARK, NAMES_TARGET, PAST_TABLE, REACH_BYTES, STATE_OFFSET,
    STORES_ANYWHERE, State, THUNK_BYTES, WILD_FAULT_CALL,
};
