//! The counters of a counted build: outcomes of branches, and targets of computed jumps and calls. An
//! interpreter that follows the same rule fills the same map.
//!
//! Such code is only for fuzzing. It has no artifact key, and other loaders refuse its [`COUNTED_MAGIC`]. The
//! counters follow the host's table, where other machines have no memory.

use crate::HOST_TABLE_OFFSET;

/// Distance in bytes from `base` to the counters, which follow the page of the host's table.
pub const COUNTERS_OFFSET: usize = HOST_TABLE_OFFSET + 4096;

/// Bytes of a machine's counters, one byte each.
pub const COUNTERS_BYTES: usize = 1 << COUNTER_BITS_MAX;

/// Maximum bits of a counter's index.
pub const COUNTER_BITS_MAX: u8 = 16;

/// Minimum bits of a counter's index.
pub const COUNTER_BITS_MIN: u8 = 10;

/// First bytes of the header of a counted library, instead of [`LIBRARY_MAGIC`](crate::LIBRARY_MAGIC).
pub const COUNTED_MAGIC: [u8; 8] = *b"ANTCOUNT";

/// The factor of a target; the upper bits of the product are the index. 2^64 divided by the golden ratio.
pub const COUNTER_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The factor of the target that a branch does not take.
const OTHER_FACTOR: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The counter of a branch that goes to guest address `to`, and could have gone to `other`.
#[must_use]
pub fn branch_counter(to: u64, other: u64, bits: u8) -> usize {
    index(to.wrapping_mul(COUNTER_FACTOR) ^ other.wrapping_mul(OTHER_FACTOR), bits)
}

/// The counter of a jump or call with a computed target.
#[must_use]
pub fn jump_counter(target: u64, bits: u8) -> usize {
    index(target.wrapping_mul(COUNTER_FACTOR), bits)
}

#[expect(clippy::cast_possible_truncation, reason = "at most 16 bits are left")]
fn index(product: u64, bits: u8) -> usize {
    (product >> (64 - u32::from(bits.clamp(1, COUNTER_BITS_MAX)))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_both_ways_and_of_jumps_differ_and_lie_in_the_map() {
        for bits in [COUNTER_BITS_MIN, COUNTER_BITS_MAX] {
            let [to, other] = [0x1_0200, 0x1_0136].map(|at| (at, bits));
            let found = [
                branch_counter(to.0, other.0, bits),
                branch_counter(other.0, to.0, bits),
                jump_counter(to.0, bits),
            ];
            assert!(found.iter().all(|place| *place < 1 << bits), "{found:?}");
            assert!(found[0] != found[1] && found[1] != found[2] && found[0] != found[2], "{found:?}");
        }
    }
}
