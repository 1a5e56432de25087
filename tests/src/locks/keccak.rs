//! Keccak-256 as Ethereum has it: of the hashes that locks ask for the one that no crate here brings.

const RATE: usize = 136;
const ROUNDS: usize = 24;

/// Steps of lanes along their way, and where that way goes.
const ROTATIONS: [u32; 24] =
    [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44];
const LANES: [usize; 24] =
    [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1];

/// The hash of `bytes`.
pub(super) fn keccak_256(bytes: &[u8]) -> [u8; 32] {
    let mut padded = bytes.to_vec();
    padded.push(1);
    padded.resize(padded.len().next_multiple_of(RATE), 0);
    if let Some(last) = padded.last_mut() {
        *last |= 0x80;
    }
    let mut state = [0; 25];
    for block in padded.chunks_exact(RATE) {
        for (lane, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
            *lane ^= bytes.iter().rev().fold(0, |lane, byte| lane << 8 | u64::from(*byte));
        }
        permute(&mut state);
    }
    let mut hash = [0; 32];
    hash.chunks_exact_mut(8).zip(state).for_each(|(bytes, lane)| bytes.copy_from_slice(&lane.to_le_bytes()));
    hash
}

fn permute(state: &mut [u64; 25]) {
    let mut register = 1_u8;
    for _ in 0..ROUNDS {
        let mut columns = [0; 5];
        for (index, lane) in state.iter().enumerate() {
            columns[index % 5] ^= lane;
        }
        for (index, lane) in state.iter_mut().enumerate() {
            *lane ^= columns[(index + 4) % 5] ^ columns[(index + 1) % 5].rotate_left(1);
        }
        let mut moved = state[1];
        for (rotation, lane) in ROTATIONS.iter().zip(LANES) {
            moved = std::mem::replace(&mut state[lane], moved.rotate_left(*rotation));
        }
        for row in state.chunks_exact_mut(5) {
            let old = [row[0], row[1], row[2], row[3], row[4]];
            for (index, lane) in row.iter_mut().enumerate() {
                *lane ^= !old[(index + 1) % 5] & old[(index + 2) % 5];
            }
        }
        state[0] ^= constant(&mut register);
    }
}

/// The next round's constant, of which a shift register gives the bits.
fn constant(register: &mut u8) -> u64 {
    (0..7).fold(0, |constant, power| {
        let bit = u64::from(*register & 1);
        let carry = *register >> 7;
        *register = (*register << 1) ^ (carry * 0x71);
        constant | bit << ((1_u32 << power) - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes_come_out() {
        let shown =
            |bytes: &[u8]| keccak_256(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(shown(b""), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
        assert_eq!(shown(b"abc"), "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
    }
}
