//! A small random number generator (SplitMix64), so that seeds stay reproducible.

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// A random number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1).cast_unsigned()).cast_signed()
    }

    /// True with probability one in `times`.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// A random element of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(u32::try_from(choices.len()).unwrap_or(u32::MAX)) as usize]
    }

    /// An edge-case number: small, near the limit of a width, or random.
    pub fn number(&mut self) -> u64 {
        let edge = 1_u64 << self.pick(&[7, 8, 15, 16, 31, 32, 47, 63, 62, 22, 12]);
        match self.below(8) {
            0 => u64::from(self.below(4)),
            1 => u64::from(self.below(4)).wrapping_neg(),
            2 => edge,
            3 => edge.wrapping_sub(1),
            4 => edge.wrapping_neg(),
            5 => u64::from(self.below(u32::MAX)),
            _ => self.bits(),
        }
    }
}
