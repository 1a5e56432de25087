//! Limits, and how far apart things are.

/// Cycles that the recorder runs at once.
pub(crate) const RECORDED_CYCLES: u64 = 16_000_000;
/// Stretches of VMs that are kept, at most. A VM that waits for another one ends a stretch.
pub(crate) const SLICES_MAX: usize = 1 << 20;
/// Bytes that a scheduler wrote to VMs, at most.
pub(crate) const CHANGED_BYTES_MAX: usize = 256 << 20;
/// Cycles between two images, at first.
pub(crate) const IMAGE_CYCLES: u64 = 4_000_000;
/// Images that are kept on the way, at most: then every second one goes, and the next are twice as far apart.
pub(crate) const IMAGES_MAX: usize = 128;
/// Bytes of pages in images that are kept on the way, at most.
pub(crate) const IMAGE_BYTES_MAX: usize = 512 << 20;
/// Images near the place where somebody goes back, at most.
pub(crate) const NEAR_IMAGES_MAX: usize = 16;
/// How far before such a place an image is made, cycles.
pub(crate) const NEAR_CYCLES: [u64; 3] = [262_144, 16_384, 1_024];
/// Cycles of a trace of ckb-vm's assembly are fewer. Before an error in a trace its cycles stand at its end.
pub(crate) const TRACE_CYCLES: u64 = 4_096;
/// Cycles after which somebody who wants to interrupt is heard.
pub(crate) const HEARD_CYCLES: u64 = 4_000_000;
/// How often a way from one stop to the next stops where VMs of other programs go on; then only at new ones.
pub(crate) const PROGRAM_CHANGES_MAX: u32 = 256;
/// Pieces of code that scripts load, at most, which somebody is told of.
pub(crate) const LOADS_MAX: usize = 4_096;
/// Lines of debug output that wait to be told, at most.
pub(crate) const LINES_MAX: usize = 65_536;
