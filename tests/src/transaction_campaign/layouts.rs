//! Layouts: the segments around the actor's code, including unusual ones.

use crate::{elf::Segment, generate::Random};

use super::lines;

/// Start of pages filled by a segment.
pub(super) const FILLED: u64 = 0x3_8000;
pub(super) const FILLED_BYTES: u64 = 0x4000;
/// Start of overlapping segments, in layouts with such.
pub(super) const OVERLAPPED: u64 = 0x4_0000;
pub(super) const OVERLAPPED_BYTES: u64 = 0x4000;
/// Address of straight-line traces, or of code that another segment covers. Below all written data, because
/// native code writes only to pages between executable ones and the end.
pub(super) const CODE: u64 = 0x1_8000;
/// Address of the table of traces.
const TABLE: u64 = 0x5_8000;
/// The last pages of memory, which hold the arguments.
pub(super) const TOP: u64 = 0x3f_c000;
pub(super) const TOP_BYTES: u64 = 0x4000;
/// The actor's own state.
const STATE: u64 = 0x2_8000;

const READ: u32 = 4;
const WRITE: u32 = 6;
const EXECUTE: u32 = 5;

/// The segments around the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Pages filled from the file.
    Plain,
    /// Segments that share a page, one within another, and one partly filled by the file.
    Overlapping,
    /// A segment covers the pages of the arguments.
    Covered,
    /// Both, and read-only pages.
    CoveredAndOverlapping,
    /// Straight-line traces with fusions.
    Lines,
    /// A writable segment fills pages whose flags an executable segment sets, which is shorter in the file.
    Underlaid,
}

/// The segments of a layout, and callable addresses in them.
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
            let table = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            let (code, table) = (Segment::whole(CODE, EXECUTE, code), Segment::whole(TABLE, READ, table));
            (vec![filled(random, WRITE), code, table], entries)
        }
        Layout::Underlaid => {
            let mut under = routines.to_vec();
            under.resize(0x1000, 0x5a);
            let over = Segment::whole(CODE, EXECUTE, routines[..0x80].to_vec());
            let over = Segment { memory_bytes: 0x1000, ..over };
            let under = Segment::whole(CODE, WRITE, under);
            // Routines after those of the upper segment.
            let entries = [0, 0x40, 0x80, 0xc0, 0x200].map(|at| CODE + at).to_vec();
            (vec![filled(random, WRITE), under, over], entries)
        }
    }
}

fn overlapping(random: &mut Random) -> Vec<Segment> {
    vec![
        segment(random, OVERLAPPED, 0x1000, 0x1000, WRITE),
        segment(random, OVERLAPPED + 0x800, 0x700, 0x700, WRITE),
        segment(random, OVERLAPPED + 0x1000, 0x2000, 0x2000, WRITE),
        segment(random, OVERLAPPED + 0x2010, 0x1200, 0x1fe0, WRITE),
        segment(random, OVERLAPPED + 0x3800, 0x10, 0x20, WRITE),
    ]
}

/// A segment of random nonzero bytes, `file` of them in the file.
fn segment(random: &mut Random, address: u64, file: u64, memory_bytes: u64, flags: u32) -> Segment {
    let bytes = (0..file).map(|_| 1 + random.below(255) as u8).collect();
    Segment { address, flags, bytes, memory_bytes }
}
