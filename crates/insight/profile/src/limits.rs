//! Every limit of profiles: name, unit, default.

/// Nodes of a profile's tree of stacks, at most: what does not fit is counted as
/// [`Frame::Other`](crate::Frame::Other).
pub const NODES_MAX: usize = 1 << 18;

/// Programs of a profile, at most.
pub const PROGRAMS_MAX: usize = 256;

/// Frames of a stack, at most; what is deeper is counted at the deepest frame that fits.
pub const DEPTH_MAX: usize = 512;

/// Bytes of an encoded profile, at most.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;
