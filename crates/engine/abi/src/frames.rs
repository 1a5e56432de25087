//! The frame table of a library: the guest functions and the host caller at an offset in its code.
//!
//! It follows the end of the shared object, where no loader reads. Only profiles use it:
//!
//! ```text
//! shared object | rows | groups: (start: u32, position: u32) x groups | bytes of the rows: u32 | groups: u32 | magic
//! ```
//! A row describes the code from its start, in bytes from the start of the executable segment, to the next
//! row's. Its size is the distance in bytes from the stack pointer to the end of the frame, below the return
//! address; 0 if unknown. Its chain lists the guest functions at the code, outermost first: for each the
//! guest address of the call to the next, or of the function itself.
//!
//! Most rows differ little from the previous one, so a row encodes the changes ([`rows`]): inlined functions
//! share the start of their chains. Each group of up to [`row::GROUP_ROWS_MAX`] rows can be decoded
//! separately. A lookup reads one group, and loading a library decodes nothing.

mod row;
mod rows;

pub use row::{FrameAt, FrameError, FrameRow};
use rows::{Cursor, Writer};

/// Last bytes of a library with a frame table; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"ANTFRAM\x02";
/// Bytes of a group's start and position.
const GROUP_BYTES: usize = 4 + 4;
/// A frame table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTable {
    bytes: Vec<u8>,
    rows: usize,
    groups: usize,
}

impl FrameTable {
    /// Creates a table of these rows, in the order of their starts. Drops rows that change nothing or do not
    /// start after the previous row.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = FrameRow>) -> Self {
        let mut writer = Writer::default();
        rows.into_iter().for_each(|row| writer.add(row));
        let (mut bytes, groups) = (writer.rows, writer.groups);
        let rows = bytes.len();
        for number in groups.iter().flat_map(|(start, place)| [*start, *place]) {
            bytes.extend(number.to_le_bytes());
        }
        for count in [rows, groups.len()] {
            bytes.extend(u32::try_from(count).unwrap_or(0).to_le_bytes());
        }
        bytes.extend(MAGIC);
        Self { bytes, rows, groups: groups.len() }
    }

    /// Appends the table to a shared object.
    pub fn append_to(&self, library: &mut Vec<u8>) {
        library.extend(&self.bytes);
    }

    /// Bytes at the end of a library that determine the length of its table: two counts and the magic.
    pub const TAIL_BYTES: usize = 4 + 4 + 8;

    /// Length of the whole table in bytes, from the last [`FrameTable::TAIL_BYTES`] bytes of a library of
    /// `library_bytes`. None if it has no table.
    #[must_use]
    pub fn length(tail: &[u8], library_bytes: u64) -> Option<usize> {
        let (rows, groups) = counts(tail)?;
        let bytes = u64::from(rows) + GROUP_BYTES as u64 * u64::from(groups) + Self::TAIL_BYTES as u64;
        (bytes <= library_bytes).then_some(usize::try_from(bytes).ok()?)
    }

    /// Reads a table of the length that [`FrameTable::length`] returns. Lookups decode its rows;
    /// [`FrameTable::check`] decodes all.
    ///
    /// # Errors
    /// [`FrameError::Length`] and [`FrameError::Group`].
    pub fn read(bytes: Vec<u8>) -> Result<Self, FrameError> {
        let length = FrameError::Length { bytes: bytes.len() };
        let tail = bytes.len().checked_sub(Self::TAIL_BYTES).ok_or(length)?;
        if Self::length(&bytes[tail..], bytes.len() as u64) != Some(bytes.len()) {
            return Err(length);
        }
        let (rows, groups) = counts(&bytes[tail..]).ok_or(length)?;
        let table = Self { bytes, rows: rows as usize, groups: groups as usize };
        // Every byte of the rows belongs to a group, and no group is empty.
        let mut end = (None, 0);
        for group in 0..table.groups {
            let (start, place) = table.group(group);
            let is_behind = match end {
                (None, _) => place == 0,
                (Some(last), end) => last < start && end < place,
            };
            if !is_behind || place >= table.rows {
                return Err(FrameError::Group { group, place });
            }
            end = (Some(start), place);
        }
        if table.groups == 0 && table.rows > 0 {
            return Err(FrameError::Group { group: 0, place: table.rows });
        }
        Ok(table)
    }

    /// Decodes all rows and returns their number.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn check(&self) -> Result<usize, FrameError> {
        let mut frame = FrameAt::default();
        let mut rows = 0;
        let mut last = None;
        for group in 0..self.groups {
            let mut cursor = self.cursor(group, &mut frame);
            while let Some(start) = cursor.next()? {
                if last.is_some_and(|last| start <= last) {
                    return Err(FrameError::Order { place: cursor.row });
                }
                last = Some(start);
                rows += 1;
            }
        }
        Ok(rows)
    }

    /// Looks up the frame of the code at `place`, in bytes from the start of the executable segment. Returns
    /// false before the first row and if the table is invalid.
    #[must_use]
    pub fn find(&self, place: u32, frame: &mut FrameAt) -> bool {
        let (mut low, mut high) = (0, self.groups);
        while low < high {
            let middle = low.midpoint(high);
            if self.group(middle).0 <= place { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).is_some_and(|group| self.cursor(group, frame).find(place).is_ok())
    }

    /// The start of a group's code, and the position of its rows.
    fn group(&self, group: usize) -> (u32, usize) {
        let at = self.rows + GROUP_BYTES * group;
        let number = |at: usize| {
            let bytes = self.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        (number(at), number(at + 4) as usize)
    }

    fn cursor<'a>(&'a self, group: usize, frame: &'a mut FrameAt) -> Cursor<'a> {
        let (start, place) = self.group(group);
        let end = if group + 1 < self.groups { self.group(group + 1).1 } else { self.rows };
        Cursor::new(self.bytes.get(..end).unwrap_or_default(), place, start, frame)
    }
}

/// Bytes of the rows and number of groups, from the footer of a table.
fn counts(tail: &[u8]) -> Option<(u32, u32)> {
    let (counts, magic) = tail.split_at_checked(8)?;
    let (rows, groups) = counts.split_at_checked(4)?;
    let count = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    (magic == MAGIC).then_some((count(rows)?, count(groups)?))
}

#[cfg(test)]
mod tests;
