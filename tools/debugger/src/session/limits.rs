//! Limits and intervals.

/// Cycles that the recorder runs at once.
pub(crate) const RECORDED_CYCLES: u64 = 16_000_000;
/// Maximum stored slices. A VM that waits for another one ends a slice.
pub(crate) const SLICES_MAX: usize = 1 << 20;
/// Maximum bytes that the scheduler wrote to VMs.
pub(crate) const CHANGED_BYTES_MAX: usize = 256 << 20;
/// Initial cycles between two images.
pub(crate) const IMAGE_CYCLES: u64 = 4_000_000;
/// Maximum images along the run; beyond it, every second one is removed, and the interval doubles.
pub(crate) const IMAGES_MAX: usize = 128;
/// Maximum bytes of pages in images along the run.
pub(crate) const IMAGE_BYTES_MAX: usize = 512 << 20;
/// Maximum images near a location visited backwards.
pub(crate) const NEAR_IMAGES_MAX: usize = 16;
/// Distances in cycles of images before such a location.
pub(crate) const NEAR_CYCLES: [u64; 3] = [262_144, 16_384, 1_024];
/// Exclusive maximum of cycles in a trace of ckb-vm's assembly. An error in one has its end's cycles.
pub(crate) const TRACE_CYCLES: u64 = 4_096;
/// Cycles between polls for an interrupt.
pub(crate) const HEARD_CYCLES: u64 = 4_000_000;
/// Maximum stops at VMs with other programs between two other stops; afterwards only at new programs.
pub(crate) const PROGRAM_CHANGES_MAX: u32 = 256;
/// Maximum pieces of loaded code to report.
pub(crate) const LOADS_MAX: usize = 4_096;
/// Maximum pending lines of debug output.
pub(crate) const LINES_MAX: usize = 65_536;
