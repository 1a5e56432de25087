//! Makes memory read as zeros again, at the cost of what was touched since the last time.
//!
//! The kernel tells which pages are there (`mincore`), at some ten nanoseconds for each page that is asked
//! about: for all of a machine that is more than a short script takes. But a page that was not there comes
//! with a fault, and faults are counted. As long as the count stays the same, so does the list of pages.

use std::{mem::MaybeUninit, ops::Range};

use crate::{limits::PAGE_BYTES, mapping::Mapping};

/// Pages that are kept however few of them are used: those that come back cost more than those that stay.
const RETAINED_PAGES: usize = 64;
/// Wipes in a row in which most pages lay unused, before they go. The groups of a transaction take turns, and
/// a page that comes back costs more than looking at it so often (some 4 us, and 0.3 us each).
const IDLE_WIPES_MAX: usize = 8;
/// Pages that are asked about at a time.
const QUERIED_PAGES: usize = 1024;

/// Knows the pages of one part of a mapping that may hold something.
#[derive(Debug)]
pub(crate) struct Wiper {
    part: Range<usize>,
    /// Where the pages begin, byte offsets.
    pages: Vec<usize>,
    /// Faults of this process when the list was made.
    faults: Option<i64>,
    /// Wipes in a row that found most of them unused.
    idle_wipes: usize,
    order: Order,
}

/// How much of its part a wiper asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All of it.
    Any,
    /// From the end down, until as much as [`QUERIED_PAGES`] was not touched: a stack whose frames are smaller
    /// than that.
    Down,
}

impl Wiper {
    /// A wiper of `part` (byte offsets, page aligned, opened), which reads as zeros now.
    pub(crate) fn new(part: Range<usize>, order: Order) -> Self {
        Self { part, pages: Vec::new(), faults: None, idle_wipes: 0, order }
    }

    /// Makes the part of `mapping` read as zeros. Pages stay, unless most of many were not used for a while.
    pub(crate) fn wipe(&mut self, mapping: &mut Mapping) {
        let faults = faults();
        if faults.is_none() || faults != self.faults {
            if !self.list(mapping) {
                self.pages.clear();
                return mapping.clear(self.part.clone());
            }
            self.faults = faults;
        }
        let mut used = 0;
        for page in &self.pages {
            // SAFETY: `list` found the page inside the part, which was opened.
            let words =
                unsafe { std::slice::from_raw_parts_mut(mapping.at(*page).cast::<u64>(), PAGE_BYTES / 8) };
            // A page that was only read may be one that all processes share: writing to it would be a fault.
            if words.iter().fold(0, |all, word| all | word) != 0 {
                words.fill(0);
                used += 1;
            }
        }
        let is_idle = self.pages.len() > RETAINED_PAGES && used * 4 < self.pages.len();
        self.idle_wipes = if is_idle { self.idle_wipes + 1 } else { 0 };
        if self.idle_wipes > IDLE_WIPES_MAX {
            self.pages.clear();
            (self.faults, self.idle_wipes) = (None, 0);
            mapping.clear(self.part.clone());
        }
    }

    /// Returns the memory of the part, which reads as zeros, if it has more than `pages_max` pages.
    pub(crate) fn shrink(&mut self, mapping: &mut Mapping, pages_max: usize) {
        if self.pages.len() > pages_max {
            self.pages.clear();
            (self.faults, self.idle_wipes) = (None, 0);
            mapping.clear(self.part.clone());
        }
    }

    /// Lists the pages that are in memory, and keeps those that were before: one that the kernel has put
    /// aside is not in memory, but not zeros either. Answers whether the kernel tells.
    fn list(&mut self, mapping: &Mapping) -> bool {
        let mut end = self.part.end;
        while end > self.part.start {
            let start = end.saturating_sub(QUERIED_PAGES * PAGE_BYTES).max(self.part.start);
            let Some(touched) = mapping.touched(start..end) else { return false };
            let before = self.pages.len();
            let found = touched.iter().enumerate().filter(|(_, is_touched)| **is_touched);
            self.pages.extend(found.map(|(index, _)| start + index * PAGE_BYTES));
            if self.order == Order::Down && self.pages.len() == before {
                break;
            }
            end = start;
        }
        self.pages.sort_unstable();
        self.pages.dedup();
        true
    }
}

/// Page faults of this process so far that needed no disk. None if the kernel does not tell.
fn faults() -> Option<i64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, which is plain numbers.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    Some(usage.ru_minflt + usage.ru_majflt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::may_swap;

    const PART: Range<usize> = 0x1000..0x1000 + 0x80_0000;

    fn mapping() -> Mapping {
        let mut mapping = Mapping::reserve(PART.end + 0x1000).unwrap();
        mapping.open(PART).unwrap();
        mapping
    }

    fn write(mapping: &Mapping, offset: usize) {
        // SAFETY: all offsets of these tests are in the part that was opened.
        unsafe { mapping.at(offset).write(7) };
    }

    fn is_wiped(mapping: &Mapping) -> bool {
        // SAFETY: the part was opened.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.at(PART.start), PART.len()) };
        bytes.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn whatever_was_written_is_wiped() {
        for order in [Order::Any, Order::Down] {
            let (mut mapping, mut wiper) = (mapping(), Wiper::new(PART, order));
            for round in 0..20_usize {
                // New pages and old ones, from the end down.
                for page in 0..round * 7 % 50 {
                    write(&mapping, PART.end - 1 - page * 0x1800);
                }
                wiper.wipe(&mut mapping);
                assert!(is_wiped(&mapping), "{order:?} {round}");
            }
        }
    }

    #[test]
    fn a_page_that_came_since_is_noticed() {
        let (mut mapping, mut wiper) = (mapping(), Wiper::new(PART, Order::Any));
        for offset in [PART.start, PART.end - 1, PART.start + 0x40_0000] {
            write(&mapping, offset);
            wiper.wipe(&mut mapping);
            assert!(may_swap() || wiper.pages.contains(&(offset & !0xfff)));
        }
        assert!(is_wiped(&mapping));
    }

    #[test]
    fn pages_that_are_hardly_used_any_more_go() {
        let (mut mapping, mut wiper) = (mapping(), Wiper::new(PART, Order::Any));
        let write_all = |mapping: &Mapping| {
            for page in 0..400 {
                write(mapping, PART.start + page * PAGE_BYTES);
            }
        };
        // Programs that take turns keep them.
        for _ in 0..3 {
            write_all(&mapping);
            wiper.wipe(&mut mapping);
            for _ in 0..IDLE_WIPES_MAX {
                assert!(may_swap() || wiper.pages.len() == 400);
                write(&mapping, PART.start);
                wiper.wipe(&mut mapping);
            }
        }
        write(&mapping, PART.start);
        wiper.wipe(&mut mapping);
        assert!(wiper.pages.is_empty() && is_wiped(&mapping));
        assert!(may_swap() || mapping.touched(PART.end - PAGE_BYTES..PART.end) == Some(vec![true]));
    }
}
