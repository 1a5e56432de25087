//! The entry table of a library: maps guest addresses to entry thunks in two steps, because few addresses
//! have one.
//!
//! ```text
//! distance of the address from table_base, in bytes
//!   directory[distance / ENTRY_PAGE_BYTES]  -> number of a group, 0 for the group without entries
//!   entries[16 * group + distance / 2 % 16]  -> distance of the thunk from the entries' start, 0 for none
//! ```

/// Bytes of guest code for each entry of the directory.
pub const ENTRY_PAGE_BYTES: u64 = 2 * ENTRIES_PER_GROUP as u64;

/// Entries of a group: one for each even address of a page.
pub const ENTRIES_PER_GROUP: usize = 16;

/// Maximum groups that the directory can reference, including the empty one.
pub const ENTRY_GROUPS_MAX: usize = 1 << 16;

/// An entry table under construction; `T` locates a thunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryTable<T> {
    /// For each page of guest code, the number of its group.
    pub directory: Vec<u16>,
    /// The groups in order; the first one is empty.
    pub entries: Vec<Option<T>>,
}

impl<T: Clone> EntryTable<T> {
    /// Creates the table for code in `[start, end)`. The last thunk of an address wins. Addresses outside are
    /// dropped, and so are those after [`ENTRY_GROUPS_MAX`] groups: they have no native code.
    #[must_use]
    pub fn new(start: u64, end: u64, thunks: impl IntoIterator<Item = (u64, T)>) -> Self {
        let pages = end.saturating_sub(start).div_ceil(ENTRY_PAGE_BYTES);
        let mut directory = vec![0_u16; usize::try_from(pages).unwrap_or(0)];
        let mut entries = vec![None; ENTRIES_PER_GROUP];
        for (address, thunk) in thunks {
            let Some(distance) = address.checked_sub(start).filter(|_| address < end) else { continue };
            let page = usize::try_from(distance / ENTRY_PAGE_BYTES).unwrap_or(usize::MAX);
            let Some(group) = directory.get_mut(page) else { continue };
            if *group == 0 {
                let Ok(next) = u16::try_from(entries.len() / ENTRIES_PER_GROUP) else { continue };
                *group = next;
                entries.resize(entries.len() + ENTRIES_PER_GROUP, None);
            }
            let slot = usize::try_from(distance / 2).unwrap_or(0) % ENTRIES_PER_GROUP;
            entries[usize::from(*group) * ENTRIES_PER_GROUP + slot] = Some(thunk);
        }
        Self { directory, entries }
    }

    /// Finds the thunk for an address the way generated code and host do.
    #[must_use]
    pub fn find(&self, start: u64, address: u64) -> Option<T> {
        let distance = address.checked_sub(start)?;
        let group = *self.directory.get(usize::try_from(distance / ENTRY_PAGE_BYTES).ok()?)?;
        let slot = usize::try_from(distance / 2).ok()? % ENTRIES_PER_GROUP;
        self.entries.get(usize::from(group) * ENTRIES_PER_GROUP + slot)?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thunk_is_found_and_nothing_else() {
        let thunks = [(0x1000, 1), (0x1002, 2), (0x101e, 3), (0x1020, 4), (0x10fe, 5), (0x1100, 6)];
        let table = EntryTable::new(0x1000, 0x1100, thunks);
        assert_eq!(table.directory.len(), 8);
        // The empty group and three others.
        assert_eq!(table.entries.len(), 4 * ENTRIES_PER_GROUP);
        for address in (0x0ff0..0x1200).step_by(2) {
            let wanted = thunks[..5].iter().find(|(at, _)| *at == address).map(|(_, thunk)| *thunk);
            assert_eq!(table.find(0x1000, address), wanted, "{address:#x}");
        }
    }

    #[test]
    fn the_last_of_two_counts_and_groups_are_bounded() {
        assert_eq!(EntryTable::new(0, 64, [(4, 1), (4, 2)]).find(0, 4), Some(2));
        let end = (ENTRY_GROUPS_MAX as u64 + 5) * ENTRY_PAGE_BYTES;
        let table = EntryTable::new(0, end, (0..end).step_by(32).map(|address| (address, ())));
        assert_eq!(table.entries.len(), ENTRY_GROUPS_MAX * ENTRIES_PER_GROUP);
        assert_eq!(table.find(0, 0), Some(()));
        assert_eq!(table.find(0, end - 32), None);
    }

    #[test]
    fn a_library_without_code_has_no_pages() {
        let table = EntryTable::new(8, 8, [(8, ())]);
        assert!(table.directory.is_empty());
        assert_eq!(table.find(8, 8), None);
    }
}
