//! Limits of profiles, with units and defaults.

/// Maximum nodes of a profile's tree of stacks. The cost of further ones counts as
/// [`Frame::Other`](crate::Frame::Other).
pub const NODES_MAX: usize = 1 << 18;

/// Maximum programs of a profile.
pub const PROGRAMS_MAX: usize = 256;

/// Maximum frames of a stack; deeper costs count at the deepest frame within the limit.
pub const DEPTH_MAX: usize = 512;

/// Maximum bytes of an encoded profile.
pub const PROFILE_BYTES_MAX: usize = 32 << 20;
