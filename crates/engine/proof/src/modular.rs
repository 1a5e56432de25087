//! Sums modulo 2^64, and the integers that they stand for.
//!
//! Sums of residues are exact despite wrapping, but comparisons need integers. A sum *stands for* an interval
//! if it is congruent to one of the interval's integers. The sum of two intervals is an interval of the sum.
//! Inside `[0, 2^64)`, an interval contains the unsigned value; inside `[-2^63, 2^63)`, the signed one.

/// An opaque term of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unknown {
    /// The register with this number, at the guard or at the start of an iteration.
    Register(u8),
    /// The number of the last iteration, according to the guard.
    Last,
    /// Any other value, by its number.
    Made(u32),
}

const TERMS_MAX: usize = 16;

/// `factor * unknown + ... + constant` modulo 2^64; no factor is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModularSum {
    terms: Vec<(Unknown, i64)>,
    constant: i64,
}

impl ModularSum {
    pub(super) fn constant(constant: i64) -> Self {
        Self { terms: Vec::new(), constant }
    }

    pub(super) fn unknown(unknown: Unknown) -> Self {
        Self { terms: vec![(unknown, 1)], constant: 0 }
    }

    pub(super) fn offset(&self, by: i64) -> Self {
        Self { constant: self.constant.wrapping_add(by), ..self.clone() }
    }

    pub(super) fn times(&self, factor: i64) -> Self {
        let terms = self.terms.iter().map(|(unknown, by)| (*unknown, by.wrapping_mul(factor)));
        let terms = terms.filter(|(_, factor)| *factor != 0).collect();
        Self { terms, constant: self.constant.wrapping_mul(factor) }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.offset(other.constant);
        for &(unknown, factor) in &other.terms {
            match sum.terms.binary_search_by_key(&unknown, |(unknown, _)| *unknown) {
                Ok(position) => sum.terms[position].1 = sum.terms[position].1.wrapping_add(factor),
                Err(position) => sum.terms.insert(position, (unknown, factor)),
            }
        }
        sum.terms.retain(|(_, factor)| *factor != 0);
        sum
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.plus(&other.times(-1))
    }

    pub(super) fn is_short(&self) -> bool {
        self.terms.len() <= TERMS_MAX
    }

    /// The number, if the sum is constant.
    pub(super) fn number(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    pub(super) fn terms(&self) -> impl Iterator<Item = (Unknown, i64)> {
        self.terms.iter().copied()
    }

    /// The factor of [`Unknown::Last`] and the constant, if there are no other terms.
    pub(super) fn of_last(&self) -> Option<(i128, i128)> {
        match self.terms[..] {
            [] => Some((0, self.constant.into())),
            [(Unknown::Last, factor)] => Some((factor.into(), self.constant.into())),
            _ => None,
        }
    }

    /// The integers that the sum stands for, given those of its unknowns.
    pub(super) fn integers(&self, of: impl Fn(Unknown) -> Option<Integers>) -> Option<Integers> {
        let constant = Integers::one(self.constant.into());
        self.terms.iter().try_fold(constant, |sum, (unknown, factor)| {
            let known = of(*unknown).filter(|known| known.is_inside(-FAR, FAR))?;
            let sum = sum.plus(known.times((*factor).into()));
            sum.is_inside(-(FAR << 48), FAR << 48).then_some(sum)
        })
    }
}

/// Maximum distance from 0 of an unknown's integers, so that products fit into 128 bits.
const FAR: i128 = 1 << 63;

/// The integers from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integers {
    pub(super) low: i128,
    pub(super) high: i128,
}

impl Integers {
    pub(super) const fn new(low: i128, high: i128) -> Self {
        Self { low, high }
    }

    pub(super) const fn one(number: i128) -> Self {
        Self::new(number, number)
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    pub(super) fn times(self, factor: i128) -> Self {
        let ends = [self.low * factor, self.high * factor];
        Self::new(ends[0].min(ends[1]), ends[0].max(ends[1]))
    }

    pub(super) const fn is_inside(self, low: i128, end: i128) -> bool {
        low <= self.low && self.high < end
    }

    /// Whether the integers equal the 64 bits as unsigned numbers.
    pub(super) const fn are_unsigned(self) -> bool {
        self.is_inside(0, 1 << 64)
    }

    /// Whether the integers equal the 64 bits as signed numbers.
    pub(super) const fn are_signed(self) -> bool {
        self.is_inside(-(1 << 63), 1 << 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_wrap_and_their_integers_do_not() {
        let x = ModularSum::unknown(Unknown::Register(10));
        let sum = x.times(3).offset(i64::MAX).offset(1).minus(&x.times(2));
        assert_eq!(sum, x.offset(i64::MIN));
        assert_eq!(sum.minus(&x).number(), Some(i64::MIN));
        let of = |_| Some(Integers::new(-1, 5));
        assert_eq!(x.times(-2).offset(7).integers(of), Some(Integers::new(-3, 9)));
        assert!(Integers::new(0, (1 << 64) - 1).are_unsigned() && !Integers::new(0, 1 << 64).are_unsigned());
        assert!(!Integers::new(-1, 0).are_unsigned() && Integers::new(-1, 0).are_signed());
    }
}
