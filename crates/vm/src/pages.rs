//! Sets of pages of guest memory.

use std::ops::Range;

use ckb_vm::{RISCV_PAGES, RISCV_PAGESIZE};

const WORDS: usize = RISCV_PAGES / 64;

/// A set of pages of guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages([u64; WORDS]);

impl Pages {
    /// The pages whose flags `is_member` of.
    pub(crate) fn with_flags(flags: &[u8; RISCV_PAGES], is_member: impl Fn(u8) -> bool) -> Self {
        let mut pages = Self::default();
        for (word, flags) in pages.0.iter_mut().zip(flags.chunks_exact(64)) {
            let bits = flags.iter().enumerate().map(|(bit, flags)| u64::from(is_member(*flags)) << bit);
            *word = bits.fold(0, |word, bit| word | bit);
        }
        pages
    }

    /// The pages that hold one of the bytes at `addresses`, as far as they are in memory.
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

    /// The pages of both.
    pub(crate) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// The pages that both have.
    pub(crate) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// The pages that `other` has not.
    pub(crate) fn minus(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    fn zip(mut self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word = join(*word, other);
        }
        self
    }

    /// Neighbouring pages as one range, lowest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = (page..RISCV_PAGES).find(|page| self.has(*page))?;
            page = (start..RISCV_PAGES).find(|page| !self.has(*page)).unwrap_or(RISCV_PAGES);
            Some(start..page)
        })
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
        let pages = Pages::with_flags(&flags, |flags| flags & 2 != 0);
        let without = pages.minus(Pages::with_flags(&flags, |flags| flags & 4 != 0));
        assert!(without.ranges().flatten().eq([3]));
        assert_eq!(pages.and(without), without);
        assert_eq!(without.or(pages), pages);
    }
}
