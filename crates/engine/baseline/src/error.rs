//! Errors of the baseline compiler.

/// Why the baseline generated no code. Modules that `antares-lift` verified and that are within the limits of
/// a compile cause none of these errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// The code or data exceeds the span of distances.
    #[error("more than {bytes_max} bytes of code or data")]
    Size {
        /// Limit.
        bytes_max: usize,
    },
    /// A function needs more stack than the guard below the stack can catch.
    #[error("a function needs more than {bytes_max} bytes of stack")]
    Frame {
        /// Limit.
        bytes_max: u32,
    },
    /// A jump refers to an unbound label.
    #[error("a jump to a place that does not exist")]
    Label,
}
