//! The frame table of a library: which guest functions a place in its code is in, and where its host caller is.
//!
//! It stands behind the end of the shared object, where no loader looks, and only profiles read it:
//!
//! ```text
//! shared object | starts: u32 x rows | sizes: u32 x rows | chains: u32 x rows | pcs: u32 x pcs | rows | pcs | magic
//! ```
//! A row is for the code from its start, in bytes from the start of the executable segment, to the next row's. Its size is
//! the distance in bytes from the stack pointer there to the end of the frame, in front of which the return address is; 0
//! where that is not known. Its chain is a place among the pcs: how many guest functions the code is in, outermost first, and
//! for each the guest address of the call to the next, or of the function itself.

/// Last bytes of a library with a frame table.
const MAGIC: [u8; 8] = *b"ANTFRAM\x01";
/// Bytes of the two counts and [`MAGIC`].
const FOOTER_BYTES: usize = 4 + 4 + 8;
/// Guest functions that one place is in, at most: calls that were replaced by what they call.
const CHAIN_MAX: usize = 64;

/// Part of a frame table: what holds from a place in the code to the next row's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRow {
    /// Bytes from the start of the executable segment.
    pub start: u32,
    /// Bytes from the stack pointer to the end of the frame; 0 if that is not known.
    pub bytes: u32,
    /// Guest addresses, outermost first; none in code that is no guest's.
    pub chain: Vec<u32>,
}

/// Where a place in the code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAt<'a> {
    /// Bytes from the stack pointer to the end of the frame; 0 if that is not known.
    pub bytes: u32,
    /// Guest addresses, outermost first.
    pub chain: &'a [u32],
}

/// A frame table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTable {
    starts: Vec<u32>,
    sizes: Vec<u32>,
    chains: Vec<u32>,
    pcs: Vec<u32>,
}

impl FrameTable {
    /// The table with these rows, in the order of their starts. Rows that change nothing are left out.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = FrameRow>) -> Self {
        // Place 0 is the empty chain.
        let mut table = Self { pcs: vec![0], ..Self::default() };
        let mut places = std::collections::HashMap::from([(Vec::new(), 0)]);
        for mut row in rows {
            row.chain.truncate(CHAIN_MAX);
            let next = u32::try_from(table.pcs.len()).unwrap_or(0);
            let place = *places.entry(row.chain).or_insert_with_key(|chain| {
                table.pcs.push(u32::try_from(chain.len()).unwrap_or(0));
                table.pcs.extend(chain);
                next
            });
            if (table.sizes.last(), table.chains.last()) == (Some(&row.bytes), Some(&place)) {
                continue;
            }
            table.starts.push(row.start);
            table.sizes.push(row.bytes);
            table.chains.push(place);
        }
        table
    }

    /// Puts the table behind a shared object.
    pub fn append_to(&self, library: &mut Vec<u8>) {
        for number in [&self.starts, &self.sizes, &self.chains, &self.pcs].into_iter().flatten() {
            library.extend(number.to_le_bytes());
        }
        for count in [self.starts.len(), self.pcs.len()] {
            library.extend(u32::try_from(count).unwrap_or(0).to_le_bytes());
        }
        library.extend(MAGIC);
    }

    /// Bytes at the end of a library that tell how long its table is.
    pub const TAIL_BYTES: usize = FOOTER_BYTES;

    /// Bytes of the whole table, from the last [`FrameTable::TAIL_BYTES`] bytes of a library of `library_bytes`; none if it
    /// has no table.
    #[must_use]
    pub fn length(tail: &[u8], library_bytes: u64) -> Option<usize> {
        let (counts, magic) = tail.split_at_checked(8)?;
        let (rows, pcs) = counts.split_at_checked(4)?;
        let count = |bytes: &[u8]| Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?)));
        let bytes = 12 * count(rows)? + 4 * count(pcs)? + FOOTER_BYTES as u64;
        (magic == MAGIC && bytes <= library_bytes).then_some(usize::try_from(bytes).ok()?)
    }

    /// Reads a table from the bytes that [`FrameTable::length`] counts; none if they are not one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (rest, tail) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
        (Self::length(tail, bytes.len() as u64)? == bytes.len()).then_some(())?;
        let rows = u32::from_le_bytes(tail[..4].try_into().ok()?) as usize;
        let mut numbers = rest.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number));
        let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<u32>>();
        let (starts, sizes, chains) = (take(rows), take(rows), take(rows));
        Some(Self { starts, sizes, chains, pcs: numbers.collect() })
    }

    /// What the code at `place` is in, in bytes from the start of the executable segment; none before the first row.
    #[must_use]
    pub fn find(&self, place: u32) -> Option<FrameAt<'_>> {
        let row = self.starts.partition_point(|start| *start <= place).checked_sub(1)?;
        let (chain, bytes) = (*self.chains.get(row)? as usize, *self.sizes.get(row)?);
        let count = *self.pcs.get(chain)? as usize;
        let chain = self.pcs.get(chain + 1..)?.get(..count)?;
        Some(FrameAt { bytes, chain })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.starts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(start: u32, bytes: u32, chain: &[u32]) -> FrameRow {
        FrameRow { start, bytes, chain: chain.to_vec() }
    }

    #[test]
    fn what_was_put_behind_a_library_is_found_again() {
        let rows =
            [row(16, 8, &[]), row(32, 8, &[7]), row(40, 24, &[7]), row(48, 24, &[7]), row(64, 24, &[7, 9])];
        let table = FrameTable::new(rows);
        assert_eq!(table.rows(), 4);
        let mut library = b"a shared object".to_vec();
        let bytes = library.len();
        table.append_to(&mut library);
        let tail = &library[library.len() - FrameTable::TAIL_BYTES..];
        let length = FrameTable::length(tail, library.len() as u64).unwrap();
        assert_eq!(length, library.len() - bytes);
        let read = FrameTable::read(&library[bytes..]).unwrap();
        assert_eq!(read, table);
        assert_eq!(read.find(15), None);
        assert_eq!(read.find(31), Some(FrameAt { bytes: 8, chain: &[] }));
        assert_eq!(read.find(39), Some(FrameAt { bytes: 8, chain: &[7] }));
        assert_eq!(read.find(63), Some(FrameAt { bytes: 24, chain: &[7] }));
        assert_eq!(read.find(u32::MAX), Some(FrameAt { bytes: 24, chain: &[7, 9] }));
    }

    #[test]
    fn what_is_no_table_is_none() {
        let mut library = Vec::new();
        FrameTable::new([row(0, 8, &[1])]).append_to(&mut library);
        assert!(FrameTable::read(&library).is_some());
        for cut in 0..library.len() {
            assert_eq!(FrameTable::read(&library[..cut]), None, "{cut}");
        }
        let tail = library.len() - FrameTable::TAIL_BYTES;
        assert_eq!(FrameTable::length(&library[tail..], library.len() as u64 - 1), None);
        // A chain that does not exist is no frame.
        library[8] = 200;
        assert_eq!(FrameTable::read(&library).unwrap().find(0), None);
    }
}
