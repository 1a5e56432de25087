//! Sets of pages of guest memory.

use std::ops::Range;

use ckb_vm::{RISCV_PAGES, RISCV_PAGESIZE};

const WORDS: usize = RISCV_PAGES / 64;

/// A set of pages of guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages([u64; WORDS]);

impl Pages {
    /// The pages with `flag`, a single bit.
    pub(crate) fn with_flag(flags: &[u8; RISCV_PAGES], flag: u8) -> Self {
        let mut pages = Self::default();
        let (eights, _) = flags.as_chunks::<8>();
        for (index, eight) in eights.iter().enumerate() {
            // Moves one bit of each byte to the lowest position, and gathers all eight in the highest byte by
            // multiplication.
            let bits = u64::from_le_bytes(*eight) >> flag.trailing_zeros() & 0x0101_0101_0101_0101;
            pages.0[index / 8] |= (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (index % 8 * 8);
        }
        pages
    }

    /// The pages that contain one of `addresses`, limited to guest memory.
    pub(crate) fn holding(addresses: Range<u64>) -> Self {
        let mut pages = Self::default();
        let page = |address: u64| usize::try_from(address).unwrap_or(usize::MAX) / RISCV_PAGESIZE;
        if !addresses.is_empty() {
            (page(addresses.start)..RISCV_PAGES.min(page(addresses.end - 1) + 1))
                .for_each(|page| pages.insert(page));
        }
        pages
    }

    pub(crate) fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    pub(crate) fn has(&self, page: usize) -> bool {
        self.0[page / 64] & 1 << (page % 64) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The union.
    pub(crate) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// The intersection.
    pub(crate) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// The pages that are not in `other`.
    pub(crate) fn minus(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    fn zip(mut self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word = join(*word, other);
        }
        self
    }

    /// Ranges of adjacent pages, lowest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = self.next(page, true)?;
            page = self.next(start, false).unwrap_or(RISCV_PAGES);
            Some(start..page)
        })
    }

    /// The first page at or after `page` whose membership is `is_member`.
    fn next(&self, page: usize, is_member: bool) -> Option<usize> {
        let (mut index, mut hidden) = (page / 64, u64::MAX << (page % 64));
        while let Some(word) = self.0.get(index) {
            let found = if is_member { *word } else { !*word } & hidden;
            if found != 0 {
                return Some(index * 64 + found.trailing_zeros() as usize);
            }
            (index, hidden) = (index + 1, u64::MAX);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = RISCV_PAGESIZE as u64;

    #[test]
    fn ranges_are_those_of_the_pages() {
        let mut pages = Pages::holding(PAGE - 1..PAGE + 1);
        pages.insert(63);
        pages.insert(64);
        pages.insert(RISCV_PAGES - 1);
        assert_eq!(pages.ranges().collect::<Vec<_>>(), [0..2, 63..65, RISCV_PAGES - 1..RISCV_PAGES]);
        assert_eq!(Pages::default().ranges().next(), None);
    }

    #[test]
    fn addresses_beyond_memory_have_no_page() {
        assert!(Pages::holding(5..5).is_empty());
        assert!(Pages::holding(RISCV_PAGES as u64 * PAGE..u64::MAX).is_empty());
        let last = Pages::holding((RISCV_PAGES as u64 - 1) * PAGE..u64::MAX);
        assert!(last.ranges().flatten().eq([RISCV_PAGES - 1]));
    }

    #[test]
    fn flags_decide() {
        let mut flags = [0; RISCV_PAGES];
        (flags[3], flags[700]) = (2, 6);
        let pages = Pages::with_flag(&flags, 2);
        let without = pages.minus(Pages::with_flag(&flags, 4));
        assert!(without.ranges().flatten().eq([3]));
        assert_eq!(pages.and(without), without);
        assert_eq!(without.or(pages), pages);
    }
}
