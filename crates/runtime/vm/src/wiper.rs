//! Zeroes memory at the cost of the pages touched since the last wipe.
//!
//! `mincore` reports which pages are resident, at about ten nanoseconds for each queried page: for a whole
//! machine, that exceeds the time of a short script. But a page becomes resident only by a fault, and the
//! kernel counts faults. While the count is unchanged, so is the list of pages.

use std::{mem::MaybeUninit, ops::Range};

use crate::{cell_cache::CellCache, limits::PAGE_BYTES, mapping::Mapping};

/// Pages that are retained even if mostly unused: mapping them again costs more than wiping them.
const RETAINED_PAGES: usize = 64;
/// Consecutive wipes with mostly unused pages before the pages are released. Groups of a transaction
/// alternate, and a returning page costs more than this many checks (about 4 us, and 0.3 us each).
const IDLE_WIPES_MAX: usize = 8;
/// Pages per query.
const QUERIED_PAGES: usize = 1024;

/// Tracks the pages of one part of a mapping that may be nonzero.
#[derive(Debug)]
pub(crate) struct Wiper {
    part: Range<usize>,
    /// Byte offsets of the pages.
    pages: Vec<usize>,
    /// Fault count of this process when the list was made.
    faults: Option<i64>,
    /// Consecutive wipes that found most pages unused.
    idle_wipes: usize,
    order: Order,
}

/// The order in which a wiper queries pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The whole part.
    Any,
    /// From the end down, until [`QUERIED_PAGES`] in a row are untouched: for a stack whose frames are
    /// smaller than that.
    Down,
}

impl Wiper {
    /// Creates a wiper of `part` (byte offsets, page aligned, opened), which is all zero now.
    pub(crate) fn new(part: Range<usize>, order: Order) -> Self {
        Self { part, pages: Vec::new(), faults: None, idle_wipes: 0, order }
    }

    /// Zeroes the part of `mapping`, except for cached `cells`. Pages stay resident unless most of them
    /// were unused for a while.
    pub(crate) fn wipe(&mut self, mapping: &mut Mapping, cells: Option<&CellCache>) {
        let faults = faults();
        if faults.is_none() || faults != self.faults {
            if !self.list(mapping) {
                return self.clear(mapping, cells);
            }
            self.faults = faults;
        }
        let mut used = 0;
        for page in &self.pages {
            if let Some(was_shown) = cells.and_then(|cells| cells.holds(mapping.at(*page).addr())) {
                used += usize::from(was_shown);
                continue;
            }
            // SAFETY: `list` found the page within the part, which was opened.
            let words =
                unsafe { std::slice::from_raw_parts_mut(mapping.at(*page).cast::<u64>(), PAGE_BYTES / 8) };
            // A page that was only read may be the shared zero page: writing to it would fault.
            if words.iter().fold(0, |all, word| all | word) != 0 {
                words.fill(0);
                used += 1;
            }
        }
        let is_idle = self.pages.len() > RETAINED_PAGES && used * 4 < self.pages.len();
        self.idle_wipes = if is_idle { self.idle_wipes + 1 } else { 0 };
        if self.idle_wipes > IDLE_WIPES_MAX {
            self.clear(mapping, cells);
        }
    }

    /// Returns all pages to the kernel.
    fn clear(&mut self, mapping: &mut Mapping, cells: Option<&CellCache>) {
        if let Some(cells) = cells {
            cells.clear();
        }
        self.pages.clear();
        (self.faults, self.idle_wipes) = (None, 0);
        mapping.clear(self.part.clone());
    }

    /// Returns the memory of the part, which is wiped, to the kernel if it has more than `pages_max`
    /// pages.
    pub(crate) fn shrink(&mut self, mapping: &mut Mapping, cells: Option<&CellCache>, pages_max: usize) {
        if self.pages.len() > pages_max {
            self.clear(mapping, cells);
        }
    }

    /// Adds the resident pages to the list. Earlier pages stay in it: a page in swap is not resident, but not
    /// zero either. Returns false if the query fails.
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

/// Page faults of this process so far. `None` if the query fails.
fn faults() -> Option<i64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, which consists of plain numbers.
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
        // SAFETY: all offsets of these tests are in the opened part.
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
                // New and old pages, from the end down.
                for page in 0..round * 7 % 50 {
                    write(&mapping, PART.end - 1 - page * 0x1800);
                }
                wiper.wipe(&mut mapping, None);
                assert!(is_wiped(&mapping), "{order:?} {round}");
            }
        }
    }

    #[test]
    fn a_page_that_came_since_is_noticed() {
        let (mut mapping, mut wiper) = (mapping(), Wiper::new(PART, Order::Any));
        for offset in [PART.start, PART.end - 1, PART.start + 0x40_0000] {
            write(&mapping, offset);
            wiper.wipe(&mut mapping, None);
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
        // The pages stay resident while programs alternate.
        for _ in 0..3 {
            write_all(&mapping);
            wiper.wipe(&mut mapping, None);
            for _ in 0..IDLE_WIPES_MAX {
                assert!(may_swap() || wiper.pages.len() == 400);
                write(&mapping, PART.start);
                wiper.wipe(&mut mapping, None);
            }
        }
        write(&mapping, PART.start);
        wiper.wipe(&mut mapping, None);
        assert!(wiper.pages.is_empty() && is_wiped(&mapping));
        assert!(may_swap() || mapping.touched(PART.end - PAGE_BYTES..PART.end) == Some(vec![true]));
    }
}
