//! Layouts: the segments that stand around the actor's code, odd ones among them.

use crate::{elf::Segment, generate::Random};

use super::lines;

/// Where pages stand that a segment fills.
pub(super) const FILLED: u64 = 0x3_8000;
/// Bytes of them.
pub(super) const FILLED_BYTES: u64 = 0x4000;
/// Where segments overlap, in layouts that have such.
pub(super) const OVERLAPPED: u64 = 0x4_0000;
/// Bytes of them.
pub(super) const OVERLAPPED_BYTES: u64 = 0x4000;
/// Where lines of fusions stand, or code that another segment covers: below all that is written, as native
/// code writes only to pages between executable ones and the end.
pub(super) const CODE: u64 = 0x1_8000;
/// Where the addresses of lines stand.
const TABLE: u64 = 0x5_8000;
/// The last pages of memory, where arguments are written.
pub(super) const TOP: u64 = 0x3f_c000;
/// Bytes of them.
pub(super) const TOP_BYTES: u64 = 0x4000;
/// The actor's own state.
const STATE: u64 = 0x2_8000;

const READ: u32 = 4;
const WRITE: u32 = 6;
const EXECUTE: u32 = 5;

/// What stands around the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Pages that are filled from the file.
    Plain,
    /// Segments that meet on a page, one within another, and one that the file fills in part.
    Overlapping,
    /// The pages that arguments are written to belong to a segment.
    Covered,
    /// Both, and pages that are only read.
    CoveredAndOverlapping,
    /// Lines of fusions.
    Lines,
    /// A writable segment fills pages whose flags an executable one sets, with less in the file.
    Underlaid,
}

/// The segments of a layout, and what may be called in them.
pub(super) fn segments(layout: Layout, random: &mut Random, routines: &[u8]) -> (Vec<Segment>, Vec<u64>) {
    let filled =
        |random: &mut Random, flags| segment(random, FILLED, FILLED_BYTES - 0x1800, FILLED_BYTES, flags);
    match layout {
        Layout::Plain => (vec![filled(random, WRITE)], Vec::new()),
        Layout::Overlapping => {
            let mut all = vec![segment(random, STATE, 16, 0x5000, WRITE)];
            all.push(segment(random, FILLED, 0x2345, FILLED_BYTES, WRITE));
            all.extend(overlapping(random));
            (all, Vec::new())
        }
        Layout::Covered => {
            let top = segment(random, TOP + 0x2000, 0x2000, 0x2000, WRITE);
            (vec![filled(random, WRITE), top], Vec::new())
        }
        Layout::CoveredAndOverlapping => {
            let mut all = vec![segment(random, TOP + 0x2000, 0x1800, 0x2000, WRITE)];
            all.extend(overlapping(random));
            all.push(filled(random, READ));
            (all, Vec::new())
        }
        Layout::Lines => {
            let (code, entries) = lines::lines(random, CODE);
            let size = code.len() as u64;
            let code = Segment { address: CODE, flags: EXECUTE, bytes: code, memory_bytes: size };
            let table: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            let size = table.len() as u64;
            let table = Segment { address: TABLE, flags: READ, bytes: table, memory_bytes: size };
            (vec![filled(random, WRITE), code, table], entries)
        }
        Layout::Underlaid => {
            let mut under = routines.to_vec();
            under.resize(0x1000, 0x5a);
            let over = Segment {
                address: CODE,
                flags: EXECUTE,
                bytes: routines[..0x80].to_vec(),
                memory_bytes: 0x1000,
            };
            let under = Segment { address: CODE, flags: WRITE, bytes: under, memory_bytes: 0x1000 };
            // Routines behind those that the upper one has.
            let entries = [0, 0x40, 0x80, 0xc0, 0x200].map(|at| CODE + at).to_vec();
            (vec![filled(random, WRITE), under, over], entries)
        }
    }
}

/// Writable segments that meet.
fn overlapping(random: &mut Random) -> Vec<Segment> {
    vec![
        segment(random, OVERLAPPED, 0x1000, 0x1000, WRITE),
        segment(random, OVERLAPPED + 0x800, 0x700, 0x700, WRITE),
        segment(random, OVERLAPPED + 0x1000, 0x2000, 0x2000, WRITE),
        segment(random, OVERLAPPED + 0x2010, 0x1200, 0x1fe0, WRITE),
        segment(random, OVERLAPPED + 0x3800, 0x10, 0x20, WRITE),
    ]
}

/// Random bytes, none of them 0, `file` of them in the file.
fn segment(random: &mut Random, address: u64, file: u64, memory_bytes: u64, flags: u32) -> Segment {
    let bytes = (0..file).map(|_| 1 + random.below(255) as u8).collect();
    Segment { address, flags, bytes, memory_bytes }
}
