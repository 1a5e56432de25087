//! Functions written again where there is room: windows may be longer there than they were.
//!
//! The old code stays, and whoever comes to it by an address finds it as it was. What calls a function by its
//! place is sent to the copy. A copy is the same row of instructions, but for windows; places in it stand for
//! the old ones, and what code computes of its own address is a constant.

use std::collections::BTreeMap;

use antares_program::{Function, Instruction, Op, Program};

use crate::{
    encode::{Line, branch, branch_distance, jump, short, wide},
    patch::Patches,
};

/// The lowest address of a copy: pointers that are nothing stay without code behind them.
pub(crate) const LOWEST: u64 = 0x1000;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 0x1000;

/// What stands in a copy for some instructions of its function.
#[derive(Clone, Debug)]
enum Part {
    /// Bytes that mean the same everywhere; with the number of the window that they are.
    Same { bytes: Vec<u8>, window: Option<usize> },
    /// A branch, as it is with no distance; far ones go over a jump.
    Branch { word: u32, to: u64, is_far: bool },
    /// A jump, or a call that leaves where it returns to in a register.
    Jump { link: u8, to: u64 },
    /// A constant: what was the sum of a place and a distance.
    Constant { register: u8, value: i64 },
}

/// A part, and where it was.
#[derive(Clone, Debug)]
struct Piece {
    pc: u64,
    part: Part,
}

/// A function to be written again.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    entry: u64,
    pieces: Vec<Piece>,
}

/// A window of a function, by its number, and its bytes in the copy.
pub(crate) struct NewWindow<'a> {
    pub(crate) number: usize,
    pub(crate) length: usize,
    /// None if it is there as it was.
    pub(crate) bytes: Option<&'a [u8]>,
}

/// Copies with their addresses.
pub(crate) struct Laid {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    /// Where functions begin now.
    entries: BTreeMap<u64, u64>,
    /// Where windows are now, by their number.
    pub(crate) windows: BTreeMap<usize, u64>,
}

impl Copy {
    /// None if something in `function`, which runs in `vm_version`, cannot be somewhere else. `windows` are
    /// those that change, by address; `bytes_at` gives what stands where.
    pub(crate) fn of<'a>(
        function: &Function,
        vm_version: u32,
        windows: &BTreeMap<u64, NewWindow<'a>>,
        bytes_at: impl Fn(u64, usize) -> Option<&'a [u8]>,
    ) -> Option<Self> {
        let instructions: BTreeMap<u64, Instruction> = function
            .blocks
            .iter()
            .flat_map(|block| block.instructions.iter().map(|(pc, instruction)| (pc.0, *instruction)))
            .collect();
        // Version 0 adds the distance to the place that it returns to.
        let goes_by_own_place = |i: &Instruction| i.op == Op::Jalr && i.rd == i.rs1 && i.rd.0 != 0;
        if vm_version == 0 && instructions.values().any(goes_by_own_place) {
            return None;
        }
        let is_start = |pc: u64| function.blocks.iter().any(|block| block.pc.0 == pc);
        let mut pieces = Vec::new();
        let mut next = *instructions.keys().next()?;
        for (&pc, i) in &instructions {
            if pc < next {
                // Behind the start of a window, or the second half of a pair.
                continue;
            }
            if pc > next {
                leave(&mut pieces, next);
            }
            next = pc + u64::from(i.length);
            let part = if let Some(window) = windows.get(&pc) {
                next = pc + window.length as u64;
                let bytes = window.bytes.or_else(|| bytes_at(pc, window.length))?;
                Part::Same { bytes: bytes.to_vec(), window: Some(window.number) }
            } else if i.op == Op::Auipc {
                let second = instructions.get(&next).filter(|_| !is_start(next));
                let (part, taken) = placed(pc, i, second)?;
                next += taken;
                part
            } else {
                part(pc, i, bytes_at(pc, usize::from(i.length))?)?
            };
            pieces.push(Piece { pc, part });
        }
        leave(&mut pieces, next);
        Some(Self { entry: function.entry.0, pieces })
    }

    /// Bytes that it takes, at most.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.part.length()).sum()
    }
}

/// Goes on at `next`, unless what is before never does.
fn leave(pieces: &mut Vec<Piece>, next: u64) {
    let ends = match pieces.last().map(|piece| &piece.part) {
        Some(Part::Jump { link: 0, .. }) => true,
        Some(Part::Same { bytes, window: None }) => is_jump_to_register(bytes),
        _ => false,
    };
    if !ends {
        pieces.push(Piece { pc: next, part: Part::Jump { link: 0, to: next } });
    }
}

/// `jalr x0` or `c.jr`.
fn is_jump_to_register(bytes: &[u8]) -> bool {
    match *bytes {
        [a, b] => {
            let word = u16::from_le_bytes([a, b]);
            word & 0xf07f == 0x8002 && word & 0x0f80 != 0
        }
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) & 0xfff == 0x067,
        _ => false,
    }
}

/// What stands for `auipc` and perhaps for what follows it, whose length is told then.
fn placed(pc: u64, i: &Instruction, second: Option<&Instruction>) -> Option<(Part, u64)> {
    let value = pc.wrapping_add(i.imm.cast_unsigned());
    let pair = second.filter(|second| second.rs1 == i.rd && second.rd == i.rd);
    let sum = |second: &Instruction| value.wrapping_add(second.imm.cast_unsigned());
    match pair {
        Some(add) if add.op == Op::Addi => Some((constant(i.rd.0, sum(add))?, u64::from(add.length))),
        Some(call) if call.op == Op::Jalr => {
            Some((Part::Jump { link: i.rd.0, to: sum(call) & !1 }, u64::from(call.length)))
        }
        _ => Some((constant(i.rd.0, value)?, 0)),
    }
}

fn constant(register: u8, value: u64) -> Option<Part> {
    // Beyond this `addiw` would make another number of it.
    i32::try_from(value).ok().filter(|value| *value < i32::MAX - 0x800)?;
    Some(Part::Constant { register, value: value.cast_signed() })
}

/// What stands for an instruction that is in no window that changes.
fn part(pc: u64, i: &Instruction, bytes: &[u8]) -> Option<Part> {
    let to = pc.wrapping_add(i.imm.cast_unsigned());
    Some(match i.op {
        Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => {
            Part::Branch { word: branch(i)?, to, is_far: false }
        }
        Op::Jal => Part::Jump { link: i.rd.0, to },
        _ => Part::Same { bytes: bytes.to_vec(), window: None },
    })
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Same { bytes, .. } => bytes.len() as u64,
            Self::Branch { is_far: true, .. } => 8,
            Self::Branch { .. } | Self::Jump { .. } => 4,
            Self::Constant { register, value } => {
                constant_words(*register, *value).map_or(8, |bytes| bytes.len() as u64)
            }
        }
    }
}

/// `lui` and `addiw`, which ckb-vm takes as one.
fn constant_words(register: u8, value: i64) -> Option<Vec<u8>> {
    let low = value << 52 >> 52;
    let upper = Line { op: Op::Lui, rd: register, rs1: 0, rs2: 0, imm: value - low };
    let mut bytes = wide(upper)?.to_le_bytes().to_vec();
    if low != 0 {
        let rest = Line { op: Op::Addiw, rd: register, rs1: register, rs2: 0, imm: low };
        match short(rest) {
            Some(word) => bytes.extend(word.to_le_bytes()),
            None => bytes.extend(wide(rest)?.to_le_bytes()),
        }
    }
    Some(bytes)
}

/// Addresses and bytes for `copies` below `limit`. Windows for which there are `old` bytes get those.
pub(crate) fn lay_out<'a>(
    copies: &[Copy],
    limit: u64,
    old: impl Fn(usize) -> Option<&'a [u8]>,
) -> Option<Laid> {
    let mut copies = copies.to_vec();
    for piece in copies.iter_mut().flat_map(|copy| &mut copy.pieces) {
        if let Part::Same { bytes, window: Some(window) } = &mut piece.part
            && let Some(old) = old(*window)
        {
            *bytes = old.to_vec();
        }
    }
    // What is far makes others far.
    loop {
        let places = Places::of(&copies, limit)?;
        let mut are_near = true;
        for (index, copy) in copies.iter_mut().enumerate() {
            for piece in &mut copy.pieces {
                let Some(here) = places.of_pieces[index].get(&piece.pc) else { continue };
                if let Part::Branch { to, is_far, .. } = &mut piece.part
                    && !*is_far
                    && branch_distance(distance(*here, places.after(index, piece.pc, *to))).is_none()
                {
                    (*is_far, are_near) = (true, false);
                }
            }
        }
        if are_near {
            return places.write(&copies);
        }
    }
}

/// Where everything is.
struct Places {
    base: u64,
    entries: BTreeMap<u64, u64>,
    /// Of each copy: the places of its parts, by where they were.
    of_pieces: Vec<BTreeMap<u64, u64>>,
    windows: BTreeMap<usize, u64>,
}

impl Places {
    fn of(copies: &[Copy], limit: u64) -> Option<Self> {
        let length: u64 = copies.iter().map(Copy::bytes_max).sum();
        let base = limit.checked_sub(length)? / PAGE * PAGE;
        if base < LOWEST {
            return None;
        }
        let mut places =
            Self { base, entries: BTreeMap::new(), of_pieces: Vec::new(), windows: BTreeMap::new() };
        let mut at = base;
        for copy in copies {
            let mut of_copy = BTreeMap::new();
            for piece in &copy.pieces {
                of_copy.entry(piece.pc).or_insert(at);
                if let Part::Same { window: Some(window), .. } = &piece.part {
                    places.windows.insert(*window, at);
                }
                at += piece.part.length();
            }
            places.entries.insert(copy.entry, *of_copy.get(&copy.entry)?);
            places.of_pieces.push(of_copy);
        }
        Some(places)
    }

    /// Where the part at `from` goes to when it goes to `to`: the copy of another function, if there is one.
    fn after(&self, copy: usize, from: u64, to: u64) -> u64 {
        // What only goes on behind a gap stands at the place where it goes.
        let inside = self.of_pieces[copy].get(&to).filter(|_| from != to);
        inside.or_else(|| self.entries.get(&to)).copied().unwrap_or(to)
    }

    fn write(self, copies: &[Copy]) -> Option<Laid> {
        let mut bytes = Vec::new();
        for (index, copy) in copies.iter().enumerate() {
            for piece in &copy.pieces {
                let here = self.base + bytes.len() as u64;
                match &piece.part {
                    Part::Same { bytes: same, .. } => bytes.extend(same),
                    Part::Branch { word, to, is_far } => {
                        let to = self.after(index, piece.pc, *to);
                        bytes.extend(branch_to(*word, here, to, *is_far)?);
                    }
                    Part::Jump { link, to } => {
                        let to = self.after(index, piece.pc, *to);
                        bytes.extend(jump_to(here, to, *link)?.to_le_bytes());
                    }
                    Part::Constant { register, value } => bytes.extend(constant_words(*register, *value)?),
                }
            }
        }
        Some(Laid { base: self.base, bytes, entries: self.entries, windows: self.windows })
    }
}

/// A branch at `from`; or its opposite over a jump.
fn branch_to(word: u32, from: u64, to: u64, is_far: bool) -> Option<Vec<u8>> {
    if !is_far {
        return Some((word | branch_distance(distance(from, to))?).to_le_bytes().to_vec());
    }
    let over = word ^ 0x1000 | branch_distance(8)?;
    Some([over, jump_to(from + 4, to, 0)?].map(u32::to_le_bytes).concat())
}

fn distance(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

fn jump_to(from: u64, to: u64, link: u8) -> Option<u32> {
    Some(jump(distance(from, to))? | u32::from(link) << 7)
}

impl Laid {
    /// Sends what calls a copied function by its place to the copy, and adds the copies to the file.
    pub(crate) fn write(&self, program: &Program, patches: &mut Patches) -> Option<()> {
        let blocks = program.functions.iter().flat_map(|function| &function.blocks);
        for block in blocks {
            let Some((pc, last)) = block.instructions.last() else { continue };
            if last.op == Op::Jal && last.length == 4 {
                let to = pc.0.wrapping_add(last.imm.cast_unsigned());
                let Some(new) = self.entries.get(&to) else { continue };
                patches.write(pc.0, &jump_to(pc.0, *new, last.rd.0)?.to_le_bytes()).ok()?;
            }
            let Some([(first_pc, first), _]) = block.instructions.last_chunk() else { continue };
            let is_call = first.op == Op::Auipc && last.op == Op::Jalr && last.rs1 == first.rd;
            let is_call = is_call && program.options.vm_version > 0;
            if is_call && last.rd == first.rd && last.length == 4 {
                let to = first_pc.0.wrapping_add((first.imm + last.imm).cast_unsigned()) & !1;
                let Some(new) = self.entries.get(&to) else { continue };
                let distance = distance(first_pc.0, *new);
                let low = distance << 52 >> 52;
                let upper = Line { op: Op::Lui, rd: first.rd.0, rs1: 0, rs2: 0, imm: distance - low };
                let link = u32::from(first.rd.0);
                let low = u32::try_from(low & 0xfff).ok()?;
                let words = [wide(upper)? & !0x7f | 0x17, low << 20 | link << 15 | link << 7 | 0x67];
                patches.write(first_pc.0, &words.map(u32::to_le_bytes).concat()).ok()?;
            }
        }
        patches.add_code(self.base, &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn piece(pc: u64, part: Part) -> Piece {
        Piece { pc, part }
    }

    #[test]
    fn a_branch_that_is_far_in_the_copy_goes_over_a_jump() {
        let long = |length: usize| {
            // `beqz a0` over the rest, which ends with a return.
            let branch = Part::Branch { word: 0x0005_0063, to: 0x2000, is_far: false };
            let same = |bytes: Vec<u8>| Part::Same { bytes, window: None };
            let pieces = vec![
                piece(0x1000, branch),
                piece(0x1004, same([1, 0].repeat(length / 2))),
                piece(0x2000, same(vec![0x82, 0x80])),
            ];
            lay_out(&[Copy { entry: 0x1000, pieces }], 0x10000, |_| None).unwrap()
        };
        let near = long(4090);
        assert_eq!(near.bytes[..4], 0x7e05_0fe3_u32.to_le_bytes(), "4094 ahead");
        let far = long(4092);
        // `bnez a0` over a jump of 4,096 bytes.
        assert_eq!(far.bytes[..8], [0x0005_1463_u32.to_le_bytes(), 0x0000_106f_u32.to_le_bytes()].concat());
        assert_eq!((near.base, far.base), (0xf000, 0xe000));
    }

    #[test]
    fn nothing_is_laid_where_there_is_no_room() {
        let same = Part::Same { bytes: vec![1, 0], window: None };
        let copies = [Copy { entry: 0x9000, pieces: vec![piece(0x9000, same)] }];
        assert!(lay_out(&copies, 0x1001, |_| None).is_none());
        assert_eq!(lay_out(&copies, 0x2000, |_| None).unwrap().base, 0x1000);
    }
}
