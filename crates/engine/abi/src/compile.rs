//! The parameters of a compile: its stage and its limits.

use serde::{Deserialize, Serialize};

/// The result that the compiler produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Segments, entry, symbols, as text.
    Image,
    /// Functions and blocks, as text.
    Program,
    /// IR, as text.
    Ir,
    /// IR after the first `passes` passes of the full tier, as text.
    IrAfter {
        /// Number of passes.
        passes: u32,
    },
    /// Statistics after each pass of the full tier, as a table.
    Passes,
    /// LLVM IR before optimization, as text.
    LlvmBefore,
    /// LLVM IR after optimization, as text.
    Llvm,
    /// Host assembly, as text.
    Asm,
    /// The relocatable object.
    Object,
    /// The relocatable object of one part, for linking with the others.
    Part {
        /// Its number, from 0.
        index: u32,
        /// Number of parts, from [`parts_of`](crate::parts_of).
        of: u32,
    },
    /// The shared object.
    Library,
    /// The shared object of the baseline generator, which does not use LLVM.
    Baseline,
    /// The baseline's shared object with counters, for fuzzing. Other loaders refuse its header.
    Counted {
        /// Bits of a counter's index.
        bits: u8,
    },
}

impl Stage {
    /// Whether the stage produces a shared object.
    #[must_use]
    pub fn is_library(self) -> bool {
        matches!(self, Self::Library | Self::Baseline | Self::Counted { .. })
    }
}

/// Maximum wall time of a compile as a multiple of its processor time, as others may use the processors.
pub const COMPILE_WALL_TIMES: u64 = 10;

/// Limits of a compile. A script beyond them is refused, always at the same point. The caller that runs the
/// compiler enforces memory and time from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileLimits {
    /// Bytes of executable pages.
    pub code_bytes_max: u64,
    /// Functions.
    pub functions_max: u64,
    /// Blocks over all functions.
    pub blocks_max: u64,
    /// IR operations over all functions.
    pub operations_max: u64,
    /// Bytes of the child's address space.
    pub memory_bytes_max: u64,
    /// Processor time in milliseconds, which the kernel counts in whole seconds. The wall time may be
    /// [`COMPILE_WALL_TIMES`] of it.
    pub wall_ms_max: u64,
}

impl CompileLimits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        code_bytes_max: 4 << 20,
        functions_max: 100_000,
        blocks_max: 400_000,
        operations_max: 8_000_000,
        memory_bytes_max: 8 << 30,
        wall_ms_max: 120_000,
    };
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
