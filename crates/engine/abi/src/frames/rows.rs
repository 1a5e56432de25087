//! The rows of a frame table, each encoded as the changes from the previous row.
//!
//! ```text
//! distance of the start from the previous row's: number
//! flags: 1 byte (bit 0: size changes; bits 1 to 3: removed functions; bits 4 to 6: added functions)
//!     a count with all bits set follows as a number
//! size: number, rotated right by three bits, since sizes are multiples of 8
//! each added function: number, the distance of its guest address from the last one removed or added
//! ```
//! Numbers are LEB128: seven bits per byte, low bits first, with the high bit set in each byte but the last.
//! Distances of guest addresses are zigzag-encoded. A group starts with an empty chain, size 0 and address 0.

use super::row::{CHAIN_MAX, FrameAt, FrameError, FrameRow, GROUP_ROWS_MAX};

/// Flag: the size changes.
const SIZE: u8 = 1;
/// Bit positions of the two counts in the byte.
const LEAVING: u32 = 1;
const COMING: u32 = 4;
/// Bits of such a count; if all are set, the count follows as a number.
const COUNT_BITS: u8 = 7;
/// Bits of a number in each byte.
const NUMBER_BITS: u32 = 7;

/// Reads the rows of a group.
pub(super) struct Cursor<'a> {
    /// The table to the end of the group.
    bytes: &'a [u8],
    at: usize,
    start: u32,
    pc: u32,
    rows: usize,
    /// First byte of the row that was read last.
    pub(super) row: usize,
    /// The frame that the row read last describes.
    frame: &'a mut FrameAt,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor over the group whose code starts at `start` and whose rows begin at `bytes[at]`.
    /// Reading updates `frame`.
    pub(super) fn new(bytes: &'a [u8], at: usize, start: u32, frame: &'a mut FrameAt) -> Self {
        (frame.bytes, frame.depth) = (0, 0);
        Self { bytes, at, start, pc: 0, rows: 0, row: at, frame }
    }

    /// Reads a row and returns its start, or none at the end of the group.
    pub(super) fn next(&mut self) -> Result<Option<u32>, FrameError> {
        let start = self.start()?;
        if start.is_some() {
            self.change()?;
        }
        Ok(start)
    }

    /// Reads up to the last row that starts at or before `place`.
    pub(super) fn find(mut self, place: u32) -> Result<(), FrameError> {
        while self.start()?.is_some_and(|start| start <= place) {
            self.change()?;
        }
        Ok(())
    }

    /// Reads the start of the next row; none at the end of the group.
    fn start(&mut self) -> Result<Option<u32>, FrameError> {
        self.row = self.at;
        if self.at >= self.bytes.len() {
            let is_group = (1..=GROUP_ROWS_MAX).contains(&self.rows);
            return if is_group { Ok(None) } else { Err(FrameError::Rows { place: self.at }) };
        }
        if self.rows == GROUP_ROWS_MAX {
            return Err(FrameError::Rows { place: self.at });
        }
        let distance = self.number()?;
        let start = self.start.checked_add(distance).ok_or(FrameError::Order { place: self.row })?;
        // The first row starts where the group does.
        if (distance == 0) != (self.rows == 0) {
            return Err(FrameError::Order { place: self.row });
        }
        self.start = start;
        self.rows += 1;
        Ok(Some(start))
    }

    fn change(&mut self) -> Result<(), FrameError> {
        let what = self.byte()?;
        let leaving = self.count(what >> LEAVING)?;
        let coming = self.count(what >> COMING)?;
        if what & SIZE != 0 {
            self.frame.bytes = self.number()?.rotate_left(3);
        }
        let depth = self.frame.depth.checked_sub(leaving).ok_or(self.no_chain())?;
        if leaving > 0 {
            self.pc = self.frame.pcs[depth];
        }
        if coming > CHAIN_MAX - depth {
            return Err(self.no_chain());
        }
        for place in depth..depth + coming {
            let number = self.number()?;
            self.pc = self.pc.wrapping_add((number >> 1) ^ (number & 1).wrapping_neg());
            self.frame.pcs[place] = self.pc;
        }
        self.frame.depth = depth + coming;
        Ok(())
    }

    fn no_chain(&self) -> FrameError {
        FrameError::Chain { place: self.row }
    }

    fn byte(&mut self) -> Result<u8, FrameError> {
        let byte = self.bytes.get(self.at).ok_or(FrameError::Cut { place: self.row })?;
        self.at += 1;
        Ok(*byte)
    }

    fn count(&mut self, bits: u8) -> Result<usize, FrameError> {
        match bits & COUNT_BITS {
            COUNT_BITS => Ok(self.number()? as usize),
            count => Ok(usize::from(count)),
        }
    }

    fn number(&mut self) -> Result<u32, FrameError> {
        let mut number = 0;
        for shift in (0..u32::BITS).step_by(NUMBER_BITS as usize) {
            let byte = self.byte()?;
            let part = u32::from(byte & 0x7f);
            if part.leading_zeros() < shift {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(FrameError::Wide { place: self.row })
    }
}

/// Writes rows in groups.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) rows: Vec<u8>,
    /// The start of each group's code, and the position of its rows.
    pub(super) groups: Vec<(u32, u32)>,
    last: Option<FrameRow>,
    pc: u32,
    count: usize,
}

impl Writer {
    pub(super) fn add(&mut self, mut row: FrameRow) {
        row.chain.truncate(CHAIN_MAX);
        if let Some(last) = &self.last
            && (row.start <= last.start || (last.bytes, &last.chain) == (row.bytes, &row.chain))
        {
            return;
        }
        if self.last.is_none() || self.count == GROUP_ROWS_MAX {
            let Ok(place) = u32::try_from(self.rows.len()) else { return };
            self.groups.push((row.start, place));
            self.count = 0;
            self.pc = 0;
            self.last = Some(FrameRow { start: row.start, ..FrameRow::default() });
        }
        let last = self.last.take().unwrap_or_default();
        self.change(&last, &row);
        self.count += 1;
        self.last = Some(row);
    }

    fn change(&mut self, last: &FrameRow, row: &FrameRow) {
        let shared = last.chain.iter().zip(&row.chain).take_while(|(last, pc)| last == pc).count();
        let (leaving, coming) = (last.chain.len() - shared, row.chain.len() - shared);
        let has_size = row.bytes != last.bytes;
        let bits = |count: usize| u8::try_from(count).unwrap_or(u8::MAX).min(COUNT_BITS);
        self.number(row.start - last.start);
        self.rows.push(u8::from(has_size) | bits(leaving) << LEAVING | bits(coming) << COMING);
        for count in [leaving, coming].into_iter().filter(|count| *count >= usize::from(COUNT_BITS)) {
            self.number(u32::try_from(count).unwrap_or(0));
        }
        if has_size {
            self.number(row.bytes.rotate_right(3));
        }
        if let Some(pc) = last.chain.get(shared) {
            self.pc = *pc;
        }
        for pc in &row.chain[shared..] {
            let distance = pc.wrapping_sub(self.pc).cast_signed();
            self.number(((distance << 1) ^ (distance >> 31)).cast_unsigned());
            self.pc = *pc;
        }
    }

    fn number(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.rows.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
            number >>= NUMBER_BITS;
        }
        self.rows.push(u8::try_from(number).unwrap_or(0));
    }
}
