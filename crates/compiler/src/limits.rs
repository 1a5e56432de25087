//! Limits of one compile. Wall time and memory are enforced from outside, by whoever runs the compiler.

/// What a script may cost to compile; beyond it the compile is refused, always at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of executable pages.
    pub code_bytes_max: u64,
    /// Functions.
    pub functions_max: u64,
    /// Blocks over all functions.
    pub blocks_max: u64,
    /// IR operations over all functions.
    pub operations_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            code_bytes_max: 4 << 20,
            functions_max: 100_000,
            blocks_max: 400_000,
            operations_max: 8_000_000,
        }
    }
}
