//! What a compile is asked for: how far it goes, and what it may cost.

use serde::{Deserialize, Serialize};

/// What the compiler shall give.
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
        /// How many.
        passes: u32,
    },
    /// What each pass of the full tier leaves, as a table.
    Passes,
    /// LLVM IR before optimisation, as text.
    LlvmBefore,
    /// LLVM IR after optimisation, as text.
    Llvm,
    /// Host assembly, as text.
    Asm,
    /// The relocatable object.
    Object,
    /// The relocatable object of one part, to be linked with the others.
    Part {
        /// Its number, from 0.
        index: u32,
        /// How many there are; as [`parts_of`](crate::parts_of) says.
        of: u32,
    },
    /// The shared object.
    Library,
    /// The shared object from the fast generator, which LLVM has no part in.
    Baseline,
    /// The same with counters of where it goes, for fuzzing: no other library is it taken for.
    Counted {
        /// Bits of a counter's number.
        bits: u8,
    },
}

impl Stage {
    /// Whether it gives a shared object.
    #[must_use]
    pub fn is_library(self) -> bool {
        matches!(self, Self::Library | Self::Baseline | Self::Counted { .. })
    }
}

/// The wall time of a compile may be so many times its processor time: others may have the processors.
pub const COMPILE_WALL_TIMES: u64 = 10;

/// What a script may cost to compile; beyond it the compile is refused, always at the same place. Memory and
/// time are enforced from outside, by whoever runs the compiler.
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
    /// Address space of the child, bytes.
    pub memory_bytes_max: u64,
    /// Processor time, milliseconds, of which the kernel counts whole seconds; the wall time may be
    /// [`COMPILE_WALL_TIMES`] of it.
    pub wall_ms_max: u64,
}

impl CompileLimits {
    /// Those of whoever asks for no others.
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
