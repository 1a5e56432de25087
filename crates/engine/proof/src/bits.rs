//! Values with some known bits, and operations on them.

use antares_ir::BinaryOp;

/// A value: the bits known to be 0, and those known to be 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    zeros: u64,
    ones: u64,
}

impl Bits {
    pub(super) const UNKNOWN: Self = Self { zeros: 0, ones: 0 };

    pub(super) const fn of(number: u64) -> Self {
        Self { zeros: !number, ones: number }
    }

    /// A word with unknown bits from `end` on. Below `end`, `highest` is the highest bit that is set, if any
    /// is.
    pub(super) fn highest_below(end: u32, highest: Option<u32>) -> Self {
        let below = |end: u32| u64::MAX.checked_shl(end).map_or(u64::MAX, |above| !above);
        match highest {
            None => Self { zeros: below(end), ones: 0 },
            Some(bit) => Self { zeros: below(end) & !below(bit + 1), ones: 1 << bit },
        }
    }

    /// The number, if all bits are known.
    pub(super) fn number(self) -> Option<u64> {
        (self.zeros | self.ones == u64::MAX).then_some(self.ones)
    }

    pub(super) fn leading_zeros(self) -> Self {
        let zeros = self.zeros.leading_ones();
        let is_end = self.ones.leading_zeros() == zeros;
        if is_end { Self::of(zeros.into()) } else { Self::UNKNOWN }
    }

    /// Whether both are the same number; none if unknown.
    fn equals(self, other: Self) -> Option<bool> {
        let differs = self.ones & other.zeros | self.zeros & other.ones != 0;
        if differs { Some(false) } else { Some(self.number()? == other.number()?) }
    }

    pub(super) fn binary(op: BinaryOp, x: Self, y: Self) -> Self {
        let numbers = x.number().zip(y.number());
        let of_numbers = |of: fn(u64, u64) -> u64| numbers.map(|(x, y)| Self::of(of(x, y)));
        let is_equal = |wanted: bool| Some(Self::of(u64::from(x.equals(y)? == wanted)));
        let known = match op {
            BinaryOp::And => Some(Self { zeros: x.zeros | y.zeros, ones: x.ones & y.ones }),
            BinaryOp::Or => Some(Self { zeros: x.zeros & y.zeros, ones: x.ones | y.ones }),
            BinaryOp::Lshr => y.number().map(|by| {
                let by = by % 64;
                Self { zeros: x.zeros >> by | !(u64::MAX >> by), ones: x.ones >> by }
            }),
            BinaryOp::Eq => is_equal(true),
            BinaryOp::Ne => is_equal(false),
            BinaryOp::Add => of_numbers(u64::wrapping_add),
            BinaryOp::Sub => of_numbers(u64::wrapping_sub),
            BinaryOp::Mul => of_numbers(u64::wrapping_mul),
            _ => None,
        };
        known.unwrap_or(Self::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The four-bit numbers that a value may be; higher bits are 0.
    fn numbers(value: Bits) -> Vec<u64> {
        (0..16).filter(|number| number & value.zeros == 0 && !number & value.ones & 15 == 0).collect()
    }

    #[test]
    fn what_is_known_is_true_of_all_numbers() {
        let values: Vec<Bits> = (0..16_u64)
            .flat_map(|zeros| (0..16_u64).map(move |ones| Bits { zeros: zeros | !15, ones }))
            .filter(|value| value.zeros & value.ones == 0)
            .collect();
        assert_eq!(values.len(), 81);
        let holds = |known: Bits, number: u64| number & known.zeros == 0 && !number & known.ones == 0;
        for x in &values {
            for number in numbers(*x) {
                assert!(holds(x.leading_zeros(), number.leading_zeros().into()), "{x:?}");
            }
            for y in &values {
                for (a, b) in
                    numbers(*x).into_iter().flat_map(|a| numbers(*y).into_iter().map(move |b| (a, b)))
                {
                    let results = [
                        (BinaryOp::And, a & b),
                        (BinaryOp::Or, a | b),
                        (BinaryOp::Lshr, a >> b),
                        (BinaryOp::Eq, u64::from(a == b)),
                        (BinaryOp::Ne, u64::from(a != b)),
                        (BinaryOp::Add, a + b),
                        (BinaryOp::Sub, a.wrapping_sub(b)),
                        (BinaryOp::Mul, a * b),
                    ];
                    for (op, number) in results {
                        assert!(holds(Bits::binary(op, *x, *y), number), "{op:?} {x:?} {y:?}");
                    }
                }
            }
        }
        assert_eq!(Bits::of(12).leading_zeros(), Bits::of(60));
        assert_eq!(Bits::binary(BinaryOp::Sub, Bits::of(8), Bits::of(9)).number(), Some(u64::MAX));
    }

    #[test]
    fn each_word_has_one_highest_bit() {
        for end in 0..=64 {
            for word in [0, 1, 0x80, 0x1234_5678, 1 << 63, u64::MAX] {
                let is_of = |highest: &Option<u32>| {
                    let bits = Bits::highest_below(end, *highest);
                    word & bits.zeros == 0 && !word & bits.ones == 0
                };
                let all = std::iter::once(None).chain((0..end).map(Some));
                assert_eq!(all.filter(is_of).count(), 1, "{word:#x} below {end}");
            }
        }
    }
}
