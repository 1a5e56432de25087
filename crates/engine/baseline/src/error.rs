//! Why a module got no code.

/// Why no code was generated. None of these is reached by a module that `antares-lift` verified, within the
/// limits of a compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// More code or data than distances can span.
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
    /// A jump to a place that does not exist.
    #[error("a jump to a place that does not exist")]
    Label,
}
